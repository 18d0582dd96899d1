// What a decode step of an 8B model asks of the ring product, in a chain.
#include <algorithm>

#include "kernels/ring_gemv.h"
#include "kernels/stream_read.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::RingGemv;

Bench ring(uint32_t format, uint32_t cols, uint32_t rows, uint32_t columns = 1) {
  const auto [choice, per_sm] = kernels::ring_choice(format, rows, cols, columns);
  RingGemv spec = choice;
  spec.chained = 1;
  const uint64_t bytes = kernels::ring_bytes(format, rows, cols);
  auto prepare = [=, per_sm = per_sm](Machine& m, Random& random) -> Bench::Round {
    // the bits do not matter for the time, and packed bytes of the right size are packed weights
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) w.push_back(m.put(one));
    RingGemv::Args args{.y = m.poisoned<float>(rows * columns),
                        .residual = m.put(std::vector<float>(rows * columns)),
                        .x = m.put(std::vector<uint8_t>(cols * 3 / 2 * columns)),
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
  std::string shape = fmt::format("{} {} -> {}", quant::name(kernels::ring_formats()[format].format), cols, rows);
  if (columns > 1) shape += fmt::format(" x {} columns", columns);
  return {"ring_gemv", shape, "sm_90", double(bytes), 2.0 * rows * cols * columns, prepare};
}

Bench pack(uint32_t format, uint32_t cols, uint32_t rows) {
  const uint64_t bytes = kernels::ring_bytes(format, rows, cols);
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> from;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) from.push_back(m.put(one));
    const auto to = m.poisoned<uint8_t>(bytes);
    return [=](Machine& now, uint32_t r) {
      now.launch(kernels::RingPack{.format = format},
                 {.to = to, .from = from[r % from.size()], .rows = rows, .cols = cols});
    };
  };
  return {"ring_pack", fmt::format("{} {} -> {}", quant::name(kernels::ring_formats()[format].format), cols, rows),
          "sm_75",     2.0 * double(bytes),
          0,           prepare};
}

Bench read() {
  constexpr uint64_t words = uint64_t(1) << 28;
  auto prepare = [](Machine& m, Random&) -> Bench::Round {
    const kernels::StreamRead::Args args{.sum = m.put(std::vector<uint32_t>{0}),
                                         .data = m.poisoned<uint32_t>(words),
                                         .words = words,
                                         .blocks = m.processors() * 4};
    return [=](Machine& now, uint32_t) { now.launch(kernels::StreamRead{}, args); };
  };
  return {"stream_read", "1 GiB", "sm_75", double(words) * 4, 0, prepare};
}

}  // namespace

void add_stream_benches(std::vector<Bench>& all) {
  all.push_back(read());
  all.push_back(pack(0, 4096, 28672));
  all.push_back(pack(1, 4096, 28672));
  all.push_back(ring(0, 4096, 4096));
  all.push_back(ring(0, 4096, 6144));
  all.push_back(ring(0, 4096, 28672));
  for (uint32_t columns : {2u, 4u, 8u}) all.push_back(ring(0, 4096, 28672, columns));
  all.push_back(ring(0, 14336, 4096));
  all.push_back(ring(1, 14336, 4096));
  all.push_back(ring(1, 4096, 128256));
}

}  // namespace heddle::proof
