#include "ptx/interpret.h"

#include <new>

#include "ptx/machine/cta.h"

namespace heddle::ptx {

// --- global memory ------------------------------------------------------------------------------------------------
namespace {
constexpr size_t alignment = 256;  // as cuMemAlloc gives
}
void Memory::Free::operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t(alignment)); }

uint64_t Memory::add(size_t bytes) {
  // The gap after each buffer keeps one that runs over from landing in the next.
  auto* p = static_cast<uint8_t*>(::operator new(bytes + alignment, std::align_val_t(alignment)));
  std::memset(p, 0xCC, bytes + alignment);
  uint64_t address = uint64_t(reinterpret_cast<uintptr_t>(p));
  buffers_.emplace(address, std::pair(uint64_t(bytes), std::unique_ptr<uint8_t, Free>(p)));
  return address;
}
std::vector<std::pair<uint64_t, uint64_t>> Memory::regions() const {
  std::vector<std::pair<uint64_t, uint64_t>> v;
  for (auto& [begin, b] : buffers_) v.emplace_back(begin, begin + b.first);
  return v;
}

// --- reports ------------------------------------------------------------------------------------------------------
Report::Report(Kind kind_, const std::string& what, std::string kernel_, std::string file_, uint32_t line_, Grid block_,
               uint32_t thread_)
    : Error("{}: {}:{}: block ({}, {}, {}), thread {}: {}", kernel_, file_, line_, block_.x, block_.y, block_.z,
            thread_, what),
      kind(kind_),
      kernel(std::move(kernel_)),
      file(std::move(file_)),
      line(line_),
      thread(thread_),
      block(block_) {}

// --- launches -----------------------------------------------------------------------------------------------------
namespace {

void expect_launchable(const Kernel& k, Grid grid, size_t args_bytes) {
  if (args_bytes != k.args_bytes)
    throw Error("{}: expects {} bytes of arguments, got {}", k.name, k.args_bytes, args_bytes);
  if (k.threads() == 0 || k.threads() % 32)
    throw Error("{}: the block has {} threads, not a whole number of warps", k.name, k.threads());
  if (grid.x % k.cluster_x || grid.y % k.cluster_y || grid.z % k.cluster_z)
    throw Error("{}: the grid {} x {} x {} is not a whole number of clusters of {} x {} x {}", k.name, grid.x, grid.y,
                grid.z, k.cluster_x, k.cluster_y, k.cluster_z);
}

InterpretStats run(const machine::Program& program, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                   const InterpretOptions& options) {
  expect_launchable(program.kernel, grid, args_bytes);
  machine::Engine engine(program, grid, args, args_bytes, memory, options);
  const std::vector<machine::Engine*> queue{&engine};
  machine::run({&queue, 1});
  return engine.stats;
}

}  // namespace

Lowered::Lowered(Kernel kernel)
    : kernel_(std::make_unique<const Kernel>(std::move(kernel))),
      program_(std::make_unique<const machine::Program>(*kernel_)) {}
Lowered::Lowered(Lowered&&) noexcept = default;
Lowered::~Lowered() = default;

InterpretStats interpret(const Lowered& lowered, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                         const InterpretOptions& options) {
  return run(lowered.program(), grid, args, args_bytes, memory, options);
}
InterpretStats interpret(const Kernel& kernel, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                         const InterpretOptions& options) {
  return run(machine::Program(kernel), grid, args, args_bytes, memory, options);
}

InterpretStats interpret_together(std::span<const std::vector<QueuedLaunch>> queues, Memory& memory) {
  std::deque<machine::Engine> engines;
  std::vector<std::vector<machine::Engine*>> all;
  for (const std::vector<QueuedLaunch>& queue : queues) {
    all.emplace_back();
    for (const QueuedLaunch& l : queue) {
      expect_launchable(l.kernel->kernel(), l.grid, l.args.size());
      all.back().push_back(
          &engines.emplace_back(l.kernel->program(), l.grid, l.args.data(), l.args.size(), memory, l.options));
    }
  }
  machine::run(all);
  InterpretStats stats;
  for (const machine::Engine& engine : engines) {
    stats.warp_instructions += engine.stats.warp_instructions;
    stats.lane_instructions += engine.stats.lane_instructions;
  }
  return stats;
}

}  // namespace heddle::ptx
