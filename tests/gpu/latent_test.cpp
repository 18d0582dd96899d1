// Latent attention by value: whole plans, interpreted and compared with the reference; and what long prompts launch.
#include "gpu/weights.h"
#include "gpu/work.h"
#include "kernels/attention/latent_expand.h"
#include "kernels/attention/wgmma_attention.h"
#include "tests/cpu/small_model.h"
#include "tests/gpu/interpreted_gpu.h"

namespace heddle::gpu {
namespace {

using model::KvFormat;

struct LatentSizes {
  uint32_t heads = 4, rank = 48, plain = 24, rotated = 8, value = 40;
};
// Two layers: the first with queries from the residual stream, the second with queries that go down first.
test::Builder latent_model(quant::Format kv_format, const LatentSizes& sizes = {}) {
  const auto [heads, rank, plain, rotated, value] = sizes;
  constexpr uint32_t q_rank = 32;
  test::Builder builder({.format = quant::Format::f16, .width = 64, .inner = 96});
  builder.model().context = 128;
  for (model::Layer& layer : builder.model().layers) {
    auto& a = layer.get<model::Attention>();
    const bool second = &layer == &builder.model().layers[1];
    model::Latent& l = a.latent.emplace();
    l.rank = rank;
    l.plain = plain;
    l.rotated = rotated;
    l.value = value;
    if (second) {
      l.q_down = builder.matrix(q_rank, 64);
      l.q_norm = builder.norm(q_rank);
    }
    a.q = builder.matrix(heads * (plain + rotated), second ? q_rank : 64);
    a.k = a.v = {};
    l.kv_down = builder.matrix(kv_format, rank + rotated, 64, 0.125);
    l.kv_norm = builder.norm(rank);
    l.k_up = builder.experts(heads, rank, plain);
    l.v_up = builder.experts(heads, value, rank);
    a.rope = builder.rope(second ? model::Rope::Style::halves : model::Rope::Style::pairs, rotated);
    a.heads = heads;
    a.kv_heads = 1;
    a.head = rank + rotated;
    a.value_head = rank;
    a.scale = 0.3f;
    a.output = builder.matrix(64, heads * value);
  }
  return builder;
}

class Latents : public InterpretedGpu {};

TEST_F(Latents, SlowPlansGiveTheReferencesLogits) {
  for (const quant::Format kv : {quant::Format::f16, quant::Format::q8_0})  // of other formats: two products
    for (const bool deterministic : {false, true}) {
      test::Builder builder = latent_model(kv);
      const model::Limits limits{.rows = 80,
                                 .kv_blocks = 64,
                                 .block_tokens = 16,
                                 .kv = deterministic == (kv == quant::Format::f16) ? KvFormat::q8 : KvFormat::f16};
      BesideReference both(builder.model(), limits, interpreted({.deterministic = deterministic}), 4e-3);
      both.feed({{0, 5}});
      both.feed({{0, 1}});
      both.feed({{1, 1}, {0, 1}});
      both.feed({{0, 1}, {2, 1}, {1, 1}});
      both.feed({{0, 1}, {3, 17}, {1, 2}}, BesideReference::last);
      if (deterministic) continue;
      both.feed({{3, 1}, {4, 65}, {1, 10}}, BesideReference::last);
      both.feed({{4, 1}, {1, 1}});
    }
}

// Long prompts attend to keys and values, alone, beside other rows, and after positions that are in the cache.
TEST_F(Latents, SlowLongPromptsGiveTheReferencesLogits) {
  for (const KvFormat kv : {KvFormat::f16, KvFormat::q8}) {
    test::Builder builder = latent_model(quant::Format::f16, {.heads = 3, .plain = 48, .rotated = 16, .value = 32});
    builder.model().context = 320;
    if (kv == KvFormat::q8)
      for (model::Layer& layer : builder.model().layers)
        layer.get<model::Attention>().temperature = {.scale = 0.3f, .length = 64, .offset = 1};
    const model::Limits limits{.rows = 320, .kv_blocks = 80, .block_tokens = 16, .kv = kv};
    BesideReference both(builder.model(), limits, interpreted(), 4e-3);
    const size_t before = launches();
    both.feed({{0, 9}, {1, 5}}, BesideReference::last);
    EXPECT_TRUE(launched("latent_expand", before).empty());
    both.feed({{2, 1}, {0, min_expanded_rows + 3}, {1, 2}}, BesideReference::last);
    const auto expanded = launched("latent_expand", before), attended = launched("wgmma_attention", before);
    ASSERT_EQ(expanded.size(), 2u);  // layers
    ASSERT_EQ(attended.size(), 2u);
    const auto args = args_of<kernels::LatentExpand::Args>(expanded[0]);
    EXPECT_EQ(args.positions, 9 + min_expanded_rows + 3);
    EXPECT_EQ(args.sequence, 1u);
    EXPECT_EQ(args_of<kernels::WgmmaAttention::Args>(attended[0]).tile_count, 3u);
    both.feed({{0, 1}, {1, 1}});
    both.feed({{0, 1}, {3, min_expanded_rows}}, BesideReference::last);
    EXPECT_EQ(launched("latent_expand", before).size(), 4u);
  }
}

class LatentLaunches : public FakeGpu {};

// Where keys and values of all heads are too many, some heads are computed after the others, and each once.
TEST_F(LatentLaunches, HeadsTakeTurnsWhereThereIsNoRoom) {
  constexpr uint32_t heads = 33, plain = 176, rotated = 16, value = 256, rows = 300, before = 15'000;
  test::Builder builder = latent_model(
      quant::Format::f16, {.heads = heads, .rank = 16, .plain = plain, .rotated = rotated, .value = value});
  model::Model& model = builder.model();
  model.context = 16384;
  const model::Limits limits{.rows = rows, .kv_blocks = 1024, .block_tokens = 16};
  control().sms = 100;
  const WorkSizes sizes(model, limits, 100, false, true);
  EXPECT_EQ(sizes.expanded, max_expanded_bytes);
  auto backend = make_gpu(model, limits, {.preload = false});
  model::Batch batch;
  batch.blocks.emplace_back();
  for (uint32_t i = 0; i < 1024; ++i) batch.blocks[0].push_back(i);
  for (uint32_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(i % 7);
    batch.positions.push_back(before + i);
    batch.sequences.push_back(0);
  }
  batch.outputs = {rows - 1};
  const size_t first = launches();
  model::forward(model, *backend, batch);
  backend->result();
  EXPECT_TRUE(launched("latent_attention", first).empty());
  const auto expanded = launched("latent_expand", first), attended = launched("wgmma_attention", first);
  ASSERT_EQ(expanded.size(), attended.size());
  ASSERT_EQ(expanded.size() % 2, 0u);
  EXPECT_GT(expanded.size(), 2u);
  uint32_t next = 0;
  for (size_t i = 0; i < expanded.size() / 2; ++i) {  // of the first layer
    const auto made = args_of<kernels::LatentExpand::Args>(expanded[i]);
    const auto read = args_of<kernels::WgmmaAttention::Args>(attended[i]);
    const auto start = args_of<kernels::LatentExpand::Args>(expanded[0]);
    const auto start_read = args_of<kernels::WgmmaAttention::Args>(attended[0]);
    EXPECT_EQ(made.positions, before + rows);
    EXPECT_EQ(made.stride, 15'312u);  // a multiple of 16
    EXPECT_EQ(read.page_size, made.stride);
    EXPECT_EQ(read.table_stride, 0u);
    EXPECT_EQ(read.k.address, made.keys.address);
    EXPECT_EQ(read.v.address, made.values.address);
    EXPECT_EQ(made.values.address, made.keys.address + uint64_t(made.heads) * made.stride * (plain + rotated) * 2);
    const uint64_t end = made.values.address + uint64_t(made.heads) * made.stride * value * 2;
    EXPECT_LE(end - start.keys.address, sizes.expanded);
    EXPECT_EQ(made.k_up.address, start.k_up.address + uint64_t(next) * 16 * plain * 2);
    EXPECT_EQ(made.v_up.address, start.v_up.address + uint64_t(next) * 16 * value * 2);
    EXPECT_EQ(read.q.address, start_read.q.address + uint64_t(next) * (plain + rotated) * 4);
    EXPECT_EQ(read.out.address, start_read.out.address + uint64_t(next) * value * 4);
    EXPECT_EQ(read.heads, made.heads);
    EXPECT_EQ(read.kv_heads, made.heads);
    next += made.heads;
  }
  EXPECT_EQ(next, heads);
}

// Neither on GPUs without warp groups, nor where sums must not depend on the rows; nor is there memory for it.
TEST_F(LatentLaunches, OthersKeepLatentsForPrompts) {
  const auto kernels_of = [&](const LatentSizes& sizes, const Options& options, uint32_t sm) {
    control().sm = sm;
    control().sms = 8;
    test::Builder builder = latent_model(quant::Format::f16, sizes);
    builder.model().context = 640;
    const model::Limits limits{.rows = 320, .kv_blocks = 64, .block_tokens = 16};
    Options given = options;
    given.preload = false;
    auto backend = make_gpu(builder.model(), limits, given);
    model::Batch batch;
    batch.blocks.emplace_back();
    for (uint32_t i = 0; i < 64; ++i) batch.blocks[0].push_back(i);
    for (uint32_t i = 0; i < 300; ++i) {
      batch.tokens.push_back(i % 7);
      batch.positions.push_back(i);
      batch.sequences.push_back(0);
    }
    batch.outputs = {299};
    const size_t first = launches();
    model::forward(builder.model(), *backend, batch);
    backend->result();
    EXPECT_NE(launched("latent_expand", first).empty(), launched("latent_attention", first).empty());
    return launched("latent_expand", first).size();
  };
  const LatentSizes usual{.plain = 48, .rotated = 16, .value = 32};
  EXPECT_EQ(kernels_of(usual, {}, 90), 2u);
  EXPECT_EQ(kernels_of(usual, {}, 100), 0u);
  EXPECT_EQ(kernels_of(usual, {.exact = true}, 90), 0u);
  EXPECT_EQ(kernels_of(usual, {.deterministic = true}, 90), 0u);
  EXPECT_EQ(kernels_of({.plain = 24, .rotated = 8, .value = 32}, {}, 90), 0u);   // heads of 32
  EXPECT_EQ(kernels_of({.plain = 48, .rotated = 16, .value = 40}, {}, 90), 0u);  // values of 40
  test::Builder builder = latent_model(quant::Format::f16, usual);
  const model::Limits limits{.rows = 320, .kv_blocks = 64, .block_tokens = 16};
  const WorkSizes with(builder.model(), limits, 132, false, true), without(builder.model(), limits, 132);
  EXPECT_EQ(with.expanded, expanded_bytes(*builder.model().layers[0].get<model::Attention>().latent, with.context) * 4);
  EXPECT_EQ(without.expanded, 0u);
  EXPECT_EQ(with.bytes(), without.bytes() + allocated(with.expanded) + allocated(4));
  const model::Limits few{.rows = min_expanded_rows - 1, .kv_blocks = 64, .block_tokens = 16};
  EXPECT_EQ(WorkSizes(builder.model(), few, 132, false, true).expanded, 0u);
}

TEST_F(Latents, HaveNoValuesInTheCache) {
  test::Builder builder = latent_model(quant::Format::f16);
  const model::Limits limits{.kv_blocks = 8, .block_tokens = 16};
  EXPECT_EQ(model::kv_bytes(builder.model(), limits), 2u * (48 + 8) * 2 * 8 * 16);
}

TEST_F(Latents, ThatDoNotFitAreRefusedByName) {
  test::Builder builder = latent_model(quant::Format::f16);
  builder.model().layers[0].get<model::Attention>().latent->rank = 47;
  EXPECT_THROW(
      {
        try {
          describe_weights(builder.model());
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(),
                       "latents of 47 values and heads of 24 + 8 and 40 values, expected multiples of 16 up to 1024 "
                       "and of 8 up to 512 on the GPU");
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace heddle::gpu
