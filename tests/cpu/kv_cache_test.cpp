// The KV cache: copies of blocks, and what q8 keeps of keys and values.
#include "cpu/kv_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cpu/cpu.h"
#include "model/split.h"
#include "tests/cpu/small_model.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using model::KvFormat;
using model::Limits;
using quant::Format;

constexpr Limits in_f16{.rows = 64, .kv_blocks = 8, .block_tokens = 16};
constexpr Limits in_q8{.rows = 64, .kv_blocks = 8, .block_tokens = 16, .kv = KvFormat::q8};

// Logits of the last of these tokens, which begin at `position`.
std::vector<float> feed_kv(const model::Model& model, model::Backend& backend, const std::vector<uint32_t>& blocks,
                           uint32_t position, const std::vector<uint32_t>& tokens) {
  model::Batch batch;
  batch.tokens = tokens;
  for (uint32_t i = 0; i < tokens.size(); ++i) batch.positions.push_back(position + i);
  batch.sequences.assign(tokens.size(), 0);
  batch.blocks = {blocks};
  batch.outputs = {uint32_t(tokens.size()) - 1};
  model::forward(model, backend, batch);
  const std::span<const float> logits = backend.result().logits;
  return {logits.begin(), logits.end()};
}

// Twenty tokens; the block of the last four is copied, and two sequences continue from there with other tokens.
void expect_copies_diverge(const model::Model& model, const MakeBackend& make, const Limits& limits) {
  std::vector<uint32_t> tokens(20);
  for (uint32_t i = 0; i < 20; ++i) tokens[i] = i * 37 % model.vocabulary;
  const auto backend = make(model, limits);
  feed_kv(model, *backend, {2, 5}, 0, tokens);
  backend->copy_block(5, 1);
  backend->copy_block(1, 1);
  std::vector<float> first, second;
  for (uint32_t position = 20; position < 24; ++position) {
    first = feed_kv(model, *backend, {2, 5}, position, {position});
    second = feed_kv(model, *backend, {2, 1}, position, {position + 40});
  }
  const auto alone = make(model, limits);
  for (const uint32_t others : {0u, 40u}) {
    std::vector<uint32_t> all = tokens;
    for (uint32_t position = 20; position < 24; ++position) all.push_back(position + others);
    EXPECT_EQ(feed_kv(model, *alone, {0, 1}, 0, all), others ? second : first);
  }
  EXPECT_THROW(backend->copy_block(0, limits.kv_blocks), std::logic_error);
  EXPECT_THROW(backend->copy_block(limits.kv_blocks, 0), std::logic_error);
}

TEST(CpuKv, CopiedBlocksDiverge) {
  Builder builder({});
  for (const Limits& limits : {in_f16, in_q8}) {
    expect_copies_diverge(builder.model(), fast(false), limits);
    expect_copies_diverge(builder.model(), fast(true), limits);
    expect_copies_diverge(builder.model(), cpu::make_reference, limits);
  }
}

// 40 tokens, of which two blocks and the windows that later tokens see go to other places of another backend, as bytes.
void expect_bytes_move(const model::Model& model, const MakeBackend& make, Limits limits) {
  limits.window_blocks = 6;
  const auto one = make(model, limits), other = make(model, limits);
  EXPECT_EQ(one->kv_layout(), other->kv_layout());
  const auto feed = [&](model::Backend& backend, uint32_t from, uint32_t to, const std::vector<uint32_t>& blocks,
                        const std::vector<uint32_t>& windows) {
    model::Batch batch{.blocks = {blocks}, .window_blocks = {windows}, .outputs = {to - from - 1}};
    for (uint32_t i = from; i < to; ++i) {
      batch.tokens.push_back(i * 37 % model.vocabulary);
      batch.positions.push_back(i);
      batch.sequences.push_back(0);
    }
    model::forward(model, backend, batch);
    const std::span<const float> logits = backend.result().logits;
    return std::vector<float>(logits.begin(), logits.end());
  };
  feed(*one, 0, 32, {2, 5, 1}, {4, 1, 0});
  feed(*other, 0, 48, {7, 6, 4}, {0, 2, 5});  // what is overwritten
  const auto move = [&](model::KvPlace from, model::KvPlace to) {
    std::vector<uint8_t> bytes(one->kv_part_bytes(from.part));
    EXPECT_GT(bytes.size(), 0u);
    const model::KvRead read{from, bytes};
    one->read_kv({&read, 1});
    other->write_kv(to, bytes);
  };
  using enum model::KvPart;
  move({block, 2}, {block, 7});
  move({block, 5}, {block, 0});
  move({window, 1}, {window, 5});
  EXPECT_EQ(feed(*other, 32, 48, {7, 0, 1}, {model::no_block, 5, 3}), feed(*one, 32, 48, {2, 5, 1}, {4, 1, 0}));
  std::vector<uint8_t> bytes(one->kv_part_bytes(block));
  EXPECT_THROW(one->write_kv({block, limits.kv_blocks}, bytes), std::logic_error);
  EXPECT_THROW(one->write_kv({block, 0}, std::span(bytes).first(bytes.size() - 1)), std::logic_error);
  EXPECT_THROW(one->write_kv({window, limits.window_blocks}, bytes), std::logic_error);
}

