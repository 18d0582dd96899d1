// Latent attention by value: whole plans, interpreted and compared with the reference.
#include "gpu/weights.h"
#include "tests/cpu/small_model.h"
#include "tests/gpu/interpreted_gpu.h"

namespace heddle::gpu {
namespace {

using model::KvFormat;

// Two layers: the first with queries from the residual stream, the second with queries that go down first.
test::Builder latent_model(quant::Format kv_format) {
  constexpr uint32_t heads = 4, rank = 48, plain = 24, rotated = 8, value = 40, q_rank = 32;
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
