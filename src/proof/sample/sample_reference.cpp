// The chain of docs/sampling.md for the steps that the kernel has, on one row.
#include "proof/sample/sample_reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace heddle::proof {
namespace {

using kernels::SampleRow;
using kernels::TokenBias;

struct Token {
  uint32_t id;
  float logit;
  uint64_t weight;
};

// The first 64 bits of Philox4x32-10 with the counter (step, 0) and the key seed, as a number in [0, 1).
double random_number(uint64_t seed, uint64_t step) {
  std::array<uint32_t, 4> c{uint32_t(step), uint32_t(step >> 32), 0, 0};
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53) * c[0], b = uint64_t(0xcd9e8d57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return double((uint64_t(c[1]) << 32 | c[0]) >> 11) * 0x1p-53;
}

// e^x for x <= 0 in units of 2^-34. In f32 and in this order: the last bit decides which token is drawn.
uint64_t weight_of(float x) {
  const float inside = x > -80 ? x : -80;
  const float shifted = inside * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f;
  const float r = (inside - n * 0.693145752f) - n * 1.42860677e-6f, square = r * r;
  const float upper = (r * (1.f / 5040) + 1.f / 720) * square + (r * (1.f / 120) + 1.f / 24);
  const float lower = (r * (1.f / 6) + 0.5f) * square + (r + 1.f);
  const float weight = std::ldexp(upper * (square * square) + lower, int(n));
  return uint64_t(std::nearbyint(double(weight) * 0x1p34));
}

std::vector<float> changed(const SampleInput& in) {
  std::vector<float> logits(in.logits.begin(), in.logits.end());
  if (!in.allowed.empty()) logits = in.allowed;
  for (const TokenBias& b : in.biases)
    if (b.id < logits.size()) logits[b.id] += b.bias;
  struct Counts {
    bool seen = false;
    uint32_t generated = 0;
  };
  std::map<uint32_t, Counts> counts;
  for (size_t i = 0; i < in.text.size(); ++i) {
    Counts& c = counts[in.text[i]];
    c.seen |= in.text.size() - i <= in.row.repetition_last;
    c.generated += i >= in.row.prompt;
  }
  for (const auto& [id, c] : counts) {
    if (id >= logits.size()) continue;
    float& x = logits[id];
    if (c.seen) x = x > 0 ? x / in.row.repetition : x * in.row.repetition;
    if (c.generated) x -= in.row.presence + float(c.generated) * in.row.frequency;
  }
  return logits;
}

double log_probability(std::span<const float> logits, uint32_t id) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - double(largest));
  return double(logits[id]) - double(largest) - std::log(sum);
}

}  // namespace

SampleReference sample_reference(const SampleInput& in) {
  std::vector<Token> tokens;
  const std::vector<float> logits = changed(in);
  for (uint32_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] <= std::numeric_limits<float>::max())) return {};
    tokens.push_back({id, logits[id], 0});
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.logit > b.logit; });
  const float largest = tokens[0].logit;
  if (std::isinf(largest)) return {};
  const auto weigh = [&](float temperature) {
    uint64_t total = 0;
    for (Token& t : tokens) total += t.weight = weight_of((t.logit - largest) / temperature);
    return total;
  };

  const SampleRow& row = in.row;
  if (row.top_k > 0 && row.top_k < tokens.size()) tokens.resize(row.top_k);
  if (row.top_p < 1) {
    const double goal = double(row.top_p) * double(weigh(1));
    uint64_t sum = 0;
    size_t count = 0;
    while (count == 0 || double(sum) < goal) sum += tokens[count++].weight;
    tokens.resize(count);
  }
  const auto least = float(double(largest) + row.log_min_p);
  std::erase_if(tokens, [&](const Token& t) { return t.logit < least; });
  if (row.temperature <= 0) tokens.resize(1);
  const auto total = double(weigh(row.temperature > 0 ? row.temperature : 1));

  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.id < b.id; });
  auto place = uint64_t(random_number(row.seed, row.step) * total);
  for (const Token& t : tokens) {
    if (place < t.weight) return {t.id, log_probability(in.logits, t.id)};
    place -= t.weight;
  }
  return {};
}

}  // namespace heddle::proof
