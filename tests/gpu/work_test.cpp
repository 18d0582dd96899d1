// The buffers of a step: their sizes for a small model, counted by hand.
#include "gpu/work.h"

#include <gtest/gtest.h>

#include "gpu/tuning.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

constexpr uint32_t sms = 132;
const model::Limits limits{.rows = 10, .kv_blocks = 3, .block_tokens = 32};

// A buffer begins at a multiple of 512.
uint64_t rounded(uint64_t bytes) { return (bytes + 511) / 512 * 512; }

// The buffers for picking, for 10 rows, 100 tokens and 97 positions.
uint64_t picking_bytes() {
  const uint64_t picked = 512, tops = rounded(10 * 20 * 8), params = rounded(10 * 80), history = rounded(8 * 10 * 8),
                 step = 512;
  const uint64_t texts = rounded(10 * 97 * 4), biases = 10 * 1024 * 8, changed = rounded(10 * 100 * 4);
  const uint64_t masks = rounded(10 * 4 * 4);
  return picked + tops + params + history + step + texts + biases + changed + masks;
}
uint64_t attention_bytes(const WorkSizes& s) { return rounded(s.partial * 4 + 256) + rounded(s.arrived * 4 + 256); }

TEST(WorkSizes, AreThoseOfTheWidestLayer) {
  SmallModel small;
  const WorkSizes s(small.model, limits, sms);
  EXPECT_EQ(s.rows, 10u);
  EXPECT_EQ(s.table_stride, 3u);
  EXPECT_EQ(s.context, 97u);
  EXPECT_EQ(s.vocabulary, 100u);
  EXPECT_EQ(s.width, 64u);
  EXPECT_EQ(s.qkv, 128u);
  EXPECT_EQ(s.q, 64u);
  EXPECT_EQ(s.attended, 64u);
  EXPECT_EQ(s.inner, 192u);
  EXPECT_EQ(s.act, 96u);
  EXPECT_EQ(s.half, 256u);  // 64 and 96 values, filled up to a slice
  EXPECT_EQ(s.experts + s.used + s.expert_inner + s.expert_act, 0u);
  const uint64_t rows = 2560 /* h */ + 5120 /* qkv */ + 2560 /* q */ + 2560 /* attended */ + 7680 /* inner */ +
                        4096 /* act: 3840 */ + 2560 /* result */ + 16384 /* half: 32 rows */ +
                        3 * 512 /* half_scale, attended_scale, act_scale */ + 2 * 32 * 64 * 2 /* late */ +
                        2 * 128 * 16 /* squares: two sublayers */;
  const uint64_t step =
      8 * 512 /* tokens, positions, types, lengths, sequences, outputs, lengths of texts by row and by tile */ +
      512 /* table */ + 512 /* tiles */;
  EXPECT_EQ(s.bytes(), rows + 4096 /* logits: 4000 */ + step + attention_bytes(s) + picking_bytes());
}

TEST(WorkSizes, OddSizesAreFilledUp) {
  SmallModel small(2);
  model::FeedForward& f = small.model.layers[1].get<model::FeedForward>();
  f.gate = small.matrix(101, 64);
  f.up = small.matrix(101, 64);
  f.down = small.matrix(64, 101);
  model::Attention& a = small.model.layers[1].get<model::Attention>();
  a.value_head = 9;
  a.v = small.matrix(18, 64);
  a.output = small.matrix(64, 36);
  const WorkSizes s(small.model, {.rows = 0, .kv_blocks = 0, .block_tokens = 32}, sms);
  EXPECT_EQ(s.rows, 1u);
  EXPECT_EQ(s.table_stride, 1u);
  EXPECT_EQ(s.context, 1u);
  EXPECT_EQ(s.inner, 208u);
  EXPECT_EQ(s.act, 104u);
  EXPECT_EQ(s.attended, 64u);  // of the first layer
  EXPECT_EQ(s.half, 256u);
}

TEST(WorkSizes, AMixtureHasRowsOfItsOwn) {
  SmallModel small;
  small.mix(6, 2);
  const WorkSizes s(small.model, limits, sms);
  EXPECT_EQ(s.experts, 6u);
  EXPECT_EQ(s.used, 2u);
  EXPECT_EQ(s.expert_inner, 64u);
  EXPECT_EQ(s.expert_act, 32u);
  EXPECT_EQ(s.inner, 0u);
  EXPECT_EQ(s.half, 256u);
  const uint64_t rows = 2560 /* h */ + 5120 /* qkv */ + 2560 /* q */ + 2560 /* attended */ + 2560 /* result */ +
                        2560 /* shared */ + 16384 /* half */ + 3 * 512 /* half_scale, attended_scale, act_scale */ +
                        2 * 32 * 64 * 2 /* late */ + 2 * 128 * 16 /* squares */;
  const uint64_t experts = 512 /* router: 8 values a row */ + 512 /* ids */ + 512 /* weights */ +
                           5120 /* inner: 20 rows */ + 2560 /* act */ + 512 /* always: 256 */;
  EXPECT_EQ(s.bytes(), rows + experts + 4096 /* logits */ + 10 * 512 + attention_bytes(s) + picking_bytes());
}

