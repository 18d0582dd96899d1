// Reading weight blocks: lanes that together take every value of a block once.
#include "kernels/format/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "base/error.h"
#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

using namespace ptx;

struct BlockArgs {
  DevicePtr<float> to;      // (values) of a block
  DevicePtr<int32_t> hits;  // (values): how many lanes took it
  DevicePtr<uint8_t> block;
};

// A block as it is in the file, read byte by byte. Words must be fields of the block or parts of one, as in a tile.
class BlockInFile : public BlockBytes {
 public:
  BlockInFile(Global<uint8_t> block, const std::vector<uint32_t>& fields) : block_(block), fields_(fields) {}

  std::vector<U32> words(uint32_t offset, uint32_t n, U32 at) const override {
    const uint32_t most = n == 8 ? 16 : 4 * n;
    for (uint32_t first = offset; first < offset + 4 * n; first += most) expect_in_one_field(first, most);
    std::vector<U32> all;
    for (uint32_t i = 0; i < n; ++i) all.push_back(half(offset + 4 * i, at) | half(offset + 4 * i + 2, at) << 16u);
    return all;
  }
  U32 half(uint32_t offset, U32 at) const override { return byte(offset, at) | byte(offset + 1, at) << 8u; }
  U32 byte(uint32_t offset, U32 at) const override { return load(place(offset, at)); }
  U32 signed_byte(uint32_t offset, U32 at) const override {
    return bitcast<uint32_t>(load(place(offset, at).as<int8_t>()));
  }

 private:
  Global<uint8_t> place(uint32_t offset, U32 at) const { return (at.rec ? block_ + at : block_).offset(offset); }
  void expect_in_one_field(uint32_t offset, uint32_t bytes) const {
    uint32_t from = 0;
    for (uint32_t size : fields_) {
      if (offset >= from && offset < from + size) {
        EXPECT_LE(offset + bytes, from + size);
        return;
      }
      from += size;
    }
    ADD_FAILURE() << "no field has byte " << offset;
  }

  Global<uint8_t> block_;
  const std::vector<uint32_t>& fields_;
};

// Every value of a block is decoded by one lane, with the definition's bits; the block ends where the buffer does.
TEST(BlockFormat, LanesTakeEveryValueOnce) {
  std::mt19937 rng(2);
  for (quant::Format f : known_formats) {
    if (quant::is_float(f)) continue;
    const BlockFormat& format = block_format(f);
    Builder<BlockArgs> k("decode", 32);
    U32 index = k.thread();
    k.when(index < format.pieces(), [&] {
      Lane lane{.piece = index};
      if (const auto book = format.book(); !book.empty()) lane.book = Codebook(k.constants(book));
      const BlockInFile block(k.arg(&BlockArgs::block), format.fields);
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
      const auto& fields = block_format(f).fields;
      EXPECT_EQ(std::accumulate(fields.begin(), fields.end(), 0u), quant::block_bytes(f)) << quant::name(f);
    }
}

}  // namespace
}  // namespace heddle::kernels
