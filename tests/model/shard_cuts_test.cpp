// How heads and columns are dealt out, and what is copied.
#include "model/shard_cuts.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/cpu/random_weights.h"

namespace heddle::model {
namespace {

using quant::Format;

TEST(ShardCuts, ThingsAreDealtAsEvenlyAsCanBe) {
  for (uint64_t count = 0; count < 40; ++count)
    for (uint32_t ranks = 1; ranks < 9; ++ranks)
      for (uint64_t unit = 1; unit < 5; ++unit) {
        uint64_t next = 0, least = ~uint64_t(0), most = 0;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          const Slice part = deal_in_units(count, unit, rank, ranks);
          EXPECT_EQ(part.first, next);
          next = part.first + part.count;
          least = std::min(least, part.count);
          most = std::max(most, part.count);
        }
        EXPECT_EQ(next, count);
        EXPECT_EQ(deal_in_units(count, unit, 0, ranks).count, most);
        EXPECT_LT(most - least, 2 * unit);
        EXPECT_EQ(can_deal(count, unit, ranks), least > 0);
      }
}

TEST(ShardCuts, UnitsOfColumnsAreWholeBlocks) {
  EXPECT_EQ(column_unit(Format::q4_k, 1024, 4), 256u);
  EXPECT_EQ(column_unit(Format::q8_0, 1024, 4), 32u);
  EXPECT_EQ(column_unit(Format::f16, 1024, 4), 32u);
  EXPECT_EQ(column_unit(Format::f16, 96, 4), 1u);  // not enough for four
  EXPECT_EQ(things_for(256, 128), 2u);
  EXPECT_EQ(things_for(256, 96), 8u);
  EXPECT_EQ(things_for(1, 7), 1u);
}

std::vector<RankHeads> dealt(const HeadShape& shape, uint32_t ranks) {
  return deal_heads(shape, shape.key_unit(), ranks);
}

TEST(ShardCuts, HeadsGoWithTheirKeyHeads) {
  EXPECT_EQ(dealt({.heads = 32, .key_heads = 8, .unit = 2}, 3),
            (std::vector<RankHeads>{{{{0, 12}}, {{0, 3}}}, {{{12, 12}}, {{3, 3}}}, {{{24, 8}}, {{6, 2}}}}));
  EXPECT_EQ(dealt({.heads = 4, .key_heads = 4, .unit = 2}, 2),
            (std::vector<RankHeads>{{{{0, 2}}, {{0, 2}}}, {{{2, 2}}, {{2, 2}}}}));
  EXPECT_TRUE(dealt({.heads = 4, .key_heads = 4, .unit = 2}, 3).empty());
}

TEST(ShardCuts, FewerKeyHeadsThanRanksAreCopied) {
  EXPECT_EQ(dealt({.heads = 8, .key_heads = 2}, 4),
            (std::vector<RankHeads>{
                {{{0, 2}}, {{0, 1}}, 0}, {{{2, 2}}, {{0, 1}}, 1}, {{{4, 2}}, {{1, 1}}, 0}, {{{6, 2}}, {{1, 1}}, 1}}));
  // the first rank has the most
  EXPECT_EQ(dealt({.heads = 8, .key_heads = 2}, 3),
            (std::vector<RankHeads>{{{{0, 4}}, {{0, 1}}, 0}, {{{4, 2}}, {{1, 1}}, 0}, {{{6, 2}}, {{1, 1}}, 1}}));
  EXPECT_TRUE(dealt({.heads = 2, .key_heads = 1}, 3).empty());
  // units of two heads of groups of three are three for two keys, which are not copied together
  EXPECT_TRUE(dealt({.heads = 6, .key_heads = 2, .unit = 2}, 3).empty());
}

TEST(ShardCuts, TiledHeadsAreThoseOfTheirKeys) {
  EXPECT_EQ(dealt({.heads = 8, .key_heads = 4, .unit = 2, .tiled = true}, 2),
            (std::vector<RankHeads>{{{{0, 2}, {4, 2}}, {{0, 2}}}, {{{2, 2}, {6, 2}}, {{2, 2}}}}));
  EXPECT_EQ(dealt({.heads = 4, .key_heads = 2, .tiled = true}, 4)[1], (RankHeads{{{2, 1}}, {{0, 1}}, 1}));
  EXPECT_TRUE(dealt({.heads = 6, .key_heads = 3, .unit = 2, .tiled = true}, 2).empty());  // pieces of three heads
  EXPECT_EQ(dealt({.heads = 6, .key_heads = 1, .unit = 2, .tiled = true}, 3)[2], (RankHeads{{{4, 2}}, {{0, 1}}, 2}));
}

TEST(ShardCuts, RowsAreViewsAndColumnsAreCopiesOfWholeBlocks) {
  std::mt19937 random(3);
  for (const Format format : quant::all_formats()) {
    if (quant::is_integer(format) || format == Format::f64) continue;
    const uint64_t block = quant::block_values(format), cols = block * 7, rows = 5;
    std::vector<float> values(rows * cols);
    for (float& value : values) value = float(random() % 2001) / 1000 - 1;
    const std::vector<uint8_t> data = test::random_weights(format, values);
    const Matrix matrix{format, rows, cols, data};
    const auto decoded = [](const Matrix& of) {
      std::vector<float> all(of.rows * of.cols);
      quant::decode(of.format, of.data.data(), all.size(), all.data());
      return all;
    };
    const std::vector<float> whole = decoded(matrix);
    Cuts cuts;
    const Slices parts{{block, 2 * block}, {5 * block, block}};
    const Matrix some = cuts.columns(matrix, parts);
    ASSERT_EQ(some.cols, 3 * block);
    const std::vector<float> found = decoded(some);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < some.cols; ++c)
        EXPECT_EQ(found[r * some.cols + c], whole[r * cols + (c < 2 * block ? block + c : 3 * block + c)]);
    EXPECT_EQ(cuts.storage.size(), 1u);
    EXPECT_EQ(cuts.rows(matrix, {{1, 2}, {3, 1}}).data.data(), matrix.slice(1, 3).data.data());
    EXPECT_EQ(cuts.storage.size(), 1u);
    const Matrix gathered = cuts.rows(matrix, {{3, 1}, {0, 2}});
    EXPECT_EQ(cuts.storage.size(), 2u);
    EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + long(2 * cols), decoded(gathered).begin() + long(cols)));
    EXPECT_EQ(cuts.columns(matrix, {{0, cols}}).data.data(), data.data());
    const Matrix within = cuts.columns(matrix, {{1, block}, {block + 3, 3}});
    EXPECT_EQ(within.format, block > 1 ? Format::f16 : format);
    const std::vector<float> rounded = decoded(within);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < block + 3; ++c) {
        const float expected = whole[r * cols + (c < block ? 1 : 3) + c];
        EXPECT_EQ(rounded[r * (block + 3) + c], block > 1 ? quant::f32_of_f16(quant::f16_of_f32(expected)) : expected);
      }
    EXPECT_THROW(cuts.columns(matrix, {{cols, 1}}), std::logic_error);
    EXPECT_THROW(cuts.rows(matrix, {{4, 2}}), std::logic_error);
  }
  Cuts cuts;
  EXPECT_FALSE(cuts.rows(Matrix(), {{0, 3}}));
  EXPECT_EQ(cuts.columns({.rows = 3, .cols = 8, .data = {}}, {{2, 4}}).cols, 4u);  // only the shape is known
  EXPECT_TRUE(cuts.storage.empty());
}

}  // namespace
}  // namespace heddle::model
