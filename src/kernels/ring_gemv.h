// Matrix times a few vectors at the memory limit (sm_90): the weights come through a ring of shared memory by bulk
// copies, asked for before the kernel ahead in the chain has finished; the activations stay in registers.
#pragma once
#include <compare>

#include "kernels/field.h"
#include "ptx/builder.h"
#include "quant/format.h"

namespace heddle::kernels {

// Weights as the ring wants them. A tile is 4 rows x 1024 columns = 16 blocks of 256 values; the tiles of 4 rows follow
// each other, then those of the next 4 rows. Inside a tile each field of the blocks (scales, quants, ...) is a plane of
// its own, in the order row, block: no byte is added, and all but the 2-byte planes can be read 16 bytes at a time.
// Rows are filled up to a multiple of 16 with zeros.
struct RingPlane {
  uint32_t from, bytes;  // of a block as it is in the file
};
struct RingFormat {
  quant::Format format;
  std::vector<RingPlane> planes;
  uint32_t block_bytes() const { return quant::block_bytes(format); }
  uint32_t tile_bytes() const { return 16 * block_bytes(); }
};
const std::vector<RingFormat>& ring_formats();  // q4_k, q6_k; a spec's field `format` is a number in this list
inline constexpr uint32_t ring_tile_cols = 1024, ring_unit_rows = 16;
uint64_t ring_bytes(uint32_t format, uint32_t rows, uint32_t cols);

// From the file's layout to the ring's.
struct RingPack {
  static constexpr std::string_view name = "ring_pack", summary = "weights from the file's layout to that of ring_gemv",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint8_t> to;    // ring_bytes(...)
    ptx::DevicePtr<uint8_t> from;  // (rows, cols / 256) blocks, 2-byte aligned
    uint32_t rows, cols;           // cols: a multiple of 1024
  };
  uint32_t format = 0;
  auto operator<=>(const RingPack&) const = default;
  static auto fields();

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// y = W x, or y = residual + W x, for 1 to 8 vectors. x is int8 in blocks of 16: cols bytes, then cols / 16 pairs of
// f32 {d, d * sum of the block}, as quantize_q8_16 writes it. A warp owns per_warp slices of 1024 columns of x and
// every groups-th tile row; one more warp adds up and writes.
struct RingGemv {
  static constexpr std::string_view name = "ring_gemv",
                                    summary = "matrix times 1 to 8 int8 vectors through a shared-memory ring",
                                    lowest_target = "sm_90";
  struct Args {
    ptx::DevicePtr<float> y;         // (columns, rows)
    ptx::DevicePtr<float> residual;  // (columns, rows), read with add = yes only; may be y
    ptx::DevicePtr<uint8_t> x;       // (columns) of cols * 3 / 2 bytes, 16-byte aligned
    ptx::DevicePtr<uint8_t> w;       // packed, 16-byte aligned
    uint32_t rows, cols;             // cols = slices * 1024
    uint32_t blocks;                 // of the grid: the number of SMs times a small number
    // What the next kernel of the chain will want after what its rings hold (in_rings), a few megabytes: brought to L2
    // when this kernel has nothing left to fetch for itself.
    ptx::DevicePtr<uint8_t> next;
    uint32_t next_bytes;  // 0: none
  };
  uint32_t format = 0;
  uint32_t slices = 4;    // cols / 1024
  uint32_t groups = 4;    // tile rows of a unit of 16 rows in work at once: slices / per_warp * groups + 1 warps
  uint32_t depth = 2;     // tiles in flight per warp
  uint32_t resident = 2;  // blocks per SM to leave registers for
  uint32_t columns = 1;
  uint32_t chained = 0;
  uint32_t add = 0;
  uint32_t per_warp = 1;  // slices of a warp; slices must be a multiple of it
  auto operator<=>(const RingGemv&) const = default;
  static auto fields();

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
  // Of its weights, the bytes that the kernel fetches before it waits for the one ahead: the first ones.
  uint64_t in_rings(uint32_t rows, uint32_t blocks) const;
};

// What was fastest on an H200 for products of this size. Throws an Error if there are too many vectors.
struct RingChoice {
  RingGemv spec;
  uint32_t blocks_per_sm;
};
RingChoice ring_choice(uint32_t format, uint32_t rows, uint32_t cols, uint32_t columns = 1);
// The most vectors at once for products of so many columns: 8 up to 8192. More want several launches.
uint32_t ring_most_columns(uint32_t format, uint32_t cols);
// How much of the next kernel's weights to bring to L2 early: more delays the kernel's own last tiles.
inline constexpr uint32_t ring_ahead_bytes = 3'000'000;

namespace detail {
inline Allowed ring_format_names() {
  std::vector<std::string> names;
  for (auto& f : ring_formats()) names.emplace_back(quant::name(f.format));
  return named(std::move(names));
}
}  // namespace detail
inline auto RingPack::fields() {
  return std::tuple(Field<RingPack>{"format", &RingPack::format, detail::ring_format_names()});
}
inline auto RingGemv::fields() {
  return std::tuple(Field<RingGemv>{"format", &RingGemv::format, detail::ring_format_names()},
                    Field<RingGemv>{"slices", &RingGemv::slices, range(1, 31)},
                    Field<RingGemv>{"groups", &RingGemv::groups, one_of({1, 2, 4})},
                    Field<RingGemv>{"depth", &RingGemv::depth, range(1, 8)},
                    Field<RingGemv>{"resident", &RingGemv::resident, range(1, 4)},
                    Field<RingGemv>{"columns", &RingGemv::columns, range(1, 8)},
                    Field<RingGemv>{"chained", &RingGemv::chained, yes_or_no()},
                    Field<RingGemv>{"add", &RingGemv::add, yes_or_no()},
                    Field<RingGemv>{"per_warp", &RingGemv::per_warp, range(1, 4)});
}

}  // namespace heddle::kernels
