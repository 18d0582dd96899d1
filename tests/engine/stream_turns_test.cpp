// How many streams get a row, learnt from how long batches take.
#include "engine/stream_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

namespace heddle::test {
namespace {

using engine::StreamTurns;

// The number of rows that most of the last batches have.
uint32_t settled(StreamTurns& turns, uint32_t streams, const std::function<double(uint32_t)>& seconds,
                 uint32_t batches = 300) {
  std::map<uint32_t, uint32_t> seen;
  for (uint32_t i = 0; i < batches; ++i) {
    const uint32_t rows = turns.rows_for(streams);
    EXPECT_LE(rows, streams);
    EXPECT_GE(rows, streams - std::min(streams / 3, 16u));
    turns.learn(rows, seconds(rows));
    if (i >= batches / 2) ++seen[rows];
  }
  uint32_t most = 0;
  for (const auto& [rows, count] : seen)
    if (count > seen[most]) most = rows;
  return most;
}

double in_eights(uint32_t rows) { return std::ceil(rows / 8.0); }

TEST(StreamTurns, FillsGroups) {
  StreamTurns turns;
  const std::map<uint32_t, uint32_t> expected = {
      {1, 1},   {2, 2},   {3, 3},   {4, 4},   {7, 7},   {8, 8},   {9, 8},   {11, 8},  {12, 8},    {13, 13},
      {15, 15}, {16, 16}, {17, 16}, {20, 16}, {23, 16}, {24, 24}, {33, 32}, {47, 40}, {127, 127}, {128, 128}};
  for (const auto& [streams, rows] : expected) EXPECT_EQ(settled(turns, streams, in_eights), rows) << streams;
}

TEST(StreamTurns, AllGetARowWhereThatIsFastest) {
  StreamTurns turns;
  for (uint32_t streams = 1; streams <= 128; ++streams)
    EXPECT_EQ(settled(
                  turns, streams, [](uint32_t rows) { return 0.01 + 0.001 * rows; }, 200),
              streams);
  EXPECT_EQ(turns.rows_for(0), 0u);
  EXPECT_EQ(turns.rows_for(129), 129u) << "129 are not measured";
}

// A gain that could be noise is not worth waiting for, one that is larger is.
TEST(StreamTurns, NoiseIsNotAGain) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1, 0.005);
  StreamTurns small, large;
  EXPECT_EQ(settled(small, 9, [&](uint32_t rows) { return (rows == 9 ? 9.05 : rows) * noise(random); }), 9u);
  EXPECT_EQ(settled(large, 9, [&](uint32_t rows) { return (rows == 9 ? 9.6 : rows) * noise(random); }), 8u);
}

// That the chosen number is slower is noticed at once, and later that another one is faster.
TEST(StreamTurns, WhatHasChangedIsMeasuredAgain) {
  StreamTurns turns;
  EXPECT_EQ(settled(turns, 9, in_eights), 8u);
  const auto slow_nine = [](uint32_t rows) { return rows == 9 ? 2.0 : 1.0; };
  EXPECT_EQ(settled(turns, 9, [](uint32_t rows) { return rows == 9 ? 2.0 : 3.0; }), 9u);
  EXPECT_EQ(settled(turns, 9, slow_nine), 9u);
  EXPECT_EQ(settled(turns, 9, slow_nine, 3000), 8u);
}

TEST(StreamTurns, IgnoresWhatIsNoTime) {
  StreamTurns turns;
  turns.learn(0, 1);
  turns.learn(9, 0);
  turns.learn(9, NAN);
  turns.learn(1000, 1);
  EXPECT_EQ(settled(turns, 9, in_eights), 8u);
}

}  // namespace
}  // namespace heddle::test
