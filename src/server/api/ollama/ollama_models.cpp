// What clients ask about the model before they use it, and what they may want to do with models that heddle does not.
#include <openssl/sha.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json.h"
#include "server/api/ollama/ollama.h"
#include "server/service/service_state.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

// The Ollama version reported to clients. Copilot requires at least 0.6.4, Codex at least 0.13.4.
constexpr std::string_view api_version = "0.13.4";
constexpr std::string_view never = "2200-01-01T00:00:00Z";  // the model is not unloaded

std::string time_text(int64_t seconds) {
  return iso_time(std::chrono::system_clock::time_point(std::chrono::seconds(seconds)));
}

// "8.2B", "134.52M", "3K".
std::string parameter_size(uint64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", double(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f}M", double(count) / 1e6);
  if (count >= 1'000) return fmt::format("{:.0f}K", double(count) / 1e3);
  return std::to_string(count);
}

std::string valid_text(const std::string& text) { return replace_invalid_utf8(text); }

int64_t modified_time(const ListedModel& model) {
  const int64_t time = model.card.facts.modified;
  return time ? time : model.created;
}

// Distinguishes models and their versions as clients expect of a digest. It is not that of the file: reading all of a
// large one would take minutes.
std::string digest_of(const ModelCard& card) {
  const ModelFacts& facts = card.facts;
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", card.name, facts.architecture, facts.quantization,
                                       facts.parameters, facts.file_bytes, facts.modified);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string family_of(const ModelCard& card) {
  return card.facts.architecture.empty() ? "unknown" : valid_text(card.facts.architecture);
}

Ordered details_of(const ModelCard& card) {
  const std::string family = family_of(card);
  return {{"parent_model", ""},
          {"format", card.facts.format},
          {"family", family},
          {"families", {family}},
          {"parameter_size", parameter_size(card.facts.parameters)},
          {"quantization_level", card.facts.quantization},
          {"context_length", card.context},
          {"embedding_length", card.width}};
}

Ordered capabilities_of(const ListedModel& model) {
  Ordered all = Ordered::array();
  if (model.card.generates) all.push_back("completion");
  if (const chat::ChatFormat* format = model.chat_format.get()) {
    if (format->tools_in_template) all.push_back("tools");
    if (!chat::thought_marks(*format).end.empty()) all.push_back("thinking");
  }
  if (model.card.embeds) all.push_back("embedding");
  return all;
}

Ordered model_info_of(const ModelCard& card) {
  const std::string family = family_of(card);
  return {{"general.architecture", family},
          {"general.basename", valid_text(card.name)},
          {"general.parameter_count", card.facts.parameters},
          {family + ".context_length", card.context},
          {family + ".embedding_length", card.width},
          {family + ".block_count", card.facts.layers},
          {family + ".vocab_size", card.vocabulary}};
}

Ordered named_model(const ModelCard& card, uint64_t size) {
  const std::string name = valid_text(ollama_name(card.name));
  return {{"name", name}, {"model", name}, {"size", size}, {"digest", digest_of(card)}, {"details", details_of(card)}};
}

// As a Modelfile has them: what is in force where a request does not say otherwise.
std::string parameters_text(const ModelCard& card) {
  std::string out;
  const auto line = [&out](std::string_view name, auto value) { out += fmt::format("{:<30} {}\n", name, value); };
  line("num_ctx", card.context);
  line("temperature", 0.8);
  line("top_k", 40);
  line("top_p", 0.9);
  out.pop_back();
  return out;
}

ApiError ollama_not_found(const Call& call, const std::string& name) {
  return {404,
          "model_not_found",
          "model",
          "model {} not found: served here: {}",
          in_quotes(name, 100),
          call.service.models().names()};
}

}  // namespace

std::string ollama_name(std::string_view served) {
  const size_t slash = served.rfind('/');
  const bool has_tag = served.find(':', slash == served.npos ? 0 : slash) != served.npos;
  return std::string(served) + (has_tag ? "" : ":latest");
}

void expect_ollama_model(const Call& call, const std::string& name) {
  if (!name.empty() && call.service.models().find(name) != call.model->card().name && !call.service.options().any_model)
    throw ollama_not_found(call, name);
  call.exchange->log().model = call.model->card().name;
}

void ollama_tags(const Call& call) {
  Ordered all = Ordered::array();
  for (const ListedModel& model : call.service.models().list()) {
    Ordered one = named_model(model.card, model.card.facts.file_bytes);
    one["modified_at"] = time_text(modified_time(model));
    one["capabilities"] = capabilities_of(model);
    all.push_back(std::move(one));
  }
  call.exchange->send_json(Ordered{{"models", all}}.dump());
}

void ollama_show(const Call& call) {
  const OllamaModelRequest request = call.read(read_ollama_model);
  if (!call.service.models().find(request.model) && !call.service.options().any_model)
    throw ollama_not_found(call, request.model);
  const ListedModel model = call.describe(request.model);
  const ModelCard& card = model.card;
  const Ordered page{{"license", valid_text(card.facts.license)},
                     {"modelfile", "FROM " + valid_text(card.name)},
                     {"parameters", parameters_text(card)},
                     {"template", valid_text(card.chat_template)},
                     {"details", details_of(card)},
                     {"model_info", model_info_of(card)},
                     {"capabilities", capabilities_of(model)},
                     {"modified_at", time_text(modified_time(model))}};
  call.exchange->log().model = card.name;
  call.exchange->send_json(page.dump());
}

void ollama_ps(const Call& call) {
  Ordered all = Ordered::array();
  for (const ListedModel& model : call.service.models().list()) {
    if (model.status != ModelStatus::loaded) continue;
    Ordered one = named_model(model.card, model.card.facts.memory);
    one["expires_at"] = model.keep_alive ? time_text(unix_time() + int64_t(*model.keep_alive)) : std::string(never);
    one["size_vram"] = model.card.facts.gpu_memory;
    one["context_length"] = model.card.context;
    all.push_back(std::move(one));
  }
  call.exchange->send_json(Ordered{{"models", all}}.dump());
}

void ollama_version(const Call& call) { call.exchange->send_json(Ordered{{"version", api_version}}.dump()); }

void ollama_pull(const Call& call) {
  const OllamaModelRequest request = call.read(read_ollama_model);
  if (!call.service.models().find(request.model))
    throw ApiError(
        501, "not_supported", "model",
        "heddle serve does not pull models: run heddle pull, and start heddle serve with {}; served here: {}",
        in_quotes(request.model, 100), call.service.models().names());
  const std::string success = R"({"status":"success"})";
  if (!request.stream) return call.exchange->send_json(success);
  call.exchange->start_stream("application/x-ndjson", success + "\n");
  call.exchange->finish();
}

void ollama_has_no_store(const Call& call) {
  throw ApiError(501, "not_supported", "",
                 "{} {}: heddle serve serves the models that it was started with; heddle pull and heddle rm change "
                 "those on the disk",
                 call.exchange->request().method, in_quotes(call.exchange->request().path, 100));
}

}  // namespace heddle::server
