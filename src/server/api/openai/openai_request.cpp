// Fields of bodies. Numeric sampling parameters come from one table, then the fields that are more than a number.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <variant>

#include "server/api/openai/openai.h"
#include "server/api/tokenize.h"
#include "text/tokenizer.h"

namespace heddle::server {
namespace {

using engine::Sampling;
using engine::Step;

constexpr double any = std::numeric_limits<float>::max();
constexpr double any_whole = std::numeric_limits<int32_t>::max();
constexpr size_t max_biases = 1024;
constexpr size_t max_breakers = 16, max_breaker_bytes = 100;  // each is looked for in every token of the vocabulary

// A numeric field, the member it sets, its range, and the step of the chain it is for.
struct Parameter {
  std::string_view name;
  std::variant<float Sampling::*, int32_t Sampling::*, uint32_t Sampling::*> member;
  double low, high;
  Step step;
  std::string_view other_name = {};
};

constexpr Parameter parameters[] = {
    {"temperature", &Sampling::temperature, 0, 2, Step::temperature},
    {"dynatemp_range", &Sampling::dynamic_range, 0, 2, Step::temperature},
    {"dynatemp_exponent", &Sampling::dynamic_exponent, 0, any, Step::temperature},
    {"top_k", &Sampling::top_k, -1, any_whole, Step::top_k},
    {"top_p", &Sampling::top_p, 0, 1, Step::top_p},
    {"min_p", &Sampling::min_p, 0, 1, Step::min_p},
    {"typical_p", &Sampling::typical_p, 0, 1, Step::typical_p},
    {"top_n_sigma", &Sampling::top_n_sigma, -1, any, Step::top_n_sigma},
    {"xtc_probability", &Sampling::xtc_probability, 0, 1, Step::xtc},
    {"xtc_threshold", &Sampling::xtc_threshold, 0, 1, Step::xtc},
    {"repeat_penalty", &Sampling::repetition_penalty, 0.01, 100, Step::penalties, "repetition_penalty"},
    {"repeat_last_n", &Sampling::repetition_last_n, -1, any_whole, Step::penalties},
    {"presence_penalty", &Sampling::presence_penalty, -2, 2, Step::penalties},
    {"frequency_penalty", &Sampling::frequency_penalty, -2, 2, Step::penalties},
    {"dry_multiplier", &Sampling::dry_multiplier, 0, any, Step::dry},
    {"dry_base", &Sampling::dry_base, 1, any, Step::dry},
    {"dry_allowed_length", &Sampling::dry_allowed_length, 1, any_whole, Step::dry},
    {"dry_penalty_last_n", &Sampling::dry_penalty_last_n, -1, any_whole, Step::dry},
};

template <class Number>
void read_parameter(const Parameter& parameter, std::string_view name, Number Sampling::*member, Fields& fields,
                    Sampling& sampling) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (const auto value = fields.number(name, parameter.low, parameter.high)) sampling.*member = float(*value);
  } else {
    const auto value = fields.whole(name, int64_t(parameter.low), int64_t(parameter.high));
    if (value) sampling.*member = Number(*value);
  }
}

// A request that sets a parameter of a step that is not done contradicts itself.
void refuse_parameters(const Sampling& sampling, auto&& is_done, std::string_view why) {
  static const Sampling defaults;
  for (const Parameter& parameter : parameters) {
    const bool is_set = std::visit([&](auto member) { return sampling.*member != defaults.*member; }, parameter.member);
    if (is_set && !is_done(parameter.step))
      throw ApiError(400, "invalid_value", std::string(parameter.name), "{}: is for the step {}, {}", parameter.name,
                     engine::name_of(parameter.step), why);
  }
}

void read_mirostat(Fields& fields, Sampling& sampling) {
  if (const auto version = fields.whole("mirostat", 0, 2)) {
    if (*version == 1) throw unexpected(fields.place("mirostat"), "0 (off) or 2", 1, "unsupported_value");
    sampling.mirostat = int32_t(*version);
  }
  sampling.mirostat_tau = float(fields.number("mirostat_tau", 0, any).value_or(sampling.mirostat_tau));
  sampling.mirostat_eta = float(fields.number("mirostat_eta", 0, 1).value_or(sampling.mirostat_eta));
}

// The key of a bias.
uint32_t token_id_of(const std::string& name, uint32_t vocabulary) {
  uint32_t id = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), id);
  if (end.ec != std::errc() || end.ptr != name.data() + name.size() || id >= vocabulary)
    throw unexpected("logit_bias", fmt::format("names that are token ids below {}", vocabulary), name, "invalid_value");
  return id;
}

