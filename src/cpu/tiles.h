// Tiles with rows of activations, and a row of a tile as f32: what few and many rows have in common.
#pragma once
#include "cpu/isa.h"
#include "cpu/pack.h"

namespace heddle::cpu {

constexpr uint32_t slab_tiles = 4;  // of 2048 columns: 64 KiB of bytes, which L2 keeps
// Of a slab of `tiles` tiles.
uint64_t slab_bytes(const Weights& weights, const Isa& isa, uint32_t tiles = slab_tiles);

// out (count, tiles * tile_rows) = W x for some tiles; `slab` has slab_bytes(weights, isa) bytes.
void multiply_tiles(const Weights& weights, const Isa& isa, uint64_t first, uint32_t tiles, const XRow* xs,
                    uint32_t count, float* out, uint8_t* slab);
// The products of scales are exact, so this is what quant::decode gives; `slab` is that of one tile.
void decode_tile_row(const Weights& weights, const Isa& isa, uint64_t row, float* out, uint8_t* slab);

}  // namespace heddle::cpu
