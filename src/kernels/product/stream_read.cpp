// Blocks take turns over memory: each round of the grid is one contiguous piece, a thread's loads a block apart.
#include "kernels/product/stream_read.h"

#include "kernels/spec/catalog.h"

namespace heddle::kernels {

using namespace ptx;

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