void read_biases(Fields& fields, uint32_t vocabulary, Sampling& sampling) {
  const Json* biases = fields.find("logit_bias");
  if (!biases) return;
  if (!biases->is_object()) throw unexpected("logit_bias", "an object such as {\"42\": -1.5}", *biases);
  if (biases->size() > max_biases)
    throw ApiError(400, "invalid_value", "logit_bias", "logit_bias: expected at most {} tokens, found {}", max_biases,
                   biases->size());
  for (const auto& [name, bias] : biases->get_ref<const Json::object_t&>()) {
    const uint32_t id = token_id_of(name, vocabulary);
    if (!sampling.logit_bias.emplace(id, float(number_at(bias, "logit_bias." + std::to_string(id), -100, 100))).second)
      throw unexpected("logit_bias", "every token once", name, "invalid_value");  // "7" and "07"
  }
}

// All 64-bit numbers are taken, signed and unsigned.
void read_seed(Fields& fields, Sampling& sampling) {
  const Json* seed = fields.find("seed");
  if (!seed) return;
  const std::string place = fields.place("seed");
  if (!seed->is_number_integer() && std::abs(number_at(*seed, place, -any, any)) > 0x1p53)
    throw unexpected(place, "a whole number of 64 bits", *seed, "invalid_value");
  sampling.seed =
      seed->is_number_unsigned() ? seed->get<uint64_t>() : uint64_t(whole_at(*seed, place, INT64_MIN, INT64_MAX));
}

bool read_order(Fields& fields, Sampling& sampling) {
  const Json* names = fields.find("samplers");
  if (!names) return false;
  if (!names->is_array()) throw unexpected("samplers", "a list of names", *names);
  sampling.order.clear();
  for (size_t i = 0; i < names->size(); ++i) sampling.order.push_back(text_at((*names)[i], element("samplers", i)));
  try {
    engine::steps_of(sampling);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", "samplers", "samplers: {}", error.what());
  }
  return true;
}

void refuse_left_out(const Sampling& sampling) {
  const auto has = [&](Step step) {
    return std::find(sampling.order.begin(), sampling.order.end(), engine::name_of(step)) != sampling.order.end();
  };
  refuse_parameters(sampling, has, "which samplers leaves out");
  if (!sampling.logit_bias.empty() && !has(Step::logit_bias))
    throw ApiError(400, "invalid_value", "logit_bias",
                   "logit_bias: is for the step logit_bias, which samplers leaves out");
}

// Mirostat replaces the steps that cut the set of candidates.
void refuse_beside_mirostat(const Sampling& sampling) {
  refuse_parameters(
      sampling, [](Step step) { return step < Step::top_n_sigma || step > Step::xtc; }, "which mirostat replaces");
}

void read_breakers(Fields& fields, GenerationRequest& request) {
  std::vector<std::string> texts = text::default_dry_breakers();
  if (const Json* list = fields.find("dry_sequence_breakers")) {
    texts.clear();
    if (!list->is_array() || !list->empty()) list_at(*list, "dry_sequence_breakers", max_breakers);
    for (const Json& one : *list) {
      const std::string place = element("dry_sequence_breakers", texts.size());
      const std::string& text = texts.emplace_back(text_at(one, place));
      if (text.empty() || text.size() > max_breaker_bytes)
        throw unexpected(place, fmt::format("a text of 1 to {} bytes", max_breaker_bytes), one, "invalid_value");
    }
  }
  if (request.sampling.dry_multiplier != 0) request.dry_sequence_breakers = std::move(texts);
}

}  // namespace

void read_sampling(Fields& fields, const RequestRules& rules, GenerationRequest& request) {
  Sampling& sampling = request.sampling;
  for (const Parameter& parameter : parameters) {
    const std::string_view name =
        parameter.other_name.empty() ? parameter.name : fields.either(parameter.name, parameter.other_name);
    std::visit([&](auto member) { read_parameter(parameter, name, member, fields, sampling); }, parameter.member);
  }
  // other servers take 0 for "no such limit"
  sampling.min_keep = uint32_t(std::max<int64_t>(1, fields.whole("min_keep", 0, rules.vocabulary).value_or(1)));
  read_mirostat(fields, sampling);
  read_biases(fields, rules.vocabulary, sampling);
  read_seed(fields, sampling);
  if (read_order(fields, sampling)) refuse_left_out(sampling);
  if (sampling.mirostat) refuse_beside_mirostat(sampling);
  read_breakers(fields, request);
}

std::string sampling_limits() {
  static const Sampling defaults;
  nlohmann::ordered_json limits;
  for (const Parameter& parameter : parameters) {
    const auto limit = [](double value) {
      return value == any || value == any_whole ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
    };
    nlohmann::ordered_json& one =
        limits[std::string(parameter.name)] = {{"min", limit(parameter.low)}, {"max", limit(parameter.high)}};
    std::visit(
        [&](auto member) {
          one["default"] = defaults.*member;
          one["whole"] = std::is_integral_v<std::remove_cvref_t<decltype(defaults.*member)>>;
        },
        parameter.member);
  }
  return limits.dump();
}

