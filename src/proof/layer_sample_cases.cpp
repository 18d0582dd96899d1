// Cases of sampling. The reference computes the distribution in f64 and looks up the same random number in it; every
// token that is kept or cut wrongly moves the intervals, so draws test the sets as well.
#include <algorithm>
#include <array>

#include "kernels/sample.h"
#include "proof/layer_cases.h"

namespace heddle::proof {
namespace {

using kernels::Sample;
using kernels::Sampled;
using kernels::SampleRow;

// Philox4x32-10 of the counter (step, 0) and the key seed, as a number in [0, 1).
double random_number(uint64_t seed, uint64_t step) {
  std::array<uint32_t, 4> c{uint32_t(step), uint32_t(step >> 32), 0, 0};
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53) * c[0], b = uint64_t(0xcd9e8d57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9e3779b9, key[1] += 0xbb67ae85;
  }
  return double(uint64_t(c[1]) << 32 | c[0]) * 0x1p-64;
}

// The weights of the kept tokens, relative to the largest logit; 0 for the others. slack moves every threshold by a
// part of itself: what lies that close to one may fall on either side.
struct Slack {
  double k = 0, p = 0, min = 0;
};
std::vector<double> kept_weights(const std::vector<double>& logits, const SampleRow& row, Slack slack) {
  double largest = -INFINITY;
  for (double l : logits) largest = std::max(largest, l);  // never NaN: the comparison is false
  std::vector<double> weight(logits.size(), 0), sorted;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) weight[i] = std::exp((logits[i] - largest) / double(row.temperature));
  auto cut = [&](double least) {
    for (double& w : weight)
      if (w < least) w = 0;
  };
  sorted = weight;
  std::sort(sorted.rbegin(), sorted.rend());
  if (row.top_k && row.top_k < sorted.size()) cut(sorted[row.top_k - 1] * (1 + slack.k));
  if (row.top_p < 1) {
    sorted = weight;
    std::sort(sorted.rbegin(), sorted.rend());
    double all = 0, sum = 0;
    for (double w : sorted) all += w;
    size_t n = 0;
    while (n < sorted.size() && (n == 0 || sum < all * row.top_p * (1 + slack.p))) sum += sorted[n++];
    cut(sorted[n - 1]);
  }
  cut(std::min<double>(row.min_p, 1) * (1 + slack.min));
  return weight;
}

// True if the number falls on `id`, or so near to its interval that rounding decides.
bool falls_on(const std::vector<double>& weight, double number, uint32_t id) {
  if (id >= weight.size() || weight[id] == 0) return false;
  double all = 0, before = 0;
  for (double w : weight) all += w;
  for (uint32_t i = 0; i < id; ++i) before += weight[i];
  return number >= before / all - 1e-6 && number <= (before + weight[id]) / all + 1e-6;
}

void check_row(const std::vector<double>& logits, const SampleRow& row, const Sampled& got, Check& check,
               const std::string& what) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  const double largest = logits[best];
  if (!std::isfinite(largest)) {
    const bool above = largest > 0;
    check.that(got.id == (above ? best : 0), what + ": the id of an infinite row");
    check.that(got.log_probability == (above ? 0.0f : -INFINITY), what + ": the log-probability of an infinite row");
    return;
  }
  if (!(row.temperature > 0)) {
    check.that(got.id == best, fmt::format("{}: id {}, but the largest is {}", what, got.id, best));
  } else {
    bool found = false;
    for (double k : {0.0, -4e-6})
      for (double p : {-1e-6, 1e-6})
        for (double min : {-1e-6, 1e-6})
          found = found || falls_on(kept_weights(logits, row, {k, p, min}), random_number(row.seed, row.step), got.id);
    check.that(found,
               fmt::format("{}: id {} is not what {} falls on", what, got.id, random_number(row.seed, row.step)));
  }
  double sum = 0;
  for (double l : logits)
    if (!std::isnan(l)) sum += std::exp(l - largest);
  const double below = got.id < logits.size() ? logits[got.id] - largest : NAN;
  // the exponentials to 4e-7, the logarithm to 2^-22 of itself, products and differences
  const std::array want{below - std::log(sum)}, scale{1e-6 + std::log(sum) * 0x1p-21 - below * 0x1p-23};
  check.near(what + ": log-probability", std::array{got.log_probability}, want, scale, 1);
}

