// The bodies of /api/chat and /api/generate.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "server/api/json.h"
#include "server/api/ollama/ollama.h"
#include "server/api/ollama/ollama_messages.h"
#include "server/api/openai/openai.h"
#include "server/api/openai/openai_tools.h"
#include "server/service/models.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

// Options about how a model is loaded and computed, and of steps that Ollama has given up itself.
constexpr std::string_view options_without_effect[] = {
    "num_ctx",    "num_keep",   "num_batch",       "num_gpu",   "main_gpu",       "num_thread",        "numa",
    "low_vram",   "f16_kv",     "use_mmap",        "use_mlock", "embedding_only", "draft_num_predict", "tfs_z",
    "logits_all", "vocab_only", "penalize_newline"};

// -1 and -2: until the context is full.
std::optional<uint32_t> read_num_predict(Fields& options) {
  const Json* value = options.find("num_predict");
  return value && *value == -2 ? std::nullopt : read_token_limit(options, "num_predict", 0);
}

void read_options(Fields& fields, const RequestRules& rules, GenerationRequest& generation) {
  static const Json none = Json::object();
  const Json* value = fields.find("options");
  Fields options(value ? *value : none, "options", fields);
  read_generation(options, rules, generation);
  if (generation.n != 1) throw unexpected("options.n", "1", generation.n, "unsupported_value");
  engine::Sampling& sampling = generation.sampling;
  if (const Json* seed = options.find("seed"); seed && *seed == -1) sampling.seed.reset();  // random
  // Ollama's defaults
  if (!options.find("temperature")) sampling.temperature = 0.8f;
  if (!options.find("top_k") && !sampling.mirostat) sampling.top_k = 40;
  if (!options.find("top_p") && !sampling.mirostat) sampling.top_p = 0.9f;
  generation.max_tokens = read_num_predict(options);
  for (const std::string_view name : options_without_effect) options.ignore(name);
  options.finish();
}

std::optional<ConstraintField> read_ollama_format(Fields& fields, std::string_view body) {
  constexpr auto schema = grammar::Source::Kind::json_schema;
  const Json* format = fields.find("format");
  if (!format || *format == "") return std::nullopt;
  if (*format == "json") return ConstraintField{{schema, R"({"type":"object"})"}, "format"};
  if (!format->is_object()) throw unexpected("format", "\"json\" or a JSON Schema", *format, "invalid_value");
  return ConstraintField{{schema, Ordered::parse(body)["format"].dump()}, "format"};
}

void read_think(Fields& fields, OllamaRequest& request) {
  const Json* think = fields.find("think");
  if (!think) return;
  constexpr std::string_view levels[] = {"low", "medium", "high", "max"};
  if (think->is_boolean()) {
    request.think = think->get<bool>();
    if (!*request.think) request.thinking.effort = "none";
  } else if (think->is_string() && std::ranges::find(levels, think->get<std::string>()) != std::end(levels)) {
    request.think = true;
    request.thinking.effort = think->get<std::string>();
  } else {
    throw unexpected("think", "true, false, \"low\", \"medium\", \"high\" or \"max\"", *think, "invalid_value");
  }
}

void read_ollama_logprobs(Fields& fields, const RequestRules& rules, engine::Sampling& sampling) {
  const bool wanted = fields.flag_or("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, max_top_logprobs);
  if (!wanted && top.value_or(0) > 0) fields.ignore("top_logprobs");
  set_logprobs(fields, rules, wanted ? std::optional(top.value_or(0)) : std::nullopt, sampling);
}

// A number of seconds, or a text such as "5m" or "0s".
bool is_zero_duration(const Json& value) {
  if (value.is_number()) return value == 0;
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.find('0') != text.npos && text.find_first_of("123456789") == text.npos;
}

// Seconds that the model stays in memory after the request; negative: for good.
std::optional<double> read_keep_alive(Fields& fields, const RequestRules& rules) {
  const Json* value = fields.find("keep_alive");
  if (!rules.unloads_models) fields.ignore("keep_alive");
  if (!value || !rules.unloads_models) return std::nullopt;
  const auto seconds = value->is_number()   ? std::optional(value->get<double>())
                       : value->is_string() ? read_duration(value->get_ref<const std::string&>())
                                            : std::nullopt;
  if (!seconds)
    throw unexpected("keep_alive", "a number of seconds, or a duration such as \"10m\"", *value, "invalid_value");
  return *seconds < 0 ? ModelsOptions::forever : *seconds;
}

// All but messages and prompt.
void read_common(Fields& fields, std::string_view body, const RequestRules& rules, OllamaRequest& request) {
  request.model = fields.text("model").value_or("");
  request.stream = fields.flag_or("stream", true);
  read_options(fields, rules, request.generation);
  request.generation.constraint = read_ollama_format(fields, body);
  read_think(fields, request);
  read_ollama_logprobs(fields, rules, request.generation.sampling);
  refuse_unless_empty(fields, "_debug_render_only", "a prompt in place of its answer: use /apply-template");
  request.keep_alive = read_keep_alive(fields, rules);
  for (const std::string_view name : {"truncate", "shift"}) fields.ignore(name);
}

std::string load_reason(Fields& fields) {
  const Json* keep_alive = fields.find("keep_alive");
  return keep_alive && is_zero_duration(*keep_alive) ? "unload" : "load";
}

}  // namespace

