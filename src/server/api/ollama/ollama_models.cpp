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

int64_t modified_time(const ServedModel& model) {
  const int64_t time = model.served().facts.modified;
  return time ? time : model.created();
}

// Distinguishes models and their versions as clients expect of a digest. It is not that of the file: reading all of a
// large one would take minutes.
std::string digest_of(const ServedModel& model) {
  const ModelFacts& facts = model.served().facts;
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", model.served().name, facts.architecture,
                                       facts.quantization, facts.parameters, facts.file_bytes, facts.modified);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string family_of(const ServedModel& model) {
  const std::string& architecture = model.served().facts.architecture;
  return architecture.empty() ? "unknown" : valid_text(architecture);
}

Ordered details_of(const ServedModel& model) {
  const ModelFacts& facts = model.served().facts;
  const std::string family = family_of(model);
  return {{"parent_model", ""},
          {"format", facts.format},
          {"family", family},
          {"families", {family}},
          {"parameter_size", parameter_size(facts.parameters)},
          {"quantization_level", facts.quantization},
          {"context_length", model.context()},
          {"embedding_length", model.served().width}};
}

Ordered capabilities_of(const ServedModel& model) {
  Ordered all = Ordered::array();
  if (model.served().generates) all.push_back("completion");
  if (const chat::ChatFormat* format = model.chat_format()) {
    if (format->tools_in_template) all.push_back("tools");
    if (!chat::thought_marks(*format).end.empty()) all.push_back("thinking");
  }
  if (model.served().embeds) all.push_back("embedding");
  return all;
}

Ordered model_info_of(const ServedModel& model) {
  const Served& served = model.served();
  const std::string family = family_of(model);
  return {{"general.architecture", family},
          {"general.basename", valid_text(served.name)},
          {"general.parameter_count", served.facts.parameters},
          {family + ".context_length", served.context},
          {family + ".embedding_length", served.width},
          {family + ".block_count", served.facts.layers},
          {family + ".vocab_size", served.vocabulary}};
}

Ordered named_model(const ServedModel& model, uint64_t size) {
  const std::string name = valid_text(ollama_name(model.served().name));
  return {
      {"name", name}, {"model", name}, {"size", size}, {"digest", digest_of(model)}, {"details", details_of(model)}};
}

// As a Modelfile has them: what is in force where a request does not say otherwise.
std::string parameters_text(const ServedModel& model) {
  std::string out;
  const auto line = [&out](std::string_view name, auto value) { out += fmt::format("{:<30} {}\n", name, value); };
  line("num_ctx", model.context());
  line("temperature", 0.8);
  line("top_k", 40);
  line("top_p", 0.9);
  out.pop_back();
  return out;
}

}  // namespace

std::string ollama_name(std::string_view served) {
  const size_t slash = served.rfind('/');
  const bool has_tag = served.find(':', slash == served.npos ? 0 : slash) != served.npos;
  return std::string(served) + (has_tag ? "" : ":latest");
}

bool is_same_ollama_model(std::string_view asked, std::string_view served) {
  return ollama_name(asked) == ollama_name(served);
}

void expect_ollama_model(const Call& call, const std::string& name) {
  const std::string& served = call.model->served().name;
  if (!name.empty() && !is_same_ollama_model(name, served) && !call.service.options().any_model)
    throw ApiError(404, "model_not_found", "model", "model {} not found: the model served is {}", in_quotes(name, 100),
                   in_quotes(served, 200));
  call.exchange->log().model = served;
}

void ollama_tags(const Call& call) {
  Ordered model = named_model(*call.model, call.model->served().facts.file_bytes);
  model["modified_at"] = time_text(modified_time(*call.model));
  model["capabilities"] = capabilities_of(*call.model);
  call.exchange->send_json(Ordered{{"models", Ordered::array({model})}}.dump());
}

void ollama_show(const Call& call) {
  const OllamaModelRequest request = call.read(read_ollama_model);
  expect_ollama_model(call, request.model);
  const Served& served = call.model->served();
  const Ordered page{
      {"license", valid_text(served.facts.license)},  {"modelfile", "FROM " + valid_text(served.name)},
      {"parameters", parameters_text(*call.model)},   {"template", valid_text(served.chat_template)},
      {"details", details_of(*call.model)},           {"model_info", model_info_of(*call.model)},
      {"capabilities", capabilities_of(*call.model)}, {"modified_at", time_text(modified_time(*call.model))}};
  call.exchange->send_json(page.dump());
}

void ollama_ps(const Call& call) {
  const ModelFacts& facts = call.model->served().facts;
  Ordered model = named_model(*call.model, facts.memory);
  model["expires_at"] = never;
  model["size_vram"] = facts.gpu_memory;
  model["context_length"] = call.model->context();
  call.exchange->send_json(Ordered{{"models", Ordered::array({model})}}.dump());
}

void ollama_version(const Call& call) { call.exchange->send_json(Ordered{{"version", api_version}}.dump()); }

void ollama_pull(const Call& call) {
  const OllamaModelRequest request = call.read(read_ollama_model);
  const std::string& served = call.model->served().name;
  if (!is_same_ollama_model(request.model, served))
    throw ApiError(501, "not_supported", "model",
                   "heddle does not pull models: download the file of {} and start heddle serve FILE; the model served "
                   "is {}",
                   in_quotes(request.model, 100), in_quotes(served, 200));
  const std::string success = R"({"status":"success"})";
  if (!request.stream) return call.exchange->send_json(success);
  call.exchange->start_stream("application/x-ndjson", success + "\n");
  call.exchange->finish();
}

void ollama_has_no_store(const Call& call) {
  throw ApiError(501, "not_supported", "",
                 "{} {}: heddle serves one model from a file and keeps no others: start heddle serve FILE for another",
                 call.exchange->request().method, in_quotes(call.exchange->request().path, 100));
}

}  // namespace heddle::server
