// The same options serve the command line and /set.
#include "main/commands/sampling_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

constexpr const char* group = "Sampling (docs/sampling.md)";  // heading in --help

// ID=VALUE; false forbids the token, as -inf does.
std::pair<uint32_t, float> bias_of(std::string_view text) {
  const auto refuse = [text] {
    return Error("--logit-bias: expected ID=VALUE such as 15=-2.5, 15=-inf or 15=false, found {}", in_quotes(text));
  };
  const size_t equals = text.find('=');
  if (equals == text.npos) throw refuse();
  const std::string_view number = text.substr(0, equals);
  std::string_view value = text.substr(equals + 1);
  uint32_t id = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), id);
  if (read.ec != std::errc() || read.ptr != number.data() + number.size()) throw refuse();
  if (value == "false") return {id, -std::numeric_limits<float>::infinity()};
  if (value.starts_with('+')) value.remove_prefix(1);
  float bias = 0;
  const auto end = std::from_chars(value.data(), value.data() + value.size(), bias);
  if (end.ec != std::errc() || end.ptr != value.data() + value.size()) throw refuse();
  return {id, bias};
}

}  // namespace

void describe_sampling(CLI::App& command, SamplingOptions& options) {
  engine::Sampling& to = options.chain;
  const auto add = [&command](const char* name, auto& value, const char* text) {
    command.add_option(name, value, text)->type_name("N")->group(group);
  };
  add("--temp", to.temperature, "Temperature; 0: always the most likely token");
  add("--dynatemp-range", to.dynamic_range, "Dynamic temperature: vary it by this much with the entropy; 0: off");
  add("--dynatemp-exp", to.dynamic_exponent, "Dynamic temperature: exponent of the entropy");
  add("--top-k", to.top_k, "Keep the k most likely tokens; 0: all");
  add("--top-p", to.top_p, "Keep the most likely tokens whose probabilities add up to p");
  add("--min-p", to.min_p, "Keep tokens at least p times as likely as the most likely one");
  add("--typical", to.typical_p, "Keep the most typical tokens whose probabilities add up to p");
  add("--top-nsigma", to.top_n_sigma, "Keep logits within n standard deviations of the largest");
  add("--xtc-probability", to.xtc_probability, "XTC: probability of removing all likely tokens but the least likely");
  add("--xtc-threshold", to.xtc_threshold, "XTC: probability from which a token counts as likely");
  add("--mirostat", to.mirostat, "2: mirostat 2 instead of the steps that keep tokens; 0: off");
  add("--mirostat-tau", to.mirostat_tau, "Mirostat: target surprise in bits");
  add("--mirostat-eta", to.mirostat_eta, "Mirostat: learning rate");
  add("--repeat-penalty", to.repetition_penalty, "Penalty on recent tokens; 1: none");
  add("--repeat-last-n", to.repetition_last_n, "Tokens that the repeat penalty looks back; -1: all");
  add("--presence-penalty", to.presence_penalty, "Penalty on tokens generated before");
  add("--frequency-penalty", to.frequency_penalty, "Penalty on tokens generated before, per occurrence");
  add("--dry-multiplier", to.dry_multiplier, "DRY: penalty on extending a repetition; 0: off");
  add("--dry-base", to.dry_base, "DRY: growth of the penalty with the length of the repetition");
  add("--dry-allowed-length", to.dry_allowed_length, "DRY: length up to which a repetition is free");
  add("--dry-penalty-last-n", to.dry_penalty_last_n, "DRY: tokens that it looks back; -1: all");
  command
      .add_option_function<uint64_t>(
          "--seed", [&to](uint64_t seed) { to.seed = seed; },
          "Seed; the same one gives the same text; default: a random one, printed at the end")
      ->type_name("N")
      ->default_function([&to] { return to.seed ? std::to_string(*to.seed) : ""; })
      ->group(group);
  command.add_option("--samplers", to.order, "Sampling steps in order, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->group(group);
  const auto add_list = [&command](const char* name, std::vector<std::string>& value, const char* type,
                                   const char* text) {
    return command.add_option(name, value, text)->type_name(type)->allow_extra_args(false)->group(group);
  };
  add_list("--logit-bias", options.biases, "ID=VALUE",
           "Add VALUE to the logit of token ID; -inf or false forbids it; repeatable");
  add_list("--dry-sequence-breaker", options.breakers, "TEXT",
           "DRY: text that no repetition reaches across; repeatable; none: no such text")
      ->default_str("newline : \" *");
  add_list("--stop", options.stops, "TEXT", "Stop before this text; repeatable");
}

engine::Sampling sampling_of(const SamplingOptions& options, const text::Tokenizer& tokenizer, uint32_t vocabulary) {
  engine::Sampling sampling = options.chain;
  for (const std::string& text : options.biases) {
    const auto [id, bias] = bias_of(text);
    sampling.logit_bias[id] = bias;
  }
  const bool none = options.breakers == std::vector<std::string>{"none"};
  const auto refuse_empty = [](const char* option, const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      if (text.empty()) throw Error("{}: expected a text, found an empty one", option);
  };
  refuse_empty("--dry-sequence-breaker", options.breakers);
  if (sampling.dry_multiplier > 0 && !none)
    sampling.dry_breakers = text::dry_breaker_tokens(options.breakers, tokenizer);
  refuse_empty("--stop", options.stops);
  engine::validate(sampling, vocabulary);
  return sampling;
}

}  // namespace heddle
