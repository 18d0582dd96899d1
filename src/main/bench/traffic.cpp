// Every kind of number has random bits of its own, so that another mix of lengths does not change the arrivals.
// Percentiles are of every value, not of a histogram.
#include "main/bench/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/sampling/numbers.h"

namespace heddle {
namespace {

constexpr uint32_t longest_length = 1 << 24;

// The number that `text` begins with, which is then cut off.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(size_t(read.ptr - text.data()));
  return number;
}
bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

enum Purpose : uint64_t {
  arrivals,
  which_prompt,
  prompt_length,
  which_answer,
  answer_length,
  shared_tokens,
  own_tokens
};

std::vector<uint32_t> random_tokens(uint64_t seed, uint64_t purpose, uint32_t count, uint32_t vocabulary) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = uint32_t(engine::random_bits(seed, i, purpose) % vocabulary);
  return tokens;
}

}  // namespace

LengthMix::LengthMix(const std::string& option, const std::string& text) {
  std::string_view rest = text;
  bool good = true;
  do {
    const std::optional<uint32_t> from = take_number<uint32_t>(rest);
    const std::optional<uint32_t> to = take(rest, '-') ? take_number<uint32_t>(rest) : from;
    const std::optional<double> weight = take(rest, ':') ? take_number<double>(rest) : 1.0;
    good = from && to && weight && *from > 0 && *from <= *to && *to <= longest_length && *weight > 0 &&
           std::isfinite(*weight);
    if (good) ranges_.push_back({*from, *to, *weight});
  } while (good && take(rest, ','));
  if (!good || !rest.empty())
    throw Error("{}: expected lengths such as 512, 16-512 or 512:0.8,4096:0.2 (1 to {} tokens), found {}", option,
                longest_length, in_quotes(text));
}

uint32_t LengthMix::draw(double which, double within) const {
  double all = 0;
  for (const Range& range : ranges_) all += range.weight;
  which *= all;
  size_t i = 0;
  for (; i + 1 < ranges_.size() && which >= ranges_[i].weight; ++i) which -= ranges_[i].weight;
  return ranges_[i].from + uint32_t(within * double(ranges_[i].to - ranges_[i].from + 1));
}

uint32_t LengthMix::longest() const {
  uint32_t longest = 0;
  for (const Range& range : ranges_) longest = std::max(longest, range.to);
  return longest;
}

LongPrompt long_prompt(const std::string& text) {
  std::string_view rest = text;
  const std::optional<uint32_t> tokens = take_number<uint32_t>(rest);
  const bool timed = take(rest, '@');
  const std::optional<double> at = timed ? take_number<double>(rest) : std::nullopt;
  if (!tokens || *tokens == 0 || *tokens > longest_length || timed != at.has_value() || !rest.empty() ||
      (timed && !(*at >= 0 && std::isfinite(*at))))
    throw Error("--long: expected tokens and seconds such as 4096@2.5, or tokens alone, found {}", in_quotes(text));
  return {*tokens, at};
}

std::vector<Arrival> make_traffic(const TrafficOptions& options, uint32_t vocabulary) {
  const auto uniform = [&](uint64_t i, Purpose purpose) {
    return engine::uniform(engine::random_bits(options.seed, i, purpose));
  };
  const std::vector<uint32_t> shared = random_tokens(options.seed, shared_tokens, options.shared, vocabulary);
  std::vector<Arrival> all;
  double now = 0;
  const auto turn = [&](uint64_t i, std::optional<uint32_t> length) -> Arrival::Turn {
    if (!length) length = options.prompts.draw(uniform(i, which_prompt), uniform(i, prompt_length));
    return {random_tokens(options.seed, own_tokens + i, *length, vocabulary),
            options.answers.draw(uniform(i, which_answer), uniform(i, answer_length))};
  };
  const auto add = [&](std::optional<double> at, std::vector<uint32_t> beginning, std::optional<uint32_t> length) {
    const auto [own, answer] = turn(all.size(), length);
    beginning.insert(beginning.end(), own.begin(), own.end());
    all.push_back({at, std::move(beginning), answer});
  };
  for (uint64_t i = 0; i < options.requests; ++i) {
    if (options.rate > 0) now -= std::log1p(-uniform(i, arrivals)) / options.rate;
    add(now, shared, std::nullopt);
    for (uint64_t later = 1; later < options.turns; ++later)
      all.back().later.push_back(turn(later * (options.requests + 1) + i, std::nullopt));
  }
  if (options.long_one) add(options.long_one->at, {}, options.long_one->tokens);
  return all;
}

// --- latencies ------------------------------------------------------------------------------------------------------
double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + long(std::max(1., std::ceil(q * double(values.size()))) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

nlohmann::ordered_json percentiles(std::vector<double>& seconds) {
  return {{"p50", quantile(seconds, 0.5)},
          {"p90", quantile(seconds, 0.9)},
          {"p99", quantile(seconds, 0.99)},
          {"max", quantile(seconds, 1)}};
}

std::string percentiles_text(const nlohmann::ordered_json& percentiles) {
  std::string text;
  for (const auto& [name, seconds] : percentiles.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ms_text(seconds.get<double>()));
  return text;
}

std::string ms_text(double seconds) { return fmt::format("{:.1f} ms", 1000 * seconds); }

void print_figure(std::ostream& out, const char* name, const std::string& text) {
  out << fmt::format("{:<15} {}\n", name, text);
}

}  // namespace heddle
