// Batch invariance: the logits of a row depend on the tokens before it in its sequence, bit by bit, and on nothing
// else. Sequences come in random chunks, beside others in any order, in blocks in any order, on teams of any size, and
// with wrong tokens in their KV slots before the right ones come.
#include <gtest/gtest.h>

#include <cstring>

#include "cpu/cpu.h"
#include "tests/cpu/small_features.h"
#include "tests/support/sanitized.h"

namespace heddle::test {
namespace {

using model::KvFormat;
using model::Limits;
using quant::Format;

struct Sequence {
  std::vector<uint32_t> tokens, blocks;
  uint32_t done = 0;
  std::vector<float> logits;  // of all tokens that were fed
};

std::vector<Sequence> some_sequences(const model::Model& model, const std::vector<uint32_t>& sizes) {
  std::mt19937 random(3);
  std::vector<Sequence> all(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i)
    for (uint32_t t = 0; t < sizes[i]; ++t) all[i].tokens.push_back(uint32_t(random() % model.vocabulary));
  return all;
}

// Blocks for every sequence and for some guesses behind it, taken from `order`.
void give_blocks(std::vector<Sequence>& sequences, const Limits& limits, std::vector<uint32_t> order) {
  for (Sequence& sequence : sequences) {
    const size_t count = (sequence.tokens.size() + 8) / limits.block_tokens + 1;
    sequence.blocks.assign(order.end() - long(count), order.end());
    order.resize(order.size() - count);
  }
}

struct Rows {  // of one sequence in a batch
  size_t sequence;
  uint32_t right, guessed;  // right ones first
};

void feed(const model::Model& model, model::Backend& backend, std::vector<Sequence>& sequences,
          const std::vector<Rows>& batch_of) {
  model::Batch batch;
  for (const Sequence& sequence : sequences) batch.blocks.push_back(sequence.blocks);
  for (const Rows& rows : batch_of) {
    Sequence& sequence = sequences[rows.sequence];
    for (uint32_t i = 0; i < rows.right + rows.guessed; ++i) {
      const uint32_t position = sequence.done + i;
      if (i < rows.right) batch.outputs.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(i < rows.right ? sequence.tokens[position] : position * 31 % model.vocabulary);
      batch.positions.push_back(position);
      batch.sequences.push_back(uint32_t(rows.sequence));
    }
  }
  model::forward(model, backend, batch);
  const float* logits = backend.result().logits.data();
  for (const Rows& rows : batch_of) {
    Sequence& sequence = sequences[rows.sequence];
    sequence.logits.insert(sequence.logits.end(), logits, logits + uint64_t(rows.right) * model.vocabulary);
    logits += uint64_t(rows.right) * model.vocabulary;
    sequence.done += rows.right;
  }
}

// Each sequence by itself, in the largest chunks.
void feed_alone(const model::Model& model, model::Backend& backend, const Limits& limits,
                std::vector<Sequence>& sequences) {
  for (size_t i = 0; i < sequences.size(); ++i)
    while (sequences[i].done < sequences[i].tokens.size())
      feed(model, backend, sequences,
           {{i, std::min(limits.rows, uint32_t(sequences[i].tokens.size()) - sequences[i].done), 0}});
}

void feed_one_by_one(const model::Model& model, model::Backend& backend, std::vector<Sequence>& sequences) {
  for (size_t i = 0; i < sequences.size(); ++i)
    while (sequences[i].done < sequences[i].tokens.size()) feed(model, backend, sequences, {{i, 1, 0}});
}

// Batches of one row of each sequence, or of many rows of some; some with up to four guesses behind them.
void feed_mixed(const model::Model& model, model::Backend& backend, const Limits& limits,
                std::vector<Sequence>& sequences, std::mt19937& random) {
  for (;;) {
    std::vector<Rows> rows;
    uint32_t room = limits.rows;
    std::vector<size_t> order(sequences.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::shuffle(order.begin(), order.end(), random);
    const uint32_t max = random() % 2 ? 1 : 1 + uint32_t(random() % limits.rows);
    for (const size_t i : order) {
      const uint32_t left = uint32_t(sequences[i].tokens.size()) - sequences[i].done;
      if (left == 0 || room < 6 || random() % 4 == 0) continue;
      const uint32_t right = std::min({left, room - 4, 1 + uint32_t(random() % max)});
      rows.push_back({i, right, random() % 2 ? uint32_t(random() % 5) : 0});
      room -= right + rows.back().guessed;
    }
    feed(model, backend, sequences, rows);
    if (std::all_of(sequences.begin(), sequences.end(), [](const Sequence& s) { return s.done == s.tokens.size(); }))
      return;
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_the_same(const model::Model& model, const Limits& limits, const std::vector<uint32_t>& sizes,
                     cpu::Options options) {
  std::vector<Sequence> expected = some_sequences(model, sizes);
  std::vector<uint32_t> order(limits.kv_blocks);
  std::iota(order.begin(), order.end(), 0u);
  give_blocks(expected, limits, order);
  options.threads = 1;
  feed_alone(model, *cpu::make_cpu(model, limits, options), limits, expected);

  std::mt19937 random(11);
  for (uint32_t way = 0; way < 3; ++way) {
    std::vector<Sequence> found = some_sequences(model, sizes);
    std::shuffle(order.begin(), order.end(), random);
    give_blocks(found, limits, order);
    options.threads = 1 + way;
    const auto backend = cpu::make_cpu(model, limits, options);
    if (way == 0)
      feed_one_by_one(model, *backend, found);
    else
      feed_mixed(model, *backend, limits, found, random);
    for (size_t i = 0; i < sizes.size(); ++i)
      EXPECT_TRUE(same_bits(expected[i].logits, found[i].logits))
          << options.isa << (options.exact ? ", exact" : "") << ", way " << way << ", sequence " << i;
  }
}

// On every instruction set, with int8 and with f32 activations.
void expect_the_same(const model::Model& model, const Limits& limits, const std::vector<uint32_t>& sizes) {
  if (sanitized) {
    expect_the_same(model, limits, sizes, {});
    return;
  }
  for (const std::string& isa : cpu::isa_names())
    for (const bool exact : {false, true}) expect_the_same(model, limits, sizes, {.isa = isa, .exact = exact});
}

constexpr Limits limits{.rows = 24, .kv_blocks = 14, .block_tokens = 16};
const std::vector<uint32_t> sizes = {40, 21, 9, 1};

class BatchInvariance : public testing::TestWithParam<Format> {};
class BatchInvarianceOfExperts : public testing::TestWithParam<Format> {};

TEST_P(BatchInvariance, DenseModel) {
  Builder builder({.format = GetParam(), .layers = 2, .inner = 256, .vocabulary = 67});
  expect_the_same(builder.model(), limits, sizes);
}

TEST_P(BatchInvarianceOfExperts, Mixture) {
  Builder builder = mixture(GetParam());
  expect_the_same(builder.model(), limits, {25, 13});
}

INSTANTIATE_TEST_SUITE_P(All, BatchInvariance,
                         testing::Values(Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0,
                                         Format::q4_1, Format::q4_k, Format::q6_k, Format::q2_k),
                         [](const auto& one) { return std::string(quant::name(one.param)); });
INSTANTIATE_TEST_SUITE_P(All, BatchInvarianceOfExperts,
                         testing::Values(Format::f32, Format::f16, Format::q8_0, Format::q4_k),
                         [](const auto& one) { return std::string(quant::name(one.param)); });

TEST(BatchInvariance, OddSizes) {
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
    Builder builder(
        {.format = format, .width = 36, .heads = 3, .kv_heads = 1, .head = 10, .inner = 53, .vocabulary = 37});
    expect_the_same(builder.model(), {.rows = 24, .kv_blocks = 70, .block_tokens = 3}, sizes);
  }
}

TEST(BatchInvariance, WindowsSoftcapsAndNorms) {
  Builder builder({.format = Format::q4_0, .layers = 3, .inner = 256});
  model::Model& model = builder.model();
  model.layers[0].get<model::Attention>().window = 5;
  model.layers[1].get<model::Attention>().window = 19;
  for (model::Layer& layer : model.layers) {
    layer.get<model::Attention>().softcap = 2;
    layer.get<model::Attention>().q_norm = builder.norm(64);
    layer.get<model::Attention>().output_norm = builder.norm(256);
    layer.get<model::FeedForward>().output_norm = builder.norm(256);
    layer.get<model::FeedForward>().activation = model::Activation::gelu_tanh;
  }
  model.logit_softcap = 3;
  expect_the_same(model, limits, sizes);
}

TEST(BatchInvariance, PositionsBiasesAndParallelLayers) {
  Builder builder({.format = Format::q8_0, .inner = 256});
  model::Model& model = builder.model();
  model.positions = builder.matrix(64, 256, 1);
  for (model::Layer& layer : model.layers) {
    layer.get<model::Attention>().norm = builder.norm(256, model::Norm::Kind::layer);
    layer.get<model::Attention>().rope = {};
    layer.get<model::Attention>().q_bias = builder.random(256, 0.5);
    layer.get<model::Attention>().output_bias = builder.random(256, 0.5);
    layer.get<model::FeedForward>().gate = {};
    layer.get<model::FeedForward>().activation = model::Activation::gelu;
    layer.get<model::FeedForward>().up_bias = builder.random(256, 0.5);
    layer.parallel = true;
  }
  model.output_bias = builder.random(203, 0.5);
  expect_the_same(model, limits, sizes);
}

TEST(BatchInvariance, FeaturesOfManyFamilies) {
  for (const auto& [name, features] : families()) {
    Builder builder({.format = Format::q8_0,
                     .layers = 2,
                     .width = 64,
                     .heads = 6,
                     .kv_heads = 2,
                     .head = 32,
                     .inner = 96,
                     .vocabulary = 67});
    add_features(builder, features);
    SCOPED_TRACE(name);
    expect_the_same(builder.model(), limits, {25, 13});
  }
}

TEST(BatchInvariance, CacheInQ8) {
  Builder builder({.format = Format::q4_k});
  Limits with = limits;
  with.kv = KvFormat::q8;
  expect_the_same(builder.model(), with, sizes);
  with.block_tokens = 5;  // no multiple of a vector
  with.kv_blocks = 40;
  expect_the_same(builder.model(), with, sizes);
}

// Spans of positions, which threads may share.
TEST(BatchInvariance, LongSequencesSlow) {
  Builder builder({.layers = 2, .heads = 2, .kv_heads = 1, .head = 32, .inner = 64, .vocabulary = 40});
  builder.model().layers[1].get<model::Attention>().window = 600;
  for (const KvFormat kv : {KvFormat::f16, KvFormat::q8})
    expect_the_same(builder.model(), {.rows = 256, .kv_blocks = 64, .block_tokens = 32, .kv = kv}, {1100, 550, 30});
}

}  // namespace
}  // namespace heddle::test
