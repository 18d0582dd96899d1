#include "server/api/generation_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/sampling_fields.h"

namespace heddle::server {
namespace {

constexpr size_t most_stops = 16,
                 longest_stop = 256;  // bytes; every answer has its own copy, and looks for them in every piece
constexpr size_t most_stop_ids = 128;
constexpr int64_t most_copies = 128, least_priority = -100;

// Whether there is something in a list; an empty one asks for nothing.
bool is_filled(const Json* list) { return list && !(list->is_array() && list->empty()); }

std::vector<std::string> stops_of(Fields& fields) {
  std::vector<std::string> stops;
  const auto add = [&stops](const Json& stop, const std::string& place) {
    const std::string& text = stops.emplace_back(text_at(stop, place));
    if (text.empty()) throw unexpected(place, "a text", stop, "empty_string");
    if (text.size() > longest_stop)
      throw unexpected(place, fmt::format("at most {} bytes", longest_stop), stop, "string_above_max_length");
  };
  const Json* said = fields.find("stop");
  if (!is_filled(said)) return stops;
  if (said->is_string()) {
    add(*said, "stop");
    return stops;
  }
  if (!said->is_array()) throw unexpected("stop", "a string or a list of strings", *said);
  for (const Json& stop : list_at(*said, "stop", most_stops)) add(stop, element("stop", stops.size()));
  return stops;
}

void read_stream(Fields& fields, Generation& generation) {
  generation.stream = fields.flag_or("stream", false);
  const Json* said = fields.find("stream_options");
  if (!said) return;
  if (!generation.stream) throw bad_field("stream_options", "stream_options: only together with \"stream\": true");
  Fields options(*said, "stream_options");
  generation.include_usage = options.flag_or("include_usage", false);
  if (options.flag_or("include_obfuscation", false))
    throw unexpected("stream_options.include_obfuscation", "false", true, "unsupported_value");
  options.finish();
}

engine::Speculation speculation_of(Fields& fields) {
  const std::string said = fields.text("speculate").value_or("auto");
  if (const auto speculation = engine::speculation_named(said)) return *speculation;
  throw unexpected("speculate", "\"auto\", \"on\" or \"off\"", said, "invalid_value");
}

}  // namespace

Generation generation_of(Fields& fields, const RequestRules& rules) {
  Generation generation;
  generation.sampling = sampling_of(fields, rules);
  generation.stops = stops_of(fields);
  if (const Json* ids = fields.find("stop_token_ids"); is_filled(ids))
    generation.stop_ids = ids_at(list_at(*ids, "stop_token_ids", most_stop_ids), "stop_token_ids", rules.vocabulary);
  generation.ignore_eos = fields.flag_or("ignore_eos", false);
  generation.n = uint32_t(fields.whole("n", 1, most_copies).value_or(1));
  read_stream(fields, generation);
  // a client may let others go first, not itself
  generation.priority = int(fields.whole("priority", least_priority, 0).value_or(0));
  generation.speculation = speculation_of(fields);
  generation.reuse = fields.flag_or("cache_prompt", true);
  // a hint which prompts begin alike; that is found without it
  fields.text("prompt_cache_key");
  generation.user = user_of(fields);
  return generation;
}

void set_logprobs(Fields& fields, const RequestRules& rules, std::optional<int64_t> top, engine::Sampling& sampling) {
  sampling.logprobs_after = fields.flag_or("logprobs_after", false);
  if (top)
    sampling.logprobs = std::min(uint32_t(*top), rules.vocabulary);
  else if (sampling.logprobs_after)
    throw bad_field("logprobs_after", "logprobs_after: only together with logprobs");
}

std::string user_of(Fields& fields) { return fields.text(fields.either("user", "safety_identifier")).value_or(""); }

std::vector<text::TokenId> ids_at(const Json& list, const std::string& place, uint32_t bound) {
  std::vector<text::TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    // (a place is made only for one that is refused: prompts may have 100 000 ids)
    if (id.is_number_unsigned() && id.get<uint64_t>() < bound)
      ids.push_back(id.get<text::TokenId>());
    else
      ids.push_back(text::TokenId(whole_at(id, element(place, ids.size()), 0, int64_t(bound) - 1)));
  }
  return ids;
}

}  // namespace heddle::server
