// What an instruction set provides: the inner loops, as functions. Each isa_<name>.cpp compiles the templates under
// cpu/kernels with its own flags and fills in this table; nothing else in the room has intrinsics.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace heddle::cpu {

// How activations are written for the weights they meet. Integer weights of 32 values with one scale meet int8 with a
// scale for each 32, those of 256 values meet int8 with a scale for each 256.
enum class XKind : uint8_t { f32, by_32, by_256 };

// One quantised row.
struct XRow {
  const int8_t* q;      // (cols)
  const float* d;       // a scale for each 32 or 256
  const int32_t* sums;  // of the int8: for each 32 (by_32) or each 16 (by_256)
  // by_256, 48 bytes for each 256: the sums as 64 * high + low, so that mins meet them in a dot of bytes. Sums of 32:
  // low[8], high[8]; sums of 16: low[16], high[16].
  const int8_t* parts;
};

// What one call of `attend` works on: some rows of a sequence and the heads that share a kv head.
struct AttendHead {
  uint32_t head, value_head, group;  // group: heads of this kv head
  uint32_t tokens, stride;           // of a KV block; keys have `stride` >= tokens values for each of `head`
  float scale, softcap;
  uint32_t window;
};
struct AttendRow {
  const float* q;  // (group, head)
  uint32_t position;
};
// The state of a softmax that has seen some positions: `out` is not divided by `sum` yet.
struct Softmax {
  float largest, sum;
};

// keys and values of one KV block: (head, stride) and (tokens, value_head), f16.
struct KvBlock {
  const uint16_t *keys, *values;
  uint32_t first;  // position
};

struct Isa {
  const char* name;
  uint32_t tile_rows;  // weight rows that are interleaved

  // out (count, tiles * tile_rows) = W x for `tiles` tiles of `blocks` blocks each. A format without one is decoded
  // to f32 first. `slab` has slab_bytes(...) bytes.
  using Products = void (*)(const uint8_t* tile, uint32_t tiles, uint32_t blocks, const XRow* xs, uint32_t count,
                            float* out, uint8_t* slab);
  // One row of a tile to f32.
  using DecodeRow = void (*)(const uint8_t* tile, uint32_t blocks, uint32_t row, float* out, uint8_t* slab);
  Products products[quant::format_count];
  DecodeRow decode_row[quant::format_count];
  uint32_t slab_bytes[quant::format_count];  // of one block of one tile

  // out[i * out_stride + r] = w[r] . x[i] for `rows` f32 rows.
  void (*dots)(const float* w, uint32_t rows, uint32_t cols, const float* const* xs, uint32_t count, float* out,
               uint32_t out_stride);
  void (*f32_of_f16)(const uint8_t* from, uint32_t count, float* to);
  void (*f32_of_bf16)(const uint8_t* from, uint32_t count, float* to);
  void (*f16_of_f32)(const float* from, uint32_t count, uint16_t* to);

  void (*quantise_32)(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums);
  void (*quantise_256)(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums, int8_t* parts);
  // inner = activation(gate) * up; kind is model::Activation; up may be null
  void (*activate)(uint8_t kind, const float* gate, const float* up, uint32_t count, float* inner);

  // Adds the positions of one block to the state of every row and head: softmax (rows, group), out (rows, group,
  // value_head). `scratch` has attend_scratch floats.
  void (*attend)(const AttendHead& head, const KvBlock& block, const AttendRow* rows, uint32_t count, Softmax* softmax,
                 float* out, float* scratch);
  // Adds state b to state a.
  void (*merge)(uint32_t value_head, Softmax* a, float* a_out, const Softmax* b, const float* b_out);
};
// floats
inline uint64_t attend_scratch(const AttendHead& head) {
  return uint64_t(head.stride) * (head.head + head.value_head + 2) + 64;
}

// To be called only where the machine has it: already making the table may use its instructions.
const Isa& isa_plain();
const Isa& isa_neon_dotprod();
const Isa& isa_avx2();
const Isa& isa_avx512_vnni();

// "auto": the best one. Throws an Error that names those of this machine.
const Isa& choose_isa(const std::string& name);

}  // namespace heddle::cpu
