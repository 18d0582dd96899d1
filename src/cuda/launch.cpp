#include "cuda/launch.h"

#include <array>

#include "cuda/context_state.h"

namespace heddle::cuda {

namespace {

std::string text(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

void check_args(const Function& function, size_t bytes) {
  if (function.args_known() && bytes != function.args_bytes())
    throw Error("kernel {}: expected arguments of {} bytes, found {}", function.name(), function.args_bytes(), bytes);
}

}  // namespace

void Launch::set_args(const void* from, size_t bytes) {
  check_args(function, bytes);
  args.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
}

void check_launch(const Launch& what) {
  const Function& f = what.function;
  const Dim3 grid = what.grid, block = what.block, cluster = what.cluster;
  check_args(f, what.args.size());
  if (!grid.count() || grid.x > 0x7fffffff || grid.y > 0xffff || grid.z > 0xffff)
    throw Error("kernel {}: a grid of {} blocks, expected 1 to 2147483647 x 65535 x 65535", f.name(), text(grid));
  if (!block.count() || block.count() > f.max_threads())
    throw Error("kernel {}: {} threads per block, expected 1 to {}", f.name(), text(block), f.max_threads());
  if (!cluster.count() || grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    throw Error("kernel {}: a grid of {} blocks cannot be divided into clusters of {}", f.name(), text(grid),
                text(cluster));
  if (what.dynamic_shared > f.max_dynamic_shared())
    throw Error("kernel {}: {} bytes of dynamic shared memory, expected at most {} (set_max_dynamic_shared)", f.name(),
                what.dynamic_shared, f.max_dynamic_shared());
  const uint32_t sm = f.state().info.sm;
  if (sm < 90 && (cluster.count() > 1 || what.after_previous_starts))
    throw Error("kernel {}: {} need a GPU from sm_90 on, this one is sm_{}", f.name(),
                cluster.count() > 1 ? "clusters" : "overlapping launches", sm);
}

void launch(Stream& stream, const Launch& what) {
  check_launch(what);
  ContextState& s = what.function.state();
  check(&s == &stream.state(), "a kernel and a stream of different contexts");

  std::array<LaunchAttribute, 2> attributes{};
  uint32_t count = 0;
  if (what.cluster.count() > 1) {
    LaunchAttribute& a = attributes[count++];
    a.id = launch_attribute::cluster;
    a.value.cluster = {what.cluster.x, what.cluster.y, what.cluster.z};
  }
  if (what.after_previous_starts) {
    LaunchAttribute& a = attributes[count++];
    a.id = launch_attribute::overlap_with_previous;
    a.value.overlap_with_previous = 1;
  }
  const LaunchConfig config{what.grid.x,
                            what.grid.y,
                            what.grid.z,
                            what.block.x,
                            what.block.y,
                            what.block.z,
                            what.dynamic_shared,
                            stream.handle(),
                            count ? attributes.data() : nullptr,
                            count};
  // one parameter, the struct; the driver copies it before it returns
  void* parameters[] = {const_cast<std::byte*>(what.args.data())};
  const std::string& name = what.function.name();
  s.call_for_kernel(name, s.api.launch, &config, what.function.handle(), what.args.empty() ? nullptr : parameters,
                    static_cast<void**>(nullptr));
  s.launched(&name);
}

}  // namespace heddle::cuda
