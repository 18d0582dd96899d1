// Quantisation of activations: a thread takes four values, so that eight lanes share a block.
#include "kernels/product/quantize_q8_1.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t q8_threads = 128;

struct Quantised {
  U32 word;  // this lane's four int8
  F32 d, s;  // of the block
};
// Four values of each lane. All lanes of the warp must take part.
Quantised quantise(const Vec<float, 4>& v) {
  constexpr uint32_t lanes = 8;  // of a block
  F32 largest = max(max(abs(v[0]), abs(v[1])), max(abs(v[2]), abs(v[3])));
  F32 d = warp_max(largest, lanes) / 127.0f;
  F32 divisor = select(d != 0.0f, d, 1.0f);  // d is 0 if all values are 0 or too small
  std::vector<S32> q;
  for (F32 x : v) q.push_back(max(min(to<int32_t>(x / divisor, Round::rni), 127), -127));
  S32 sum = warp_sum(q[0] + q[1] + (q[2] + q[3]), lanes);
  auto bytes = [](S32 a, S32 b) { return permute_bytes(bitcast<uint32_t>(a), bitcast<uint32_t>(b), 0x0040u); };
  U32 word = permute_bytes(bytes(q[0], q[1]), bytes(q[2], q[3]), 0x5410u);
  return {word, d, d * to_f32(sum)};
}

// v(first column, values): for this thread's four values; columns past the last count as zeros.
void each_quad(Builder<QuantizeQ8_1::Args>& k, auto&& body) {
  using Args = QuantizeQ8_1::Args;
  U32 row = k.block_id(), cols = k.arg(&Args::cols), col = (k.block_y() * q8_threads + k.thread()) * 4u;
  k.when(row < k.arg(&Args::rows), [&] {
    std::vector<Var<float>> x;
    for (int i = 0; i < 4; ++i) x.push_back(k.var(0.0f));
    Pred inside = col < cols;
    k.when(inside, [&] {
      auto v = load_vec<4>(k.arg(&Args::x) + mul_wide(row, cols) + col);
      for (int i = 0; i < 4; ++i) x[size_t(i)] = v[size_t(i)];
    });
    body(row, col, cols, inside, Vec<float, 4>{x[0].get(), x[1].get(), x[2].get(), x[3].get()});
  });
}

}  // namespace

size_t QuantizeQ8_1::row_bytes(size_t cols) const {
  return layout == blocks ? cols / 32 * 36 : (cols + cols / 8 + 15) / 16 * 16;
}

Kernel QuantizeQ8_1::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), q8_threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  each_quad(k, [&](U32 row, U32 col, U32 cols, Pred inside, const Vec<float, 4>& v) {
    Quantised block = quantise(v);
    U32 number = col / 32u;
    U32 bytes = layout == blocks ? cols / 32u * 36u : (cols + cols / 8u + 15u) & ~15u;
    auto y = k.arg(&Args::y) + mul_wide(row, bytes);
    auto ints = layout == blocks ? y + (number * 36u + (col & 31u) + 4u) : y + col;
    auto head = layout == blocks ? y + number * 36u : y + (cols + number * 4u);
    k.when(inside, [&] { store(ints.as<uint32_t>(), block.word); });
    k.when(inside && (col & 31u) == 0u,
           [&] { store(head.as<f16x2>(), pack<f16x2>(to_f16(block.d), to_f16(block.s))); });
    if (layout == planes)  // the first block writes the padding at the end of the row
      k.when(k.block_y() == 0u, [&] {
        U32 used = cols + cols / 8u, at = used + k.thread() * 4u;
        k.when(at < bytes, [&] { store((y + at).template as<uint32_t>(), 0u); });
      });
  });
  return k.finish();
}

Grid QuantizeQ8_1::grid(const Args& args) const {
  if (args.cols % 32) throw Error("{}: {} columns are not a multiple of its block of 32", name, args.cols);
  if (const uint32_t align = layout == planes ? 16 : 4; args.x.address % 16 || args.y.address % align)
    throw Error("{}: x must be 16-byte and y {}-byte aligned, found {:#x} and {:#x}", name, align, args.x.address,
                args.y.address);
  // a block of the grid takes per_block columns of one row
  const uint32_t per_block = 4 * q8_threads, wide = args.cols / per_block + (args.cols % per_block != 0);
  if (wide > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, 65535 * per_block);
  return {.x = args.rows ? args.rows : 1, .y = wide ? wide : 1};
}

void add_quantize_q8_1_kernels(std::vector<Entry>& all) { all.push_back(entry<QuantizeQ8_1>()); }

}  // namespace heddle::kernels
