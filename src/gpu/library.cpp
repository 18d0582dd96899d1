#include "gpu/library.h"

#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "ptx/expand.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::gpu {
namespace {

// Whether the kernel waits for its predecessor (programmatic dependent launch).
bool waits(const ptx::Block& block) {
  for (const ptx::Inst& inst : block)
    if (inst.op == ptx::Op::grid_wait || waits(inst.body) || waits(inst.otherwise) || waits(inst.head)) return true;
  return false;
}

}  // namespace

ptx::Target target_for(const cuda::DeviceInfo& device) {
  const ptx::Target* best = nullptr;
  for (const ptx::Target& t : ptx::targets())
    if (t.specific ? device.specific && t.sm == device.sm : t.sm <= device.sm) best = &t;
  if (!best)
    throw Error("compute capability {}.{} is too old: heddle's kernels are for 7.5 (Turing) and later", device.sm / 10,
                device.sm % 10);
  ptx::Target target = *best;
  target.max_shared_bytes = std::min(target.max_shared_bytes, device.shared_per_block_optin);
  return target;
}

kernels::GpuLimits limits_of(const cuda::DeviceInfo& device) {
  return {.shared_per_block = target_for(device).max_shared_bytes,
          .shared_per_sm = device.shared_per_sm,
          .threads_per_sm = device.threads_per_sm,
          .clusters = device.sm >= 90,
          .cp_async = device.sm >= 80};
}

BuiltKernel build_kernel(const kernels::AnySpec& spec, const ptx::Target& target) {
  auto kernel = std::make_shared<const ptx::Kernel>(ptx::expanded(spec.build(), target));
  ptx::verify(*kernel, target);
  std::string text = ptx::print(*kernel, target);
  return {std::move(kernel), std::move(text)};
}

cuda::Launch Loaded::launch(ptx::Grid grid, uint32_t dynamic_shared, const void* args, size_t args_bytes) const {
  cuda::Launch l{.function = function,
                 .grid = {grid.x, grid.y, grid.z},
                 .block = block,
                 .cluster = cluster,
                 .dynamic_shared = shared_bytes + dynamic_shared,
                 .after_previous_starts = dependent};
  if (l.dynamic_shared > 48 * 1024) {
    static std::mutex raising;  // of two threads that raise the limit, the larger value must stay
    std::lock_guard lock(raising);
    if (l.dynamic_shared > l.function.max_dynamic_shared()) l.function.set_max_dynamic_shared(l.dynamic_shared);
  }
  l.set_args(args, args_bytes);
  return l;
}

Library::Library(cuda::Context context, cuda::CubinCache* cache, BuildKernel build)
    : context_(std::move(context)),
      cache_(cache),
      build_(build ? std::move(build) : build_kernel),
      target_(target_for(context_.info())) {}

const Loaded* Library::find(const kernels::SpecKey& key) {
  std::lock_guard lock(mutex_);
  auto found = loaded_.find(key);
  return found == loaded_.end() ? nullptr : &found->second;
}

Loaded Library::prepare(const ptx::Kernel& kernel, const cuda::Module& module) const {
  Loaded l{.function = module.function(kernel.name, kernel.args_bytes),
           .block = {kernel.threads_x, kernel.threads_y, kernel.threads_z},
           .cluster = {kernel.cluster_x, kernel.cluster_y, kernel.cluster_z},
           .shared_bytes = kernel.shared_at_launch() ? ptx::dynamic_shared_offset(kernel) : 0,
           .dependent = waits(kernel.body)};
  if (l.shared_bytes > 48 * 1024) l.function.set_max_dynamic_shared(l.shared_bytes);
  // room for two kernels of a chain on one SM
  if (l.dependent || l.shared_bytes > 48 * 1024) l.function.prefer_shared(100);
  if (kernel.cluster() > 8) l.function.allow_large_clusters();
  return l;
}

void Library::load(const std::vector<kernels::AnySpec>& specs) {
  std::set<kernels::AnySpec, kernels::SpecOrder> once;
  for (const kernels::AnySpec& spec : specs)
    if (!find(spec.key())) once.insert(spec);
  if (once.empty()) return;
  const std::vector<kernels::AnySpec> missing(once.begin(), once.end());
  std::vector<std::shared_ptr<const ptx::Kernel>> built(missing.size());
  std::vector<cuda::Source> sources(missing.size());
  parallel_for(missing.size(), 0, [&](size_t i) {
    BuiltKernel one = build_(missing[i], target_);
    sources[i] = {one.kernel->name, std::move(one.text), target_.name};
    built[i] = std::move(one.kernel);
  });
  const std::vector<cuda::Module> modules = cuda::compile(context_, sources, cache_);
  for (size_t i = 0; i < missing.size(); ++i) {
    Loaded loaded = prepare(*built[i], modules[i]);
    std::lock_guard lock(mutex_);
    loaded_.emplace(missing[i], std::move(loaded));
  }
}

const Loaded& Library::get(const kernels::AnySpec& spec) {
  if (const Loaded* loaded = find(spec.key())) return *loaded;
  load({spec});
  return *find(spec.key());
}

}  // namespace heddle::gpu
