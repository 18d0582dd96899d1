// Attention over the KV cache: against sums in f64 of what the cache keeps, for every instruction set, and the same
// bits for a row alone, in a batch, and on any number of threads.
#include "cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "cpu/cpu.h"
#include "quant/half.h"
#include "quant/kv_q8.h"

namespace heddle::cpu {
namespace {

using model::KvFormat;

// A sequence in a cache of random keys and values, with a query for each position.
struct Text {
  model::Attention attention;
  model::Limits limits;
  uint32_t tokens;
  std::vector<float> q, keys, values;  // (tokens, heads, head), (tokens, kv_heads, head), as the cache keeps them
  std::vector<uint32_t> blocks;
  std::unique_ptr<KvCache> cache;
};

// What the cache keeps of a head.
std::vector<float> kept(KvFormat format, const float* values, uint32_t count) {
  std::vector<float> result(count);
  if (format == KvFormat::f16) {
    for (uint32_t i = 0; i < count; ++i) result[i] = quant::f32_of_f16(quant::f16_of_f32(values[i]));
    return result;
  }
  for (uint32_t i = 0; i < count; i += quant::kv_q8_values) {
    const uint32_t size = std::min(quant::kv_q8_values, count - i);
    int8_t q[quant::kv_q8_values];
    const uint16_t scale = quant::encode_kv_q8(values + i, q, size);
    quant::decode_kv_q8(scale, q, result.data() + i, size);
  }
  return result;
}

Text make_text(const model::Attention& attention, KvFormat format, uint32_t block_tokens, uint32_t tokens,
               const Isa& isa, std::mt19937& random) {
  Text text{attention, {}, tokens, {}, {}, {}, {}, nullptr};
  text.limits = {.rows = tokens, .kv_blocks = tokens / block_tokens + 3, .block_tokens = block_tokens, .kv = format};
  const model::Attention& a = text.attention;
  text.cache = std::make_unique<KvCache>(a, text.limits, text.limits.kv_blocks);
  for (uint32_t i = 0; i < text.limits.kv_blocks; ++i) text.blocks.push_back(i);
  std::shuffle(text.blocks.begin(), text.blocks.end(), random);
  std::normal_distribution<float> normal;
  const auto fill = [&](uint32_t count) {
    std::vector<float> all(count);
    for (float& value : all) value = normal(random);
    return all;
  };
  const auto keep = [&](const std::vector<float>& all, uint32_t head, std::vector<float>& to) {
    for (uint32_t h = 0; h < a.kv_heads; ++h) {
      const std::vector<float> one = kept(format, all.data() + h * head, head);
      to.insert(to.end(), one.begin(), one.end());
    }
  };
  for (uint32_t t = 0; t < tokens; ++t) {
    const std::vector<float> q = fill(a.heads * a.head), k = fill(a.kv_heads * a.head),
                             v = fill(a.kv_heads * a.value_head);
    text.q.insert(text.q.end(), q.begin(), q.end());
    keep(k, a.head, text.keys);
    keep(v, a.value_head, text.values);
    for (uint32_t h = 0; h < a.kv_heads; ++h)
      text.cache->put(isa, h, text.blocks[t / block_tokens], t % block_tokens, k.data(), v.data());
  }
  return text;
}

// Rows first..first + count - 1 as one batch: (count, heads, value_head).
std::vector<float> attend(const Text& text, const Isa& isa, uint32_t threads, uint32_t first, uint32_t count) {
  const model::Attention& a = text.attention;
  model::Batch batch;
  batch.blocks = {text.blocks};
  Rows q(count, a.heads * a.head, {});
  for (uint32_t i = 0; i < count; ++i) {
    batch.tokens.push_back(0);
    batch.positions.push_back(first + i);
    batch.sequences.push_back(0);
    std::copy_n(text.q.data() + uint64_t(first + i) * q.cols(), q.cols(), q.row(i));
  }
  Team team(threads);
  Attend attend(isa, team, text.limits);
  std::vector<float> out(uint64_t(count) * a.heads * a.value_head);
  attend.run(batch, batch.blocks, a, *text.cache, q, {out.data(), uint64_t(a.heads) * a.value_head, a.value_head});
  return out;
}

std::vector<double> expected_row(const Text& text, uint32_t row) {
  const model::Attention& a = text.attention;
  const uint32_t first = a.window && row + 1 > a.window ? row + 1 - a.window : 0;
  std::vector<double> out(a.heads * a.value_head);
  for (uint32_t h = 0; h < a.heads; ++h) {
    const uint32_t kv = h / (a.heads / a.kv_heads);
    std::vector<double> scores;
    double largest = -INFINITY, sum = 0;
    for (uint32_t t = first; t <= row; ++t) {
      double score = 0;
      for (uint32_t i = 0; i < a.head; ++i)
        score += double(text.q[(uint64_t(row) * a.heads + h) * a.head + i]) *
                 double(text.keys[(uint64_t(t) * a.kv_heads + kv) * a.head + i]);
      score *= double(a.scale);
      if (a.softcap != 0) score = double(a.softcap) * std::tanh(score / double(a.softcap));
      if (!a.slopes.empty()) score -= double(a.slopes[h]) * (row - t);
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    for (double& score : scores) sum += score = std::exp(score - largest);
    if (!a.sinks.empty()) sum += std::exp(double(a.sinks[h]) - largest);
    for (uint32_t t = first; t <= row; ++t)
      for (uint32_t i = 0; i < a.value_head; ++i)
        out[h * a.value_head + i] +=
            scores[t - first] / sum * double(text.values[(uint64_t(t) * a.kv_heads + kv) * a.value_head + i]);
  }
  return out;
}

struct Shape {
  uint32_t heads, kv_heads, head, value_head, block_tokens, tokens;
  uint32_t window = 0;
  float softcap = 0;
  bool slopes = false, sinks = false;
};
constexpr Shape shapes[] = {
    {.heads = 8, .kv_heads = 2, .head = 64, .value_head = 64, .block_tokens = 32, .tokens = 150},
    {.heads = 7, .kv_heads = 1, .head = 128, .value_head = 128, .block_tokens = 32, .tokens = 70},
    {.heads = 3, .kv_heads = 3, .head = 80, .value_head = 80, .block_tokens = 32, .tokens = 65},
    {.heads = 9, .kv_heads = 1, .head = 33, .value_head = 5, .block_tokens = 16, .tokens = 40},
    {.heads = 2, .kv_heads = 1, .head = 5, .value_head = 48, .block_tokens = 7, .tokens = 30},
    {.heads = 6, .kv_heads = 2, .head = 32, .value_head = 96, .block_tokens = 48, .tokens = 100, .window = 20},
    {.heads = 4, .kv_heads = 2, .head = 64, .value_head = 32, .block_tokens = 32, .tokens = 90, .softcap = 3},
    {.heads = 4, .kv_heads = 2, .head = 16, .value_head = 16, .block_tokens = 32, .tokens = 90, .slopes = true},
    {.heads = 4, .kv_heads = 1, .head = 16, .value_head = 16, .block_tokens = 32, .tokens = 1, .sinks = true},
    {.heads = 2, .kv_heads = 2, .head = 24, .value_head = 40, .block_tokens = 32, .tokens = 1100},
};

class Attention : public testing::TestWithParam<std::tuple<std::string, KvFormat>> {};

TEST_P(Attention, IsThatOfTheReferenceAndOfEveryBatch) {
  const Isa& isa = choose_isa(std::get<0>(GetParam()));
  std::mt19937 random(std::random_device{}());
  for (const Shape& shape : shapes) {
    model::Attention a;
    a.heads = shape.heads;
    a.kv_heads = shape.kv_heads;
    a.head = shape.head;
    a.value_head = shape.value_head;
    a.scale = 0.3f;
    a.window = shape.window;
    a.softcap = shape.softcap;
    std::vector<float> slopes, sinks;
    for (uint32_t h = 0; h < shape.heads; ++h) {
      slopes.push_back(0.01f * float(h + 1));
      sinks.push_back(float(h) - 1);
    }
    if (shape.slopes) a.slopes = slopes;
    if (shape.sinks) a.sinks = sinks;
    const Text text = make_text(a, std::get<1>(GetParam()), shape.block_tokens, shape.tokens, isa, random);
    const std::vector<float> all = attend(text, isa, 1, 0, shape.tokens);
    const uint32_t size = shape.heads * shape.value_head;
    const std::string what =
        fmt::format("{} heads, {} kv heads of {} and {}, {} tokens in blocks of {}", shape.heads, shape.kv_heads,
                    shape.head, shape.value_head, shape.tokens, shape.block_tokens);
    for (uint32_t row = 0; row<shape.tokens; row += shape.tokens> 200 ? 97 : 1) {
      const std::vector<double> expected = expected_row(text, row);
      for (uint32_t i = 0; i < size; ++i)
        ASSERT_NEAR(all[uint64_t(row) * size + i], expected[i], 1e-5) << what << ", row " << row;
    }
    // The same bits of some rows alone and of several at once, on one thread and on three.
    for (const uint32_t count : {1u, 2u, 5u}) {
      if (count > shape.tokens) continue;
      const uint32_t first = uint32_t(random() % (shape.tokens - count + 1));
      for (const uint32_t threads : {1u, 3u}) {
        const std::vector<float> some = attend(text, isa, threads, first, count);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + uint64_t(first) * size, some.size() * sizeof(float)), 0)
            << what << ", rows " << first << " to " << first + count - 1 << " on " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Attention,
                         testing::Combine(testing::ValuesIn(isa_names()), testing::Values(KvFormat::f16, KvFormat::q8)),
                         [](const auto& of) {
                           std::string name = std::get<0>(of.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(of.param) == KvFormat::q8 ? "_q8" : "_f16");
                         });

}  // namespace
}  // namespace heddle::cpu
