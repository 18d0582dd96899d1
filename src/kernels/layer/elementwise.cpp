// Activations and gates, soft-caps, the plain read of memory: neighbouring threads take neighbouring values.
#include "kernels/layer/elementwise.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

// Activations and gates: each thread takes `vec` neighbours of one row.
Kernel Gate::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 row = k.block_id(), col = (k.block_y() * threads + k.thread()) * vec;
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && col < k.arg(&Args::cols), [&] {
    auto at = [&](auto buffer, auto stride) { return k.arg(buffer) + mul_wide(row, k.arg(stride)) + col; };
    auto v = load_wide(at(&Args::gate, &Args::gate_stride), vec);
    if (times_up) {
      auto up = load_wide(at(&Args::up, &Args::up_stride), vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = gate_with(k, act, v[j], up[j]);
    } else {
      for (F32& x : v) x = activate(k, act, x);
    }
    if (weighted) {
      const F32 weight = load(k.arg(&Args::weights) + row);
      for (F32& x : v) x = x * weight;
    }
    if (out == out_f32) return store_wide(at(&Args::y, &Args::y_stride), v);
    std::vector<BF16> narrow;
    for (F32 x : v) narrow.push_back(to_bf16(x));
    store_wide(at(&Args::narrow, &Args::y_stride), narrow);
  });
  return k.finish();
}

Grid Gate::grid(const Args& args) const {
  auto suits = [&](const char* which, uint64_t address, uint32_t stride, uint32_t bytes = 4) {
    if (args.rows > 1 && stride < args.cols)
      throw Error("gate: {} has a stride of {}, but {} columns", which, stride, args.cols);
    if (address % (bytes * vec) || (args.rows > 1 && stride % vec))
      throw Error(
          "gate: with vec = {} addresses must be multiples of {} bytes and strides of {}; {} is at {:#x} with {}", vec,
          bytes * vec, vec, which, address, stride);
  };
  out == out_f32 ? suits("y", args.y.address, args.y_stride) : suits("narrow", args.narrow.address, args.y_stride, 2);
  suits("gate", args.gate.address, args.gate_stride);
  if (times_up) suits("up", args.up.address, args.up_stride);
  if (args.cols % vec) throw Error("gate: {} columns are not a multiple of vec = {}", args.cols, vec);
  const uint64_t per_block = uint64_t(threads) * vec, blocks = (args.cols + per_block - 1) / per_block;
  if (blocks > 65535) throw Error("gate: {} columns, {} at most", args.cols, 65535 * per_block);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

// A thread takes one value of one row.
Kernel SoftcapRows::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = k.block_y() * threads + k.thread();
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && col < k.arg(&Args::cols), [&] {
    const auto y = k.arg(&Args::y) + mul_wide(row, k.arg(&Args::stride)) + col;
    F32 v = load(y);
    if (bias) v = v + load(k.arg(&Args::bias) + col, {.nc = true});
    v = v * k.arg(&Args::scale);
    if (cap) v = tanh(v / k.arg(&Args::cap)) * k.arg(&Args::cap);
    store(y, v);
  });
  return k.finish();
}

Grid SoftcapRows::grid(const Args& args) const {
  if (cap && !(args.cap > 0)) throw Error("{}: a cap of {}; it must be above 0", name, args.cap);
  if (args.rows > 1 && args.stride < args.cols)
    throw Error("{}: a stride of {}, but {} columns", name, args.stride, args.cols);
  const uint64_t blocks = (uint64_t(args.cols) + threads - 1) / threads;
  if (blocks > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, uint64_t(65535) * threads);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

Kernel ScaleRows::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = k.block_y() * threads + k.thread(), cols = k.arg(&Args::cols);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && col < cols, [&] {
    const U64 at = mad_wide(row, cols, widen(col));
    store(k.arg(&Args::y) + at, load(k.arg(&Args::x) + at) * load(k.arg(&Args::w) + col, {.nc = true}));
  });
  return k.finish();
}

Grid ScaleRows::grid(const Args& args) const {
  const uint64_t blocks = (uint64_t(args.cols) + threads - 1) / threads;
  if (blocks > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, uint64_t(65535) * threads);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_elementwise_kernels(std::vector<Entry>& all) {
  all.push_back(preset<Gate>("silu_gate", "silu(gate) * up", {.act = Gate::silu}));
  all.push_back(preset<Gate>("gelu_gate", "gelu(gate) * up", {.act = Gate::gelu_tanh}));
  all.push_back(preset<Gate>("silu", "silu of rows", {.act = Gate::silu, .times_up = 0}));
  all.push_back(preset<Gate>("gelu", "gelu of rows", {.act = Gate::gelu_erf, .times_up = 0}));
  all.push_back(entry<SoftcapRows>());
  all.push_back(entry<ScaleRows>());
}

// Blocks take turns over memory: each round of the grid is one contiguous piece, a thread's loads a block apart.

Kernel StreamRead::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  const uint32_t step = threads * loads;  // 16-byte pieces per block and round
  U64 pieces = k.arg(&Args::words) >> 2u;
  U64 round = mul_wide(k.grid_x(), step);
  auto data = k.arg(&Args::data);
  auto sum = k.var(0u);
  const Access once{.nc = true, .l1 = L1::no_allocate};
  auto add = [&](const Vec<uint32_t, 4>& v) { sum += (v[0] + v[1]) + (v[2] + v[3]); };

  auto at = k.var(mul_wide(k.block_id(), step) + widen(k.thread()));
  k.loop_while([&] { return at.get() + uint64_t(threads * (loads - 1)) < pieces; },
               [&] {
                 auto from = data + (at.get() << 2u);
                 std::vector<Vec<uint32_t, 4>> v;
                 for (uint32_t i = 0; i < loads; ++i)
                   v.push_back(load_vec<4>(from.offset(int64_t(i) * threads * 4), once));
                 for (auto& x : v) add(x);
                 at += round;
               });
  // the last round may end anywhere
  for (uint32_t i = 0; i < loads; ++i) {
    U64 piece = at.get() + uint64_t(i) * threads;
    k.when(piece < pieces, [&] { add(load_vec<4>(data + (piece << 2u), once)); });
  }
  U32 total = warp_sum(sum.get());
  k.when(k.lane() == 0u, [&] { reduce(Atomic::add, k.arg(&Args::sum), total); });
  return k.finish();
}

Grid StreamRead::grid(const Args& args) const {
  if (args.words % 4) throw Error("stream_read: {} words are not a multiple of 4", args.words);
  if (args.data.address % 16) throw Error("stream_read: data must be 16-byte aligned");
  if (args.blocks == 0) throw Error("stream_read: a grid of 0 blocks");
  return {.x = args.blocks};
}

void add_stream_read_kernels(std::vector<Entry>& all) { all.push_back(entry<StreamRead>()); }

}  // namespace heddle::kernels
