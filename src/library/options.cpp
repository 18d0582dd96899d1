// A struct of an older program is shorter: what it lacks has its default. One of a newer program is longer: it is taken
// if what this library does not know is zero.
#include "library/options.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "engine/request.h"
#include "library/calls.h"
#include "main/commands/sampling_options.h"

namespace heddle::library {
namespace {

constexpr size_t longest_struct = 4096;  // bytes; a size beyond that was never set

// Of the structs as they were first released.
constexpr size_t first_options = offsetof(heddle_model_options, log_data) + sizeof(void*);
constexpr size_t first_request = offsetof(heddle_request, frequency_penalty) + sizeof(float);

heddle_model_options default_options() {
  const DeviceOptions defaults;
  heddle_model_options options{};
  options.device = "auto";
  options.kv = name_of(defaults.kv);
  options.draft_tokens = defaults.proposals();
  options.gpu_layers = HEDDLE_AUTO;
  options.cpu_experts = HEDDLE_AUTO;
  return options;
}

heddle_request default_request() {
  const engine::Sampling defaults = SamplingOptions().chain;
  heddle_request request{};
  request.temperature = defaults.temperature;
  request.top_k = defaults.top_k;
  request.top_p = defaults.top_p;
  request.min_p = defaults.min_p;
  request.repetition_penalty = defaults.repetition_penalty;
  request.repetition_last_n = defaults.repetition_last_n;
  request.presence_penalty = defaults.presence_penalty;
  request.frequency_penalty = defaults.frequency_penalty;
  return request;
}

template <class Struct>
void write_sized(Struct* to, size_t size, Struct values) {
  if (!to) return;
  values.size = size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &values, std::min(size, sizeof values));
}

template <class Struct>
Struct read_sized(const Struct& from, size_t first, Struct values, const char* name) {
  if (from.size < first || from.size > longest_struct)
    throw Error("{}: expected a size of {} bytes or more, found {}: {}_init() sets it", name, first, from.size, name);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&from);
  for (size_t at = sizeof values; at < from.size; ++at)
    if (bytes[at] != 0)
      throw Error(
          "{}: expected the {} bytes that this version of heddle knows, found more that are not 0: the program "
          "was compiled for a later version",
          name, sizeof values);
  std::memcpy(static_cast<void*>(&values), &from, std::min(from.size, sizeof values));
  return values;
}

std::optional<uint32_t> layers_of(int32_t number, const char* name) {
  if (number == HEDDLE_AUTO) return std::nullopt;
  if (number < 0) throw Error("{}: expected a number of layers or HEDDLE_AUTO, found {}", name, number);
  return number == HEDDLE_ALL_LAYERS ? all_layers : uint32_t(number);
}

}  // namespace

OpenOptions read_options(const heddle_model_options* given) {
  if (!given) return {};
  const heddle_model_options from = read_sized(*given, first_options, default_options(), "heddle_model_options");
  if (from.reserved != 0) throw Error("reserved: expected 0, found {}", from.reserved);
  DeviceOptions device;
  device.device = expect_text(from.device, "device");
  device.kv = kv_named(expect_text(from.kv, "kv"));
  if (from.draft) device.draft = from.draft;
  if (from.draft && device.draft.empty()) throw Error("draft: expected a model or NULL, found an empty name");
  if (from.draft) device.draft_tokens = from.draft_tokens;
  device.gpu_memory = from.gpu_memory;
  device.threads = from.threads;
  device.context = from.context;
  device.cache_tokens = from.cache_tokens;
  device.gpu_layers = layers_of(from.gpu_layers, "gpu_layers");
  device.cpu_experts = layers_of(from.cpu_experts, "cpu_experts");
  device.exact = from.exact != 0;
  device.deterministic = from.deterministic != 0;
  device.no_selftest = from.no_selftest != 0;
  wanted_device(device);
  return {.device = device, .log = from.log, .log_data = from.log_data};
}

GenerationRequest read_request(const heddle_request* given) {
  const heddle_request from =
      read_sized(expect_given(given, "request"), first_request, default_request(), "heddle_request");
  GenerationRequest request;
  if (from.prompt) request.prompt = from.prompt;
  if (from.messages) request.messages = from.messages;
  if (from.token_count > 0) {
    const uint32_t* tokens = &expect_given(from.tokens, "tokens");
    request.tokens.assign(tokens, tokens + from.token_count);
  }
  if (const int found = bool(from.prompt) + bool(from.messages) + bool(from.tokens); found != 1)
    throw Error("expected one of prompt, messages and tokens, found {}", found == 0 ? "none" : "several");
  if (from.variables && !from.messages) throw Error("variables: expected messages with them, found none");
  if (from.variables) request.variables = from.variables;
  request.parse_special = from.parse_special != 0;
  request.stop = expect_texts(from.stop, from.stop_count, "stop");
  for (const std::string& text : request.stop)
    if (text.empty()) throw Error("stop: expected texts, found an empty one");

  using Kind = grammar::Source::Kind;
  const auto add = [&request](const char* name, const char* text, Kind kind) {
    if (!text) return;
    if (request.grammar) throw Error("{}: expected one constraint, found {} as well", name, request.grammar->name);
    request.grammar = {name, {kind, text}};
  };
  add("json_schema", from.json_schema, Kind::json_schema);
  add("grammar", from.grammar, Kind::gbnf_or_lark);
  add("regex", from.regex, Kind::regex);

  engine::Sampling& sampling = request.sampling;
  if (from.seed) sampling.seed = *from.seed;
  sampling.temperature = from.temperature;
  sampling.top_k = from.top_k;
  sampling.top_p = from.top_p;
  sampling.min_p = from.min_p;
  sampling.repetition_penalty = from.repetition_penalty;
  sampling.repetition_last_n = from.repetition_last_n;
  sampling.presence_penalty = from.presence_penalty;
  sampling.frequency_penalty = from.frequency_penalty;
  request.max_tokens = from.max_tokens ? from.max_tokens : engine::no_limit;
  return request;
}

}  // namespace heddle::library

void heddle_model_options_init(heddle_model_options* options, size_t size) {
  heddle::library::write_sized(options, size, heddle::library::default_options());
}

void heddle_request_init(heddle_request* request, size_t size) {
  heddle::library::write_sized(request, size, heddle::library::default_request());
}
