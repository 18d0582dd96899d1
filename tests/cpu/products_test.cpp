// How products are divided into pieces and shared by threads.
#include "cpu/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <thread>

#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "cpu/pack.h"
#include "cpu/rows.h"
#include "cpu/team.h"
#include "tests/cpu/random_weights.h"
#include "tests/cpu/two_nodes.h"

namespace heddle::cpu {
namespace {

using quant::Format;
using test::random_values;

// Matrices of Q8_0 with `tiles` tiles each, packed for the plain instruction set, and one row to multiply them with.
struct Matrices {
  static constexpr uint32_t cols = 256;
  Matrices(uint32_t count, uint32_t tiles) : rows(tiles * isa.tile_rows), x(1, cols, {.by_32 = true}) {
    for (uint32_t i = 0; i < count; ++i) {
      const model::Matrix matrix{Format::q8_0, rows, cols,
                                 bytes.emplace_back(test::random_weights(Format::q8_0, random_values(rows * cols, i)))};
      Weights& weights = all.emplace_back(describe_weights(matrix, isa, false));
      std::vector<uint8_t>& packed = bytes.emplace_back(weights.tiles() * weights.tile_bytes);
      pack_tiles(matrix, weights, 0, weights.tiles(), packed.data());
      weights.data = packed.data();
    }
    std::copy_n(random_values(cols, 99).data(), cols, x.row(0));
    x.finish(0, isa);
  }
  // Those that are `chosen` with the row, the others with none.
  std::vector<Product> products(const std::vector<uint32_t>& chosen) const {
    std::vector<Product> products;
    for (const Weights& weights : all) products.push_back({&weights, nullptr, x.view(0)});
    for (const uint32_t i : chosen) products[i].x = x.view(1);
    return products;
  }

  const Isa& isa = choose_isa("plain");
  uint32_t rows;
  std::deque<std::vector<uint8_t>> bytes;
  std::deque<Weights> all;
  Rows x;
};

// Of many experts a row takes few, and all threads work on these.
TEST(Products, WhatNoRowMeetsTakesNoShareOfTheThreads) {
  const Matrices experts(64, 16);
  const std::vector<Product> products = experts.products({5, 40});
  Team team(4);
  Products of(experts.isa, team, experts.all, 1);
  std::mutex lock;
  std::vector<std::pair<uint32_t, uint64_t>> pieces;
  of.run(products, [&](const Piece& piece) {
    const std::lock_guard guard(lock);
    EXPECT_EQ(piece.rows, experts.isa.tile_rows);  // 32 tiles, eight pieces for each of four threads
    pieces.emplace_back(piece.product, piece.first);
  });
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::pair<uint32_t, uint64_t>> expected;
  for (const uint32_t expert : {5u, 40u})
    for (uint64_t tile = 0; tile < 16; ++tile) expected.emplace_back(expert, tile * experts.isa.tile_rows);
  EXPECT_EQ(pieces, expected);
}

// Four threads share two experts of 16 tiles: each begins at its quarter of what is read.
TEST(Products, TellsWhatEachThreadReadsFirst) {
  const Matrices experts(64, 16);
  Team team(4);
  Products of(experts.isa, team, experts.all, 1);
  const std::vector<Team::Prefetch> reads = of.first_reads(experts.products({5, 40}));
  ASSERT_EQ(reads.size(), team.threads());
  const Weights &first = experts.all[5], &last = experts.all[40];
  const uint64_t half = 8 * first.tile_bytes;
  EXPECT_EQ(reads[0].first, first.data);
  EXPECT_EQ(reads[1].first, first.data + half);
  EXPECT_EQ(reads[2].first, last.data);
  EXPECT_EQ(reads[3].first, last.data + half);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(reads[i].second, nullptr);
    EXPECT_EQ(reads[i].bytes, i % 2 == 0 ? 2 * half : half);  // to the end of the matrix
  }
  // A second matrix is read at the same place, and one tile goes to the first thread alone.
  const Matrices small(2, 1);
  Product both = small.products({0})[0];
  both.second = &small.all[1];
  Products of_small(small.isa, team, small.all, 1);
  const std::vector<Team::Prefetch> one = of_small.first_reads(std::span(&both, 1));
  EXPECT_EQ(one[0].first, small.all[0].data);
  EXPECT_EQ(one[0].second, small.all[1].data);
  EXPECT_EQ(one[0].bytes, small.all[0].tile_bytes);
  for (uint32_t i = 1; i < 4; ++i) EXPECT_EQ(one[i].bytes, 0u);
}

// With a fast and a slow processor, pieces are half as large.
TEST(Products, PiecesAreSmallerWhereSpeedsDiffer) {
  constexpr uint32_t threads = 2;
  const Matrices one(1, 64);
  const std::vector<Product> products = one.products({0});
  std::vector<float> expected;
  for (const uint32_t slowest : {1024u, 400u}) {
    const test::Folder system;
    uint32_t capacity = slowest;
    for (const uint32_t processor : allowed_processors()) {
      const auto folder = system.file("sys/devices/system/cpu/cpu" + std::to_string(processor));
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "cpu_capacity") << capacity << "\n";
      capacity = 1024;
    }
    const bool differ = slowest != 1024 && allowed_processors().size() > 1;
    Team team(threads, system.path().string());
    EXPECT_EQ(team.differ_in_speed(), differ);
    Products of(one.isa, team, one.all, 1);
    std::atomic<uint32_t> pieces = 0;
    std::vector<float> found(one.rows, NAN);
    of.run(products, [&](const Piece& piece) {
      ++pieces;
      std::copy_n(piece.values, piece.rows, found.data() + piece.first);
    });
    // 64 tiles: four of them to a piece, or two
    EXPECT_EQ(pieces, threads * (differ ? 16u : 8u));
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected);
  }
}

