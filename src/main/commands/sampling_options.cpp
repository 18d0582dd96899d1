// One list of names for the command line and for /set.
#include "main/commands/sampling_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

constexpr const char* group = "Sampling (docs/sampling.md)";

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
  add("--temp", to.temperature, "Temperature; 0 takes the most likely token");
  add("--dynatemp-range", to.dynamic_range, "Temperature up and down by this, by entropy");
  add("--dynatemp-exp", to.dynamic_exponent, "Exponent of the entropy in that");
  add("--top-k", to.top_k, "The k most likely tokens; 0: all");
  add("--top-p", to.top_p, "The most likely tokens that come to p");
  add("--min-p", to.min_p, "Tokens at least this times as likely as the most likely");
  add("--typical", to.typical_p, "Tokens of typical surprise that come to p");
  add("--top-nsigma", to.top_n_sigma, "Logits within n standard deviations of the largest");
  add("--xtc-probability", to.xtc_probability, "How often the likely tokens but the least likely of them are left out");
  add("--xtc-threshold", to.xtc_threshold, "From what probability on they count as likely");
  add("--mirostat", to.mirostat, "2: mirostat 2 in place of the cuts");
  add("--mirostat-tau", to.mirostat_tau, "The surprise it aims at, in bits");
  add("--mirostat-eta", to.mirostat_eta, "How fast");
  add("--repeat-penalty", to.repetition_penalty, "On tokens seen lately; 1: none");
  add("--repeat-last-n", to.repetition_last_n, "How many tokens back that is; -1: all");
  add("--presence-penalty", to.presence_penalty, "On tokens generated before");
  add("--frequency-penalty", to.frequency_penalty, "For every time they were");
  add("--dry-multiplier", to.dry_multiplier, "Penalty on prolonging a repetition; 0: none");
  add("--dry-base", to.dry_base, "How it grows with the length");
  add("--dry-allowed-length", to.dry_allowed_length, "Repetitions up to this length are free");
  add("--dry-penalty-last-n", to.dry_penalty_last_n, "How many tokens back it looks; -1: all");
  command
      .add_option_function<uint64_t>(
          "--seed", [&to](uint64_t seed) { to.seed = seed; },
          "The same seed gives the same text; without it, a random one, printed at the end")
      ->type_name("N")
      ->default_function([&to] { return to.seed ? std::to_string(*to.seed) : ""; })
      ->group(group);
  command.add_option("--samplers", to.order, "The steps, in order, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES")
      ->group(group);
  const auto add_list = [&command](const char* name, std::vector<std::string>& value, const char* type,
                                   const char* text) {
    command.add_option(name, value, text)->type_name(type)->allow_extra_args(false)->group(group);
  };
  add_list("--logit-bias", options.biases, "ID=VALUE",
           "Added to a token's logit; -inf or false forbids it; repeatable");
  add_list("--dry-sequence-breaker", options.breakers, "TEXT",
           "No repetition reaches across it; repeatable, in place of newline : \" and *; none: nothing is one");
  add_list("--stop", options.stops, "TEXT", "Ends the text and is not part of it; repeatable");
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