enum class Logits { normal, equal, few, peaked, holes, infinite, nothing };
const char* text(Logits l) {
  switch (l) {
    case Logits::normal:
      return "normal";
    case Logits::equal:
      return "equal";
    case Logits::few:  // four different values: thresholds fall between equals
      return "few";
    case Logits::peaked:  // one has nearly all the probability
      return "peaked";
    case Logits::holes:  // -infinity and NaN among them
      return "holes";
    case Logits::infinite:
      return "infinite";
    case Logits::nothing:  // NaN and -infinity only
      return "nothing";
  }
  return "?";
}
std::vector<float> make_logits(Random& random, uint32_t rows, uint32_t vocab, Logits kind) {
  std::vector<float> x = random.normals(size_t(rows) * vocab, 3);
  for (float& v : x) {
    const uint32_t r = random.below(4);
    if (kind == Logits::equal) v = -7.25f;
    if (kind == Logits::few) v = float(r) * 0.5f;
    if (kind == Logits::holes && r < 2) v = r ? -INFINITY : NAN;
    if (kind == Logits::nothing) v = r ? -INFINITY : NAN;
  }
  for (size_t r = 0; r < rows; ++r) {
    float& one = x[r * vocab + random.below(vocab)];
    if (kind == Logits::peaked) one = 40;
    if (kind == Logits::infinite) one = INFINITY;
  }
  return x;
}

// Every row has other logits and the next of these parameters.
std::vector<SampleRow> all_kinds(Random& random, uint32_t rows) {
  std::vector<SampleRow> list{{.temperature = 1},
                              {.temperature = 0},
                              {.temperature = 0.8f, .top_k = 40},
                              {.temperature = 1.3f, .top_p = 0.9f},
                              {.temperature = 1, .min_p = 0.05f},
                              {.temperature = 0.7f, .top_k = 50, .top_p = 0.95f, .min_p = 0.02f},
                              {.temperature = 5, .top_k = 1},
                              {.temperature = 2, .top_p = 0},
                              {.temperature = 1, .min_p = 1.5f},
                              {.temperature = 100, .top_k = 7, .top_p = 0.5f},
                              {.temperature = 0.01f, .top_p = 0.999f},
                              {.temperature = 1, .top_k = 100000, .top_p = 0.3f},
                              {.temperature = -1, .top_k = 3}};
  std::vector<SampleRow> params;
  for (uint32_t r = 0; r < rows; ++r) {
    params.push_back(list[r % list.size()]);
    params.back().seed = random.bits(), params.back().step = random.below(3) ? random.below(5000) : random.bits();
  }
  return params;
}

std::vector<Sampled> launch(const Sample& spec, Machine& m, const std::vector<float>& logits,
                            const std::vector<SampleRow>& params, uint32_t vocab) {
  const auto rows = uint32_t(params.size());
  auto out = m.poisoned<Sampled>(rows);
  m.launch(spec, Sample::Args{.out = {out.address},
                              .logits = m.put(logits),
                              .params = {m.put(params).address},
                              .rows = rows,
                              .vocab = vocab});
  return m.get(out, rows);
}
std::vector<uint64_t> bits(const std::vector<Sampled>& list) {
  std::vector<uint64_t> all;
  for (auto& s : list) all.push_back(std::bit_cast<uint64_t>(s));
  return all;
}

