// What a decode step of an 8B model asks of the ring product, in a chain.
#include "kernels/ring_gemv.h"
#include "proof/bench.h"
#include "proof/weights.h"

namespace heddle::proof {
namespace {

using kernels::RingGemv;

Bench ring(RingGemv spec, uint32_t rows) {
  const uint32_t cols = spec.slices * kernels::ring_tile_cols;
  const uint64_t bytes = kernels::ring_bytes(spec.format, rows, cols);
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    // the bits do not matter for the time, and packed bytes of the right size are packed weights
    const std::string format = kernels::ring_formats()[spec.format].name;
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) w.push_back(m.put(one));
    RingGemv::Args args{.y = m.poisoned<float>(rows),
                        .residual = m.put(std::vector<float>(rows)),
                        .x = m.put(std::vector<uint8_t>(cols * 3 / 2)),
                        .w = {},
                        .rows = rows,
                        .cols = cols,
                        .blocks = m.processors()};
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {"ring_gemv",
          fmt::format("{} {} -> {} groups={} depth={} resident={}", kernels::ring_formats()[spec.format].name, cols,
                      rows, spec.groups, spec.depth, spec.resident),
          "sm_90", double(bytes), 2.0 * rows * cols, prepare};
}

}  // namespace

void add_stream_benches(std::vector<Bench>& all) {
  for (uint32_t depth : {2u, 3u}) {
    all.push_back(ring({.format = 0, .slices = 4, .depth = depth, .chained = 1}, 4096));
    all.push_back(ring({.format = 0, .slices = 4, .depth = depth, .chained = 1}, 6144));
    all.push_back(ring({.format = 0, .slices = 4, .depth = depth, .chained = 1}, 28672));
    all.push_back(ring({.format = 0, .slices = 14, .groups = 1, .depth = depth, .chained = 1}, 4096));
    all.push_back(ring({.format = 1, .slices = 4, .depth = depth, .chained = 1}, 128256));
  }
}

}  // namespace heddle::proof