// Two matrices in one phase on two nodes: each thread multiplies its half of both. The threads go on together, piece by
// piece, so that none helps the other.
TEST(Products, EachNodeHasItsPartOfEveryMatrix) {
  const test::TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  const Matrices two(2, 16);
  const std::vector<Product> products = two.products({0, 1});
  Team team(2, system.root());
  Products of(two.isa, team, two.all, 1);
  std::atomic<uint32_t> done[2] = {0, 0};
  std::vector<std::pair<uint32_t, uint64_t>> found[2], expected[2];
  of.run(products, [&, caller = std::this_thread::get_id()](const Piece& piece) {
    const uint32_t thread = std::this_thread::get_id() == caller ? 0 : 1;
    for (uint64_t row = piece.first; row < piece.first + piece.rows; row += two.isa.tile_rows)
      found[thread].emplace_back(piece.product, row);
    const uint32_t own = ++done[thread];
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (done[1 - thread] < own && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  for (uint32_t thread = 0; thread < 2; ++thread) {
    for (uint32_t product = 0; product < 2; ++product)
      for (uint64_t tile = thread * 8; tile < thread * 8 + 8; ++tile)
        expected[thread].emplace_back(product, tile * two.isa.tile_rows);
    std::sort(found[thread].begin(), found[thread].end());
    EXPECT_EQ(found[thread], expected[thread]) << thread;
  }
}

// Many rows on many threads: pieces have some rows each, and every value comes once.
TEST(Products, ManyRowsAreDivided) {
  for (const std::string& name : isa_names()) {
    const Isa& isa = choose_isa(name);
    constexpr uint32_t threads = 8, cols = 64, count = 1100;
    const uint32_t rows = 18 * isa.tile_rows - 1, padded = 18 * isa.tile_rows;
    std::vector<uint8_t> bytes = test::random_weights(Format::q4_0, random_values(rows * cols, 7));
    const model::Matrix matrix{Format::q4_0, rows, cols, bytes};
    std::deque<Weights> all{describe_weights(matrix, isa, false)};
    std::vector<uint8_t> tiles(all[0].tiles() * all[0].tile_bytes);
    pack_tiles(matrix, all[0], 0, all[0].tiles(), tiles.data());
    all[0].data = tiles.data();
    Rows x(count, cols, {.by_32 = true});
    const std::vector<float> values = random_values(count * cols, 8);
    for (uint32_t i = 0; i < count; ++i) {
      std::copy_n(values.data() + i * cols, cols, x.row(i));
      x.finish(i, isa);
    }
    std::vector<float> expected(uint64_t(count) * padded), found(expected.size(), NAN);
    std::vector<uint8_t> slab(slab_bytes(all[0], isa));
    multiply_tiles(all[0], isa, 0, uint32_t(all[0].tiles()), x.view(count).by_32, count, expected.data(), slab.data());
    Team team(threads);
    Products of(isa, team, all, count);
    const Product product[] = {{&all[0], nullptr, x.view(count)}};
    std::mutex lock;
    bool divided = false;
    of.run(product, [&](const Piece& piece) {
      const std::lock_guard guard(lock);
      divided = divided || piece.row > 0;
      for (uint32_t i = 0; i < piece.count; ++i)
        for (uint32_t r = 0; r < piece.rows; ++r) {
          float& to = found[uint64_t(piece.row + i) * padded + piece.first + r];
          EXPECT_TRUE(std::isnan(to)) << "once";
          to = piece.values[uint64_t(i) * piece.stride + r];
        }
    });
    EXPECT_TRUE(divided) << name;
    for (uint32_t i = 0; i < count; ++i)
      ASSERT_TRUE(
          std::equal(found.begin() + i * padded, found.begin() + i * padded + rows, expected.begin() + i * padded))
          << name << " row " << i;
  }
}

}  // namespace
}  // namespace heddle::cpu
