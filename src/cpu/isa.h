// What an instruction set provides: the inner loops, as functions. Each isa_<name>.cpp compiles the templates under
// cpu/kernels with its own flags and fills in this table; nothing else in the room has intrinsics.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace heddle::cpu {

// How activations are written for the weights they are multiplied with. Integer weights in blocks of 256 values take
// int8 with a scale for each 256, those in smaller blocks int8 with a scale for each 32. F16 and BF16 weights take bf16
// where the instruction set has products of it.
enum class XKind : uint8_t { f32, by_32, by_256, bf16 };

// One such row; bf16 has q alone.
struct XRow {
  const int8_t* q;      // (cols), two bytes each where they are bf16
  const float* d;       // a scale for each 32 or 256
  const int32_t* sums;  // of each 16 of the int8
  // by_256, 48 bytes for each 256: the sums as 64 * high + low, so that mins are multiplied with them in a dot of
  // bytes. Sums of 32: low[8], high[8]; sums of 16: low[16], high[16].
  const int8_t* split_sums;
};

// What one call of `attend` works on: some rows of a sequence and the heads that share a kv head.
struct AttendHead {
  uint32_t head, value_head, group;  // group: heads of this kv head
  uint32_t tokens, stride;           // of a KV block; keys have `stride` >= tokens values for each of `head`
  float scale, softcap;
  bool values_in_keys;  // a position's values are the first of its keys
  const float* slopes;  // of each head of the group: its scores lose slope * distance; null: none
};
struct AttendRow {
  const float* q;                  // (group, head)
  uint32_t position, first, last;  // it sees the positions from `first` to `last`
};
// The state of a softmax that has seen some positions: `out` is not divided by `sum` yet.
struct Softmax {
  float largest, sum;
};

// Keys and values of one KV block: (head, stride) and (tokens, value_head). f16; or, where there are scales, int8 as
// quant/kv_q8.h has it, with scales (groups of head, stride) and (tokens, groups of value_head).
struct KvBlock {
  void *keys, *values;                  // values: null where they are in the keys
  uint16_t *key_scales, *value_scales;  // null: f16
  uint32_t first;                       // position
};

// The states of a head, and what they meet in one row: see model::Recurrence. `state` is (keys, stride).
struct RecurHead {
  bool delta;
  uint32_t keys, stride;
};
struct RecurRow {
  const float *q, *k, *v;
  float decay, factor;  // u is factor * v, or with delta factor * (v - decay S^T k)
  float* out;
};

enum class Mins : uint8_t { none, scaled, plain };  // w = d * scale * q, that minus m * min, or that plus m

// Blocks of a tile with weights unpacked to bytes: the bytes, f32 d, f32 m, an int32_t of scale for each group, a
// byte of min for each group; each field interleaved in words of 4 bytes for all rows of the tile.
struct SlabShape {
  uint32_t values, group;  // of a block; a block without groups has no scale but d
  Mins mins;
  bool is_signed;  // the bytes
  int offset;      // to be subtracted from them
  uint32_t bytes;  // of a block of one row

  bool has_groups() const { return values > 32; }
  uint32_t d_field() const { return values; }
  uint32_t m_field() const { return values + 4; }
  uint32_t scale_field() const { return m_field() + (mins == Mins::none ? 0 : 4); }
  uint32_t min_field() const { return scale_field() + 4 * (values / group); }
};

// What a format with packed tiles has.
struct TileKernels {
  explicit operator bool() const { return few || many; }

  // out (count, tiles * tile_rows) = W x for `tiles` tiles, count <= max_few; `scratch` has few_scratch(cols) bytes.
  void (*few)(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
              uint8_t* scratch);
  uint32_t max_few;
  uint64_t (*few_scratch)(uint32_t cols) = nullptr;  // null: none is needed
  // A tile to its slab, and the slab with any number of rows: out[i * stride + r]. Both ways give the same bits.
  void (*fill)(const uint8_t* tile, uint32_t cols, uint8_t* slab);
  void (*many)(const uint8_t* slab, uint32_t cols, int offset, const XRow* xs, uint32_t count, float* out,
               uint32_t stride);
  SlabShape slab;
  bool pairs = false;  // tiles are packed in pairs of rows; there is no slab
};

struct Isa {
  const char* name;
  uint32_t tile_rows;  // weight rows that are interleaved

  TileKernels tiles[quant::format_count];  // a format without them is decoded to f32 first
  // Puts the weights of a slab in the order that `many` wants; null where that is the order of `fill`.
  void (*arrange)(uint8_t* slab, const SlabShape& shape, uint32_t cols);

  // Reads a multiple of 512 bytes, to measure memory; the result means nothing.
  uint64_t (*read_all)(const uint8_t* from, uint64_t bytes);

  // out[i * out_stride + r] = w[r] . x[i] for `rows` rows of f32, f16 or bf16, the first formats.
  void (*dots[3])(const void* w, uint32_t rows, uint32_t cols, const float* const* xs, uint32_t count, float* out,
                  uint32_t out_stride);
  void (*f16_of_f32)(const float* from, uint32_t count, uint16_t* to);

  void (*quantise_32)(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums);
  void (*quantise_256)(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums, int8_t* split_sums);
  // null where no format takes bf16
  void (*bf16_of_row)(const float* x, uint32_t cols, int8_t* to);
  // inner = activation(gate) * up; kind is model::Activation, and xielu the four numbers of model::Xielu, which are
  // read for that kind alone; up may be null
  void (*activate)(uint8_t kind, const float* xielu, const float* gate, const float* up, uint32_t count, float* inner);

  void (*gate)(const float* gate, float* x, uint32_t count);  // x *= sigmoid(gate)

  // `count` rows, one after the other, for some columns of a head. A column's bits depend on nothing but itself, as
  // long as a part begins at a multiple of recur_part.
  void (*recur)(const RecurHead& head, float* state, uint32_t first, uint32_t columns, const RecurRow* rows,
                uint32_t count);

  // Adds the positions of one block to the state of every row and head: softmax (rows, group), out (rows, group,
  // value_head). `scratch` has attend_scratch floats.
  // `next` is the block that comes after this one: it is brought to the cache.
  void (*attend)(const AttendHead& head, const KvBlock& block, const KvBlock& next, const AttendRow* rows,
                 uint32_t count, Softmax* softmax, float* out, float* scratch);
  // Adds state b to state a.
  void (*merge)(uint32_t value_head, Softmax* a, float* a_out, const Softmax* b, const float* b_out);
};
constexpr uint32_t recur_part = 64;
constexpr uint32_t attend_at_once = 4;  // queries that meet a block's keys together
// floats
inline uint64_t attend_scratch(const AttendHead& head) {
  return uint64_t(head.stride) * (head.head + head.value_head + attend_at_once) + 64;
}

// To be called only on a machine that has it: filling the table may use its instructions already.
const Isa& isa_plain();
const Isa& isa_neon_dotprod();
const Isa& isa_neon_i8mm();
const Isa& isa_avx2();
const Isa& isa_avx_vnni();
const Isa& isa_avx512_vnni();
const Isa& isa_avx512_bf16();
const Isa& isa_avx512_amx();

// "auto": the best one. Throws an Error that names the instruction sets of this machine.
const Isa& choose_isa(const std::string& name);

}  // namespace heddle::cpu