namespace {

// Every completion has its own copy of the stop strings and looks for them in every token's text.
constexpr size_t max_stop_strings = 16, max_stop_bytes = 256;
constexpr size_t max_stop_tokens = 128;
constexpr int64_t max_n = 128, min_priority = -100;

// An empty list asks for nothing.
bool has_elements(const Json* list) { return list && !(list->is_array() && list->empty()); }

}  // namespace

std::vector<std::string> read_stop_strings(Fields& fields, std::string_view name) {
  std::vector<std::string> stops;
  const auto add = [&stops](const Json& stop, const std::string& place) {
    const std::string& text = text_at(stop, place);
    if (text.empty()) return;  // asks for nothing
    stops.push_back(text);
    if (text.size() > max_stop_bytes)
      throw unexpected(place, fmt::format("at most {} bytes", max_stop_bytes), stop, "string_above_max_length");
  };
  const Json* value = fields.find(name);
  if (!has_elements(value)) return stops;
  if (value->is_string()) {
    add(*value, fields.place(name));
    return stops;
  }
  if (!value->is_array()) throw unexpected(fields.place(name), "a string or a list of strings", *value);
  const std::string place = fields.place(name);
  size_t index = 0;
  for (const Json& stop : list_at(*value, place, max_stop_strings)) add(stop, element(place, index++));
  return stops;
}

namespace {

// By vLLM's names: one server computes the prompt, and its response says how another gets what it has computed.
void read_transfer(const Json& value, Fields& outer, GenerationRequest& request) {
  const std::string place = outer.place("kv_transfer_params");
  if (!value.is_object()) throw unexpected(place, "an object", value);
  Fields fields(value, place, outer);
  request.remote_decode = fields.flag_or("do_remote_decode", false);
  const bool prefilled = fields.flag_or("do_remote_prefill", false);
  if (request.remote_decode && prefilled)
    throw ApiError(400, "invalid_value", place, "{}: expected do_remote_decode or do_remote_prefill, found both",
                   place);
  engine::KvAddress address{.engine = fields.text("remote_engine_id").value_or(""),
                            .host = fields.text("remote_host").value_or(""),
                            .request = fields.text("remote_request_id").value_or(""),
                            .port = uint16_t(fields.whole("remote_port", 1, 65535).value_or(0))};
  fields.find("remote_block_ids");  // blocks are found by content
  fields.find("tp_size");
  fields.finish();
  if (!prefilled) return;
  if (address.host.empty() || address.request.empty() || address.port == 0)
    throw ApiError(400, "invalid_value", place,
                   "{}: expected remote_host, remote_port and remote_request_id with do_remote_prefill", place);
  request.remote_prefill = std::move(address);
}

engine::Speculation read_speculation(Fields& fields) {
  const std::string name = fields.text("speculate").value_or("auto");
  if (const auto speculation = engine::speculation_named(name)) return *speculation;
  throw unexpected("speculate", "\"auto\", \"on\" or \"off\"", name, "invalid_value");
}

constexpr std::string_view text_only = "anything but text", no_effect = "";
constexpr UnsupportedField unsupported_fields[] = {
    {"modalities", R"([["text"]])", text_only},
    {"audio", "[]", text_only},
    {"prediction", "[]", no_effect},
    {"web_search_options", "[]", "searches"},
    {"verbosity", R"(["medium"])", no_effect},
    {"store", "[false]", no_effect},
    {"metadata", "[{}]", no_effect},
    {"prompt_cache_retention", R"(["in_memory"])", no_effect},
    {"service_tier", R"(["auto", "default"])", no_effect},
    {"suffix", R"([""])", "insertion before a suffix"},
    // vLLM
    {"use_beam_search", "[false]", "beam search"},
    {"length_penalty", "[1]", "beam search"},
    {"early_stopping", "[false]", "beam search"},
    {"min_tokens", "[0]", "a least number of tokens"},
    {"allowed_token_ids", "[[]]", "a choice of tokens"},
    {"bad_words", "[[]]", "words to leave out"},
    {"prompt_logprobs", "[]", "prompt_logprobs (but echo and logprobs of a completion)"},
    {"logits_processors", "[[]]", "processors of logits"},
    {"prompt_embeds", "[]", "anything but text"},
    {"include_reasoning", "[true]", "answers without their thought"},
    {"separate_reasoning", "[true]", "thoughts in the content"},
    {"truncate_prompt_tokens", "[-1]", "prompts that are cut"},
    {"include_stop_str_in_output", "[false]", "stop strings in the text"},
    {"skip_special_tokens", "[true]", "control tokens in the text"},
    {"spaces_between_special_tokens", "[true, false]", no_effect},
    {"return_token_ids", "[false]", "token ids in the response"},
    {"return_tokens_as_token_ids", "[false]", "token ids in the response"},
    {"mm_processor_kwargs", "[{}]", no_effect},
    {"cache_salt", R"([""])", "prompts that are not shared"},
    {"request_id", "[]", no_effect},
    // llama.cpp
    {"n_predict", "[-1]", "n_predict (but max_tokens)"},
    {"n_cmpl", "[1]", "n_cmpl (but n)"},
    {"return_tokens", "[false]", "token ids in the response"},
    {"reasoning_format", R"(["auto", "deepseek"])", "thoughts in the content"},
    {"parse_tool_calls", "[true]", "calls in the content"},
    {"grammar_lazy", "[false]", "grammars that begin later"},
    {"lora", "[[]]", "adapters"},
    {"n_probs", "[0]", "n_probs (but top_logprobs)"},
    {"id_slot", "[-1]", no_effect},
    {"n_keep", "[0, -1]", no_effect},
    {"n_indent", "[0]", "indentation"},
    {"t_max_predict_ms", "[0, -1]", "a limit of time"},
    {"timings_per_token", "[false]", no_effect},
    {"return_progress", "[false]", no_effect},
    {"post_sampling_probs", "[false]", "post_sampling_probs (but logprobs_after)"},
    // Ollama
    {"keep_alive", "[]", no_effect},
    {"options", "[{}]", "Ollama's options in OpenAI's API"},
    {"format", R"([""])", "Ollama's format in OpenAI's API (but response_format)"},
};
constexpr UnsupportedField unsupported_in_chats[] = {
    {"best_of", "[1]", "best_of in a chat"},
    {"echo", "[false]", "an echo of a chat"},
    {"add_special_tokens", "[false]", "special tokens besides those of the template"},
    {"documents", "[[]]", "documents"},
    {"chat_template", "[]", "another template than the model's"},
};
constexpr UnsupportedField unsupported_in_completions[] = {
    {"add_special_tokens", "[true]", "texts without the tokens that the model begins them with"},
};

}  // namespace

