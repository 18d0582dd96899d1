// How fast memory is read: by the kernel that every other one is measured against.
#include <algorithm>

#include "cuda/memory.h"
#include "cuda/plan.h"
#include "gpu/gpu.h"
#include "gpu/library.h"
#include "kernels/layer/elementwise.h"

namespace heddle::gpu {

double read_bandwidth(const cuda::Context& context) {
  constexpr uint32_t timed = 8;
  // several times the largest L2 cache, or less of a small GPU: a few milliseconds
  const uint64_t bytes = std::min<uint64_t>(512 << 20, context.memory().free / 4) / 16 * 16;
  cuda::CubinCache cubins = cuda::CubinCache::from_environment();
  Library library(context, &cubins);
  cuda::Stream stream(context);
  cuda::Buffer data(context, bytes), sum(context, 4);
  data.fill(stream, 0x5a);
  const kernels::StreamRead spec;
  const kernels::StreamRead::Args args{
      .sum = {sum.address()}, .data = {data.address()}, .words = bytes / 4, .blocks = 4 * context.info().sms};
  const Loaded& kernel = library.get(spec);
  cuda::Event start(context), end(context);
  for (uint32_t i = 0; i <= timed; ++i) {
    if (i == 1) start.record(stream);  // the first one warms up
    cuda::launch(stream, kernel.launch(spec.grid(args), 0, &args, sizeof args));
  }
  end.record(stream);
  end.synchronize();
  return double(bytes) * timed / (double(end.milliseconds_since(start)) * 1e-3);
}

}  // namespace heddle::gpu