void refuse_unless_empty(Fields& fields, std::string_view name, std::string_view what) {
  const Json* value = fields.find(name);
  if (!value || *value == "" || *value == false || (value->is_array() && value->empty())) return;
  throw ApiError(400, "unsupported_parameter", fields.place(name),
                 "{}: heddle does not support {}; expected null, found {}", fields.place(name), what,
                 shortened(*value));
}

OllamaRequest read_ollama_chat(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OllamaRequest request;
  request.conversation.messages = read_ollama_messages(fields, body);
  if (request.conversation.messages.empty()) request.loads = load_reason(fields);
  request.tools = read_tools(fields, body);
  read_common(fields, body, rules, request);
  fields.finish();
  return request;
}

OllamaRequest read_ollama_generate(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OllamaRequest request;
  request.form = OllamaForm::generate;
  refuse_unless_empty(fields, "images", "images");
  refuse_unless_empty(fields, "suffix", "insertion before a suffix");
  refuse_unless_empty(fields, "template", "another template than the model's");
  refuse_unless_empty(fields, "context", "the context of an earlier answer: send its messages to /api/chat");
  const std::string prompt = fields.text("prompt").value_or(""), system = fields.text("system").value_or("");
  const bool raw = fields.flag_or("raw", false);
  if (raw && !system.empty())
    throw bad_field("system", "system: expected none with \"raw\": true, where the prompt has everything, found {}",
                    shortened(system));
  if (prompt.empty()) request.loads = load_reason(fields);
  if (raw) request.raw = prompt;
  request.conversation.field = "prompt";
  Ordered messages = Ordered::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  request.conversation.messages = messages.dump();
  read_common(fields, body, rules, request);
  fields.finish();
  return request;
}

OllamaEmbedRequest read_ollama_embed(std::string_view body, const RequestRules& rules) {
  constexpr size_t max_inputs = 2048;
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OllamaEmbedRequest request{.model = fields.text("model").value_or("")};
  const Json* input = fields.find("input");
  if (input && input->is_string()) {
    if (*input != "") request.inputs.push_back(input->get<std::string>());
  } else if (input && !(input->is_array() && input->empty())) {
    if (!input->is_array()) throw unexpected("input", "a string or a list of strings", *input);
    for (const Json& one : list_at(*input, "input", max_inputs))
      request.inputs.push_back(text_at(one, element("input", request.inputs.size())));
  }
  request.truncate = fields.flag_or("truncate", true);
  if (const auto dimensions = fields.whole("dimensions", 0, UINT32_MAX); dimensions.value_or(0) > 0)
    request.dimensions = uint32_t(*dimensions);
  request.keep_alive = read_keep_alive(fields, rules);
  fields.ignore("options");
  fields.finish();
  return request;
}

OllamaEmbedRequest read_ollama_embeddings(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OllamaEmbedRequest request{.model = fields.text("model").value_or("")};
  if (auto prompt = fields.text("prompt"); prompt && !prompt->empty()) request.inputs.push_back(std::move(*prompt));
  request.keep_alive = read_keep_alive(fields, rules);
  fields.ignore("options");
  fields.finish();
  return request;
}

OllamaModelRequest read_ollama_model(std::string_view body, IgnoredFields* ignored) {
  const Json json = parse_body(body);
  Fields fields(json, ignored);
  OllamaModelRequest request;
  const auto model = fields.text("model"), name = fields.text("name");  // the old name of the field
  request.model = model && !model->empty() ? *model : name.value_or("");
  if (request.model.empty()) fields.at("model");  // refuses
  request.stream = fields.flag_or("stream", true);
  for (const std::string_view each : {"verbose", "system", "template", "options", "insecure", "username", "password"})
    fields.ignore(each);
  fields.finish();
  return request;
}

}  // namespace heddle::server