TEST(CpuKv, BytesOfBlocksMove) {
  Builder builder({.layers = 3, .head = 40});
  model::Model& model = builder.model();
  model.layers[1].get<model::Attention>().window = 12;
  for (const Limits& limits : {in_f16, in_q8})
    for (const MakeBackend& make : {fast(false), fast(true), MakeBackend(cpu::make_reference)}) {
      expect_bytes_move(model, make, limits);
      for (const uint32_t layers : {0u, 1u, 2u})
        expect_bytes_move(
            model,
            [&](const model::Model& whole, const Limits& of) {
              const auto part = [&](const model::Model& m) { return make(m, of); };
              return model::make_split(whole, model::Placement::first_layers(whole, layers), part, part);
            },
            limits);
    }
}

// Both keep the same int8; only the order of sums differs.
TEST(CpuKv, Q8IsThatOfTheReference) {
  for (const uint32_t head : {32u, 64u, 96u, 128u, 5u, 33u, 80u}) {
    Builder builder({.layers = 2, .heads = 6, .kv_heads = 2, .head = head});
    const std::vector<uint32_t> batches = {40, 1, 1, 30, 3};
    const std::vector<float> expected =
        run(builder.model(), *cpu::make_reference(builder.model(), in_q8), in_q8, batches);
    for (const std::string& isa : cpu::isa_names()) {
      const auto backend = cpu::make_cpu(builder.model(), in_q8, {.threads = 2, .isa = isa, .exact = true});
      EXPECT_LT(worst(expected, run(builder.model(), *backend, in_q8, batches)), 1e-3) << isa << ", heads of " << head;
      EXPECT_NE(backend->describe().find("q8 KV"), std::string::npos);
    }
  }
}

TEST(CpuKv, Q8TakesItsShareOfMemory) {
  Builder builder({});
  const uint64_t values = 2 * 8 * 16 * 2 * (64 + 64);  // layers, blocks, tokens, heads
  EXPECT_EQ(cpu::memory_needed(builder.model(), in_f16).kv, values * 2);
  EXPECT_EQ(cpu::memory_needed(builder.model(), in_q8).kv, values + values / 32 * 2);
}

// Keys and values of a text that is computed in one batch are not needed by other layers. Attentions of another shape
// have another cache.
TEST(CpuKv, LayersInBothDirectionsShareOneCache) {
  Builder builder({.layers = 5});
  model::Model& model = builder.model();
  const uint64_t causal = cpu::memory_needed(model, in_f16).kv;
  EXPECT_EQ(model::kv_cache_numbers(model), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  for (model::Layer& layer : model.layers) layer.get<model::Attention>().causal = false;
  EXPECT_EQ(model::kv_cache_numbers(model), (std::vector<uint32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(cpu::memory_needed(model, in_f16).kv * 5, causal);
  model.layers[1].get<model::Attention>().value_head /= 2;
  model.layers[2].get<model::Attention>().causal = true;
  model.layers[3].get<model::Attention>().value_head /= 2;
  EXPECT_EQ(model::kv_cache_numbers(model), (std::vector<uint32_t>{0, 1, 2, 1, 0}));
  EXPECT_EQ(cpu::memory_needed(model, in_f16).kv * 20, causal * 11);
}

// Each of two backends has a cache of its own, so a layer on either does not write over that of the other.
TEST(CpuKv, ASharedCacheGivesTheSameBits) {
  Builder builder({});
  model::Model& model = builder.model();
  for (model::Layer& layer : model.layers) layer.get<model::Attention>().causal = false;
  std::vector<uint32_t> tokens(39);
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = i * 37 % model.vocabulary;
  for (const Limits& limits : {in_f16, in_q8})
    for (const MakeBackend& make : {fast(false), fast(true), MakeBackend(cpu::make_reference)}) {
      const auto shared = make(model, limits);
      const auto of_part = [&](const model::Model& part) { return make(part, limits); };
      const auto apart = model::make_split(model, model::Placement::first_layers(model, 1), of_part, of_part);
      for (const uint32_t count : {39u, 1u, 20u}) {
        const std::vector<uint32_t> text(tokens.begin(), tokens.begin() + count);
        EXPECT_EQ(feed_kv(model, *shared, {2, 5, 1}, 0, text), feed_kv(model, *apart, {3, 0, 4}, 0, text));
      }
    }
}

// What a head has beyond a multiple of 32 is a group of its own.
TEST(CpuKv, Q8OfOtherHeadsTakesItsShareOfMemory) {
  Builder builder({.heads = 2, .kv_heads = 2, .head = 80});
  EXPECT_EQ(cpu::memory_needed(builder.model(), in_q8).kv, 2u * 8 * 16 * 2 * 2 * (80 + 3 * 2));
  for (model::Layer& layer : builder.model().layers) {  // values in the keys
    auto& a = layer.get<model::Attention>();
    a.latent.emplace();
    a.kv_heads = 1;
    a.head = 576;
    a.value_head = 512;
  }
  EXPECT_EQ(model::kv_bytes(builder.model(), in_q8), 2u * 8 * 16 * (576 + 18 * 2));
  EXPECT_EQ(model::kv_bytes(builder.model(), in_f16), 2u * 8 * 16 * 576 * 2);
}

}  // namespace
}  // namespace heddle::test
