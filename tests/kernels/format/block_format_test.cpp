// Reading weight blocks: words from every alignment without an access that is misaligned or outside the buffer, and
// narrow lanes that together take every value of a block once.
#include "kernels/format/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "base/error.h"
#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

using namespace ptx;

struct WordArgs {
  DevicePtr<uint32_t> to;
  DevicePtr<uint8_t> from;
  uint32_t offset;
};

TEST(LoadWords, FromEveryAlignmentToTheLastByte) {
  std::mt19937 rng(1);
  for (uint32_t align : {1u, 2u, 4u, 8u, 16u})
    for (uint32_t n : {1u, 2u, 4u, 8u}) {
      Builder<WordArgs> k("load", 32);
      k.when(k.thread() == 0u, [&] {
        auto words = load_words(k.arg(&WordArgs::from) + k.arg(&WordArgs::offset), n, align, {.nc = true});
        for (uint32_t i = 0; i < n; ++i) store(k.arg(&WordArgs::to).offset(i), words[i]);
      });
      const Kernel kernel = k.finish();
      verify(kernel);
      for (uint32_t offset = 0; offset < 32; offset += align) {
        std::vector<uint8_t> bytes(offset + 4 * n);  // nothing behind the words
        for (auto& b : bytes) b = uint8_t(rng());
        Memory memory;
        const WordArgs args{.to = memory.alloc<uint32_t>(n), .from = memory.put(bytes), .offset = offset};
        ASSERT_NO_THROW(interpret(kernel, {.x = 1}, args, memory)) << align << " " << n << " " << offset;
        std::vector<uint32_t> want(n);
        std::memcpy(want.data(), bytes.data() + offset, 4 * n);
        EXPECT_EQ(memory.get(args.to, n), want) << "align " << align << ", " << n << " words at " << offset;
      }
    }
}

struct BlockArgs {
  DevicePtr<float> to;      // (values) of a block
  DevicePtr<int32_t> hits;  // (values): how many lanes took it
  DevicePtr<uint8_t> block;
};

// Every value of a block is decoded by one lane, with the definition's bits; the block ends where the buffer does.
TEST(BlockFormat, LanesTakeEveryValueOnce) {
  std::mt19937 rng(2);
  for (quant::Format f : known_formats) {
    if (quant::is_float(f)) continue;
    const BlockFormat& format = block_format(f);
    const bool in_gemv = std::find(gemv_formats.begin(), gemv_formats.end(), f) != gemv_formats.end();
    for (bool narrow : {false, true}) {
      if (narrow && !in_gemv) continue;  // they have no narrow lanes
      Builder<BlockArgs> k("decode", 32);
      const uint32_t lanes = format.pieces() * (narrow ? 4 : 1);
      U32 index = k.thread();
      k.when(index < lanes, [&] {
        Lane lane = lane_of(k, index, format.pieces(), narrow);
        if (const auto book = format.book(); !book.empty()) lane.book = Codebook(k.constants(book));
        const BlockInFile block(k.arg(&BlockArgs::block), format.align, {});
        const Raw raw{.head = format.load_head(block, lane), .quants = format.load_quants(block, lane)};
        const auto runs = format.decode(raw, lane);
        for (uint32_t half = 0; half < 2; ++half) {
          const auto values = to_floats(runs[half]);
          U32 first = format.first(lane) + half * format.apart;
          for (uint32_t i = 0; i < values.size(); ++i) {
            F32 v = values[i] * runs[half].scale;
            store((k.arg(&BlockArgs::to) + first).offset(i), format.has_min ? v - runs[half].min : v);
            reduce(Atomic::add, (k.arg(&BlockArgs::hits) + first).offset(i), 1);
          }
        }
      });
      const Kernel kernel = k.finish();
      verify(kernel);
      for (int round = 0; round < 20; ++round) {
        std::vector<uint8_t> bytes(format.bytes);
        for (auto& b : bytes) b = uint8_t(rng());
        std::vector<float> want(format.values);
        quant::decode(f, bytes.data(), format.values, want.data());
        Memory memory;
        const BlockArgs args{.to = memory.alloc<float>(format.values),
                             .hits = memory.put(std::vector<int32_t>(format.values, 0)),
                             .block = memory.put(bytes)};
        interpret(kernel, {.x = 1}, args, memory);
        EXPECT_EQ(memory.get(args.hits, format.values), std::vector<int32_t>(format.values, 1)) << quant::name(f);
        const auto got = memory.get(args.to, format.values);
        for (uint32_t i = 0; i < format.values; ++i) {
          if (!std::isfinite(want[i])) continue;  // random scales may be infinite or NaN
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << quant::name(f) << " " << i;
        }
      }
    }
  }
}

TEST(BlockFormat, RefusesFormatsWithoutBlocks) {
  EXPECT_THROW(block_format(quant::Format::f16), Error);
  for (quant::Format f : quant::all_formats()) {
    const bool known = std::find(known_formats.begin(), known_formats.end(), f) != known_formats.end();
    if (!known) {
      EXPECT_THROW(block_format(f), Error) << quant::name(f);
    }
  }
  for (quant::Format f : known_formats)
    if (!quant::is_float(f)) {
      EXPECT_EQ(block_format(f).bytes, quant::block_bytes(f));
      EXPECT_EQ(block_format(f).bytes % block_format(f).align, 0u) << quant::name(f);
    }
}

}  // namespace
}  // namespace heddle::kernels
