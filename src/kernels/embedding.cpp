// Embedding lookup: one block per token, a piece of 32 values (of floats: one value) per thread and step.
#include "kernels/embedding.h"

#include "kernels/chain.h"
#include "kernels/format/block_format.h"
#include "kernels/format/floats.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

// Thread i of the row's pieces writes its two runs of 16 values; `known` is false for an id that does not exist.
void write_piece(Code& k, const BlockFormat& format, Global<uint8_t> row, U32 i, Pred known, F32 scale,
                 Global<float> y) {
  const Lane lane = lane_of(k, i, format.pieces(), false);
  U32 block = i / format.pieces();
  auto at = row + mul_wide(block, format.bytes);
  const Access how{.nc = true};
  auto quants = format.load_quants(at, lane, how);
  const auto runs = format.decode({.head = format.load_head(at, lane, how), .quants = quants}, lane);
  for (uint32_t half = 0; half < 2; ++half) {
    const Run& run = runs[half];
    std::vector<F32> v = to_floats(run);
    for (F32& value : v) {
      value = value * run.scale;
      if (run.has_min) value = value - run.min;
      value = select(known, value * scale, 0.0f);
    }
    auto to = y + (block * format.values + format.first(lane) + half * format.apart);
    for (uint32_t j = 0; j < 16; j += 4) store_vec(to.offset(j), Vec<float, 4>{v[j], v[j + 1], v[j + 2], v[j + 3]});
  }
}

}  // namespace

Kernel Embedding::build() const {
  check_fields(*this);
  const auto weights = quant::Format(format);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 token = k.block_id(), cols = k.arg(&Args::cols);
  k.when(token < k.arg(&Args::tokens), [&] {
    U32 id = load(k.arg(&Args::ids) + token);
    Pred known = id < k.arg(&Args::vocabulary);
    // an unknown id reads row 0, which is there if there is a table at all
    U32 row_bytes = cols / quant::block_values(weights) * quant::block_bytes(weights);
    auto row = k.arg(&Args::table) + mul_wide(select(known, id, 0u), row_bytes);
    auto y = k.arg(&Args::y) + mul_wide(token, cols);
    F32 scale = k.arg(&Args::scale);
    if (quant::is_float(weights)) {
      const uint32_t bytes = quant::block_bytes(weights);
      k.loop(k.thread(), cols, threads, [&](U32 i) {
        F32 v = decode_floats(weights, load_floats(row + mul_wide(i, bytes), bytes, {.nc = true}), bytes)[0];
        store(y + i, select(known, v * scale, 0.0f));
      });
    } else {
      k.loop(k.thread(), cols / 32u, threads,
             [&](U32 i) { write_piece(k, block_format(weights), row, i, known, scale, y); });
    }
  });
  return k.finish();
}

Grid Embedding::grid(const Args& args) const {
  const auto weights = quant::Format(format);
  if (args.cols % quant::block_values(weights))
    throw Error("embedding: {} columns of {} are not a multiple of {}, its block", args.cols, quant::name(weights),
                quant::block_values(weights));
  if (args.table.address % 16 || args.y.address % 16)
    throw Error("embedding: the addresses of table and y are {:#x} and {:#x}, expected multiples of 16",
                args.table.address, args.y.address);
  if (args.vocabulary == 0 && args.tokens) throw Error("embedding: {} tokens, but a vocabulary of 0", args.tokens);
  return {.x = args.tokens ? args.tokens : 1};  // a grid of nothing cannot be launched
}

}  // namespace heddle::kernels