TEST(WorkSizes, RowsGroupedByExpertHaveSlots) {
  SmallModel small;
  small.mix(6, 2);
  const model::Limits many{.rows = 100, .kv_blocks = 4, .block_tokens = 16};
  const WorkSizes apart(small.model, many, sms), grouped(small.model, many, sms, true);
  EXPECT_EQ(apart.expert_slots, 0u);
  EXPECT_EQ(grouped.expert_slots, 576u);  // 200 rows: 3 full tiles of 64, and one for each of 6 experts
  EXPECT_EQ(grouped.expert_half, 256u);
  EXPECT_GT(grouped.bytes(), apart.bytes());
  const WorkSizes few(small.model, {.rows = max_expert_vector_rows, .kv_blocks = 4, .block_tokens = 16}, sms, true);
  EXPECT_EQ(few.expert_slots, 0u);  // never grouped
}

TEST(WorkSizes, PromptsOfRecurrentStatesHaveChunks) {
  SmallModel small;
  small.make_recurrent();
  const model::Limits many{.rows = 2 * min_chunked_rows + 1, .kv_blocks = 4, .block_tokens = 16};
  const WorkSizes by_rows(small.model, many, sms), chunked(small.model, many, sms, false, false, true);
  EXPECT_EQ(by_rows.chunks, 0u);
  EXPECT_EQ(chunked.chunks, 2u);
  // two chunks of 64 rows: a key head of 16, with queries, and 2 heads with two rows of 64 and four factors
  EXPECT_EQ(chunked.bytes() - by_rows.bytes(),
            rounded(2 * 8) + 2 * rounded(128 * 16 * 2) + 2 * rounded(128 * 2 * 64 * 2) + rounded(128 * 2 * 4 * 4));
  const WorkSizes few(small.model, {.rows = min_chunked_rows - 1, .kv_blocks = 4}, sms, false, false, true);
  EXPECT_EQ(few.chunks, 0u);
}

// Rows that pick are many, those that change logits first are few: their texts and logits are as long as the context
// and the vocabulary.
TEST(WorkSizes, OnlyRowsThatChangeLogitsHaveAPlaceForThem) {
  SmallModel small;
  auto bytes = [&](uint32_t rows) {
    const WorkSizes s(small.model, {.rows = rows, .kv_blocks = 3, .block_tokens = 32}, sms);
    EXPECT_EQ(s.picked_at_once(), std::min(rows, 256u));
    EXPECT_EQ(s.changed_at_once(), std::min(rows, 64u));
    return s.bytes();
  };
  // 100 logits, and all buffers of a row but those of its place
  const uint64_t each = (64 + 128 + 64 + 64 + 192 + 96 + 64) * 4 + 256 * 2 + 3 * 4 + 8 * 4 + 3 * 4 + 16 + 8 + 20 * 8;
  EXPECT_EQ(bytes(256) - bytes(128), 128 * (each + 100 * 4 + 80 + 8 * 8 + 4 * 4));
  EXPECT_EQ(bytes(1024) - bytes(512), 512 * each);
}

// Every shape of attention, default or found by a search, has room for the partial results of its clusters.
TEST(WorkSizes, SlowEveryChoiceOfAttentionFits) {
  for (uint32_t head : {64u, 128u, 256u, 512u})
    for (uint32_t kv_heads : {1u, 2u, 4u, 8u, 16u, 32u}) {
      SmallModel small;
      model::Attention& a = small.attention();
      a.heads = a.kv_heads = kv_heads;
      a.head = a.value_head = head;
      const WorkSizes s(small.model, limits, sms);
      Tuning tuning;
      tuning.begin_search();
      for (uint32_t sequences = 1; sequences <= max_step_rows; ++sequences)
        for (uint32_t length : {1u, 1024u, 1025u, 131'072u}) {
          auto expect = [&] {
            const kernels::ClusterChoice c = tuning.attention(head, kv_heads, sequences, length, sms);
            if (c.clusters == 1) return;
            EXPECT_TRUE(c.spec.merge);
            EXPECT_LE(c.spec.partial_count(sequences, kv_heads, c.clusters), s.partial)
                << field_text(c.spec) << " " << c.clusters << " x " << kv_heads << " x " << sequences;
            EXPECT_LE(c.spec.arrived_count(sequences, kv_heads), s.arrived)
                << field_text(c.spec) << " " << c.clusters << " x " << kv_heads << " x " << sequences;
          };
          tuning.begin_search();
          expect();
          for (const Tuning::Search& search : tuning.searches())
            for (size_t i = 0; i < search.candidates; ++i) {
              tuning.set(search.key, i);
              expect();
            }
        }
    }
}

}  // namespace
}  // namespace heddle::gpu