// other: the same again with so many threads, which must not matter; 0: not.
Case sample(Sample spec, uint32_t rows, uint32_t vocab, Logits kind, uint32_t other = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> logits = make_logits(random, rows, vocab, kind);
    const std::vector<SampleRow> params = all_kinds(random, rows);
    const std::vector<Sampled> got = launch(spec, m, logits, params, vocab);
    for (uint32_t r = 0; r < rows; ++r)
      check_row(std::vector<double>(logits.begin() + long(r) * vocab, logits.begin() + long(r + 1) * vocab), params[r],
                got[r], check, fmt::format("row {}", r));
    if (other) {
      Sample again = spec;
      again.threads = other;
      check.equal("with other threads", bits(launch(again, m, logits, params, vocab)), bits(got));
    }
    check.that(got.size() == rows, "all rows");
  };
  return {"sample",
          fmt::format("{} rows={} vocab={} logits={} other={}", field_text(spec), rows, vocab, text(kind), other),
          target_of(spec), run};
}

// Many draws from one row: the frequencies are those of the distribution.
Case frequencies(Sample spec, uint32_t draws, SampleRow row, const std::string& name) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    constexpr uint32_t vocab = 12;
    const std::vector<float> one = random.normals(vocab);
    std::vector<float> logits;
    std::vector<SampleRow> params;
    const uint64_t seed = random.bits();
    for (uint32_t i = 0; i < draws; ++i) {  // half of them other seeds, half other steps
      logits.insert(logits.end(), one.begin(), one.end());
      params.push_back(row);
      params.back().seed = i % 2 ? seed : i, params.back().step = i % 2 ? i : 0;
    }
    std::vector<uint32_t> count(vocab, 0);
    for (const Sampled& s : launch(spec, m, logits, params, vocab)) {
      check.that(s.id < vocab, "an id of the vocabulary");
      if (s.id < vocab) ++count[s.id];
    }
    const std::vector<double> weight = kept_weights(std::vector<double>(one.begin(), one.end()), row, {});
    double all = 0, distance = 0;
    for (double w : weight) all += w;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < vocab; ++i) {
      if (weight[i] == 0) check.that(count[i] == 0, fmt::format("token {} is cut, but drawn", i));
      if (weight[i] == 0) continue;
      const double expected = draws * weight[i] / all;
      distance += (count[i] - expected) * (count[i] - expected) / expected, ++kept;
    }
    // chi-square with at most 11 degrees of freedom is above 52 once in four million
    check.that(distance < 52, fmt::format("chi-square of {} over {} tokens", distance, kept));
    check.that(kept > 3, fmt::format("{} tokens are too few to say anything", kept));
  };
  return {"sample", fmt::format("{} frequencies draws={} {}", field_text(spec), draws, name), target_of(spec), run};
}

}  // namespace

void add_sample_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(sample({.threads = 128, .vec = 2}, 13, 1000, Logits::normal));
  if (sweep == Sweep::quick) return;
  for (Logits kind :
       {Logits::normal, Logits::equal, Logits::few, Logits::peaked, Logits::holes, Logits::infinite, Logits::nothing}) {
    cases.push_back(sample({.threads = 64}, 26, 777, kind, 128));
    cases.push_back(sample({.threads = 32}, 13, 3, kind));
  }
  cases.push_back(sample({.threads = 96, .vec = 4}, 13, 9216, Logits::normal, 256));  // threads^2
  cases.push_back(sample({.threads = 32, .vec = 4}, 13, 1024, Logits::normal));
  cases.push_back(sample({.threads = 1024, .chained = 1}, 3, 32001, Logits::normal));
  cases.push_back(sample({.threads = 64}, 26, 1, Logits::normal));
  cases.push_back(sample({}, 0, 100, Logits::normal));
  cases.push_back(frequencies({.threads = 32}, 4000, {.temperature = 1}, "plain"));
  cases.push_back(frequencies({.threads = 32}, 500, {.temperature = 2, .top_k = 8, .top_p = 0.9f}, "cut"));
  if (sweep == Sweep::normal) return;
  cases.push_back(frequencies({.threads = 128}, 60000, {.temperature = 1.5f}, "plain"));
  cases.push_back(sample({.vec = 4}, 26, 262144, Logits::normal, 512));
  cases.push_back(sample({.vec = 4}, 13, 151936, Logits::few));
}

}  // namespace heddle::proof
