#include "server/api/openai/openai_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/prompts.h"

namespace heddle::server {
namespace {

// Every completion has its own copy of the stop strings and looks for them in every token's text.
constexpr size_t max_stop_strings = 16, max_stop_bytes = 256;
constexpr size_t max_stop_tokens = 128;
constexpr int64_t max_n = 128, min_priority = -100;

// An empty list asks for nothing.
bool has_elements(const Json* list) { return list && !(list->is_array() && list->empty()); }

std::vector<std::string> read_stop_strings(Fields& fields) {
  std::vector<std::string> stops;
  const auto add = [&stops](const Json& stop, const std::string& place) {
    const std::string& text = stops.emplace_back(text_at(stop, place));
    if (text.empty()) throw unexpected(place, "a text", stop, "empty_string");
    if (text.size() > max_stop_bytes)
      throw unexpected(place, fmt::format("at most {} bytes", max_stop_bytes), stop, "string_above_max_length");
  };
  const Json* value = fields.find("stop");
  if (!has_elements(value)) return stops;
  if (value->is_string()) {
    add(*value, "stop");
    return stops;
  }
  if (!value->is_array()) throw unexpected("stop", "a string or a list of strings", *value);
  for (const Json& stop : list_at(*value, "stop", max_stop_strings)) add(stop, element("stop", stops.size()));
  return stops;
}

engine::Speculation read_speculation(Fields& fields) {
  const std::string name = fields.text("speculate").value_or("auto");
  if (const auto speculation = engine::speculation_named(name)) return *speculation;
  throw unexpected("speculate", "\"auto\", \"on\" or \"off\"", name, "invalid_value");
}

// Fields of OpenAI's API, and of other servers that speak it, for things that heddle does not do.
struct Unsupported {
  std::string_view name;
  const char* accepted;  // JSON, a list: values besides null that ask for nothing
  std::string_view what;
};
constexpr std::string_view tools = "tool calls", constraints = "constrained output", text_only = "anything but text",
                           effort = "a choice of effort", storing = "storing of responses";
constexpr Unsupported unsupported[] = {
    {"tools", "[[]]", tools},
    {"tool_choice", R"(["none", "auto"])", tools},
    {"parallel_tool_calls", "[true, false]", tools},
    {"functions", "[[]]", tools},
    {"function_call", R"(["none", "auto"])", tools},
    {"response_format", R"([{"type": "text"}])", constraints},
    {"json_schema", "[{}]", constraints},
    {"grammar", R"([""])", constraints},
    {"modalities", R"([["text"]])", text_only},
    {"audio", "[]", text_only},
    {"prediction", "[]", "predicted output"},
    {"web_search_options", "[]", "searches"},
    {"reasoning_effort", "[]", effort},
    {"verbosity", R"(["medium"])", effort},
    {"store", "[false]", storing},
    {"metadata", "[{}]", storing},
    {"prompt_cache_retention", R"(["in_memory"])", "a choice of how long prompts are kept"},
    {"service_tier", R"(["auto", "default"])", "tiers of service"},
    {"suffix", R"([""])", "insertion before a suffix"},
    {"continue_final_message", "[false]", "continuation of the last message"},
};

}  // namespace

StreamOptions read_stream_options(Fields& fields) {
  StreamOptions options{.stream = fields.flag_or("stream", false)};
  const Json* value = fields.find("stream_options");
  if (!value) return options;
  if (!options.stream) throw bad_field("stream_options", "stream_options: only together with \"stream\": true");
  Fields inner(*value, "stream_options");
  options.include_usage = inner.flag_or("include_usage", false);
  if (inner.flag_or("include_obfuscation", false))
    throw unexpected("stream_options.include_obfuscation", "false", true, "unsupported_value");
  inner.finish();
  return options;
}

void read_generation(Fields& fields, const RequestRules& rules, GenerationRequest& request) {
  read_sampling(fields, rules, request);
  request.stop_strings = read_stop_strings(fields);
  if (const Json* ids = fields.find("stop_token_ids"); has_elements(ids))
    request.stop_tokens =
        token_ids_at(list_at(*ids, "stop_token_ids", max_stop_tokens), "stop_token_ids", rules.vocabulary);
  request.ignore_eos = fields.flag_or("ignore_eos", false);
  request.n = uint32_t(fields.whole("n", 1, max_n).value_or(1));
  request.best_of = request.n;
  // a client may lower its own priority, not raise it
  request.priority = int(fields.whole("priority", min_priority, 0).value_or(0));
  request.speculation = read_speculation(fields);
  request.reuse = fields.flag_or("cache_prompt", true);
  fields.text("prompt_cache_key");  // a hint which prompts share a prefix: that is found without it
  request.user = read_user(fields);
}

void set_logprobs(Fields& fields, const RequestRules& rules, std::optional<int64_t> top, engine::Sampling& sampling) {
  sampling.logprobs_after = fields.flag_or("logprobs_after", false);
  if (top)
    sampling.logprobs = std::min(uint32_t(*top), rules.vocabulary);
  else if (sampling.logprobs_after)
    throw bad_field("logprobs_after", "logprobs_after: only together with logprobs");
}

void refuse_unsupported(Fields& fields) {
  static const std::vector<Json> accepted = [] {
    std::vector<Json> all;
    for (const Unsupported& field : unsupported) all.push_back(Json::parse(field.accepted));
    return all;
  }();
  for (size_t i = 0; i < std::size(unsupported); ++i) {
    const auto& [name, text, what] = unsupported[i];
    const Json* value = fields.find(name);
    if (!value || std::find(accepted[i].begin(), accepted[i].end(), *value) != accepted[i].end()) continue;
    std::string expected = "null";
    for (const Json& one : accepted[i]) expected += " or " + one.dump();
    throw ApiError(400, "unsupported_parameter", fields.place(name),
                   "{}: heddle does not support {}; expected {}, found {}", fields.place(name), what, expected,
                   shortened(*value));
  }
}

std::string read_user(Fields& fields) { return fields.text(fields.either("user", "safety_identifier")).value_or(""); }

}  // namespace heddle::server
