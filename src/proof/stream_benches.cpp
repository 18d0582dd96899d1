// What a decode step of an 8B model asks of the ring product, in a chain.
#include <algorithm>
#include <array>

#include "kernels/ring_gemv.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::RingGemv;

Bench ring(RingGemv spec, uint32_t rows, uint32_t per_sm) {
  const uint32_t format = spec.format, cols = spec.slices * 1024;
  spec.chained = 1;
  const uint64_t bytes = kernels::ring_bytes(format, rows, cols);
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    // the bits do not matter for the time, and packed bytes of the right size are packed weights
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) w.push_back(m.put(one));
    RingGemv::Args args{.y = m.poisoned<float>(rows * spec.columns),
                        .residual = m.put(std::vector<float>(rows * spec.columns)),
                        .x = m.put(std::vector<uint8_t>(cols * 3 / 2 * spec.columns)),
                        .w = {},
                        .rows = rows,
                        .cols = cols,
                        .blocks = m.processors() * per_sm,
                        .next = {},
                        .next_bytes = 0};
    const uint64_t in_rings = spec.in_rings(rows, args.blocks);
    args.next_bytes = uint32_t(std::min<uint64_t>(kernels::ring_ahead_bytes, bytes - in_rings));
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      args.next.address = w[(r + 1) % w.size()].address + in_rings;
      now.launch(spec, args);
    };
  };
  return {"ring_gemv",       fmt::format("{} {} -> {} g={} d={} r={} p={} c={} sm={}", kernels::ring_formats()[format].name, cols, rows, spec.groups, spec.depth, spec.resident, spec.per_warp, spec.columns, per_sm),
          "sm_90",           double(bytes),
          2.0 * rows * cols, prepare};
}

}  // namespace

void add_stream_benches(std::vector<Bench>& all) {
  auto add = [&](uint32_t format, uint32_t slices, uint32_t rows, std::vector<std::array<uint32_t, 6>> ways) {
    for (auto [g, d, r, p, c, sm] : ways)
      all.push_back(ring({.format = format, .slices = slices, .groups = g, .depth = d, .resident = r, .columns = c, .per_warp = p}, rows, sm));
  };
  using W = std::vector<std::array<uint32_t, 6>>;
  add(0, 4, 4096, W{{4, 2, 2, 1, 1, 1}, {2, 2, 4, 1, 1, 2}, {4, 2, 2, 1, 4, 1}, {4, 2, 1, 1, 8, 1}});
  add(0, 4, 6144, W{{4, 2, 2, 1, 1, 1}, {2, 3, 4, 1, 1, 2}, {4, 3, 2, 1, 1, 1}});
  add(0, 4, 28672, W{{2, 3, 4, 1, 1, 2}, {2, 2, 4, 1, 1, 2}, {4, 2, 2, 1, 1, 1}, {4, 3, 2, 1, 1, 1}, {2, 3, 2, 1, 2, 2}, {4, 2, 2, 1, 2, 1}, {2, 3, 2, 1, 4, 2}, {4, 2, 1, 1, 4, 1}, {2, 3, 2, 1, 8, 2}, {4, 3, 1, 1, 8, 1}, {4, 2, 1, 1, 8, 1}, {2, 3, 1, 1, 8, 2}});
  add(0, 14, 4096, W{{1, 2, 4, 2, 1, 2}, {1, 2, 3, 2, 1, 2}, {1, 3, 4, 2, 1, 2}, {2, 2, 2, 2, 1, 1}, {1, 2, 2, 1, 1, 1}, {1, 3, 2, 1, 1, 1}, {1, 2, 2, 2, 2, 2}, {1, 2, 1, 2, 4, 1}, {1, 2, 1, 1, 8, 1}, {1, 3, 1, 1, 8, 1}});
  add(1, 4, 128256, W{{2, 2, 4, 1, 1, 2}, {4, 2, 2, 1, 1, 1}, {4, 3, 2, 1, 1, 1}, {2, 3, 2, 1, 1, 2}, {4, 2, 1, 1, 8, 1}});
  add(1, 14, 4096, W{{1, 2, 4, 2, 1, 2}, {1, 2, 2, 1, 1, 1}});
}

}  // namespace heddle::proof