StreamOptions read_stream_options(Fields& fields) {
  StreamOptions options{.stream = fields.flag_or("stream", false)};
  const Json* value = fields.find("stream_options");
  if (!value) return options;
  Fields inner(*value, "stream_options", fields);
  options.include_usage = inner.flag_or("include_usage", false) && options.stream;  // a document always has it
  for (const std::string_view name : {"include_obfuscation", "continuous_usage_stats"})
    if (inner.flag_or(name, false)) inner.ignore(name);
  inner.finish();
  return options;
}

void read_generation(Fields& fields, const RequestRules& rules, GenerationRequest& request) {
  read_sampling(fields, rules, request);
  request.stop_strings = read_stop_strings(fields, "stop");
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
  if (const Json* transfer = fields.find("kv_transfer_params")) read_transfer(*transfer, fields, request);
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

void refuse_unsupported_in_chats(Fields& fields) {
  refuse_unsupported(fields, unsupported_fields);
  refuse_unsupported(fields, unsupported_in_chats);
}
void refuse_unsupported_in_completions(Fields& fields) {
  refuse_unsupported(fields, unsupported_fields);
  refuse_unsupported(fields, unsupported_in_completions);
}

void refuse_unsupported(Fields& fields, std::span<const UnsupportedField> unsupported) {
  for (const auto& [name, text, what] : unsupported) {
    const Json* value = fields.find(name);
    if (!value) continue;
    const Json accepted = Json::parse(text);
    if (std::find(accepted.begin(), accepted.end(), *value) != accepted.end()) continue;
    if (what.empty()) {
      fields.ignore(name);
      continue;
    }
    std::string expected = "null";
    for (const Json& one : accepted) expected += " or " + one.dump();
    throw ApiError(400, "unsupported_parameter", fields.place(name),
                   "{}: heddle does not support {}; expected {}, found {}", fields.place(name), what, expected,
                   shortened(*value));
  }
}

std::string read_user(Fields& fields) {
  const auto user = fields.text("user"), identifier = fields.text("safety_identifier");  // the new name
  return identifier.value_or(user.value_or(""));
}

std::optional<uint32_t> read_token_limit(Fields& fields, std::string_view name, int64_t least) {
  const Json* value = fields.find(name);
  if (!value || *value == -1) return std::nullopt;
  const int64_t limit = whole_at(*value, fields.place(name), least, std::numeric_limits<int64_t>::max());
  return uint32_t(std::min(limit, max_max_tokens));
}

}  // namespace heddle::server
