// Runs a kernel on the CPU: whole grids, several blocks alive at once, warps in lock step under a mask.
// Exact instructions give the GPU's bits, approximate ones are within the bound the PTX manual states.
// What a GPU would let pass in silence is reported: see Report::Kind.
#pragma once
#include <map>
#include <memory>
#include <span>

#include "base/error.h"
#include "ptx/ir.h"

namespace heddle::ptx {

// Global memory: separate buffers, each with its bounds. Addresses are host addresses.
class Memory {
 public:
  template <class T>
  DevicePtr<T> put(std::span<const T> data) {
    DevicePtr<T> p = alloc<T>(data.size());
    if (!data.empty()) std::memcpy(reinterpret_cast<void*>(p.address), data.data(), data.size_bytes());
    return p;
  }
  template <class T>
  DevicePtr<T> put(const std::vector<T>& data) {
    return put(std::span<const T>(data));
  }
  // Filled with 0xCC, so that what a kernel forgot to write shows.
  template <class T>
  DevicePtr<T> alloc(size_t count) {
    return {add(count * sizeof(T))};
  }
  template <class T>
  std::vector<T> get(DevicePtr<T> p, size_t count) const {
    std::vector<T> v(count);
    if (count) std::memcpy(v.data(), reinterpret_cast<const void*>(p.address), count * sizeof(T));
    return v;
  }
  // Frees the buffer that begins at this address; false if there is no such buffer.
  bool free(uint64_t address) { return buffers_.erase(address) > 0; }
  // [begin, end) of every buffer, in order.
  std::vector<std::pair<uint64_t, uint64_t>> regions() const;

 private:
  uint64_t add(size_t bytes);
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::map<uint64_t, std::pair<uint64_t, std::unique_ptr<uint8_t, Free>>> buffers_;  // begin -> (bytes, owner)
};

class LaunchChain;

struct InterpretOptions {
  uint32_t dynamic_shared_bytes = 0;  // size of the shared memory that the launch sets
  uint32_t resident_blocks =
      16;  // alive at once (a whole number of clusters); blocks that wait for each other must all fit
  uint64_t max_idle_steps = uint64_t(1) << 26;  // warp steps without a write and without an arrival at a barrier
  uint64_t seed = 0;                            // not 0: warps take turns in a random order
  bool races = true;                            // look for races in shared memory
  LaunchChain* chain = nullptr;                 // the chain that this launch belongs to; see launch_chain.h
};

struct InterpretStats {
  uint64_t warp_instructions = 0, lane_instructions = 0;  // lane: active lanes only; control steps are not counted
};

// What the interpreter found wrong.
struct Report : Error {
  enum class Kind {
    out_of_bounds,       // outside every buffer, shared memory, arguments or constants
    misaligned,          // address not a multiple of the access
    uninitialised,       // shared memory read before it was written
    race,                // two threads touch a shared byte, one writes, nothing orders them
    barrier_divergence,  // a barrier, or another step that needs all lanes, reached by some lanes only
    deadlock,            // warps wait for what can no longer come
    no_progress,         // max_idle_steps: warps spin on memory that no thread writes
    not_waited,          // a copy's data or a matrix unit's registers used before the wait
    no_proxy_fence,      // ordinary writes to shared memory read by a copy or the matrix unit without fence.proxy.async
    not_uniform,         // assume_uniform does not hold
    bad_operand,         // division by zero, mbarrier misuse, an invalid tensor map, ...
    overlap,  // global memory that an earlier launch, which may still run, writes or reads: see launch_chain.h
    trap,
  } kind;
  std::string kernel, file;
  uint32_t line = 0, thread = 0;  // thread in the block, linear
  Grid block;
  Report(Kind kind, const std::string& what, std::string kernel, std::string file, uint32_t line, Grid block,
         uint32_t thread);
};

namespace machine {
struct Program;
}
// A kernel lowered once and launched many times. Keeps the kernel.
class Lowered {
 public:
  explicit Lowered(Kernel kernel);
  Lowered(Lowered&&) noexcept;
  ~Lowered();
  const Kernel& kernel() const { return *kernel_; }
  const machine::Program& program() const { return *program_; }

 private:
  std::unique_ptr<const Kernel> kernel_;  // the program points into it
  std::unique_ptr<const machine::Program> program_;
};

InterpretStats interpret(const Lowered& lowered, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                         const InterpretOptions& options = {});
InterpretStats interpret(const Kernel& kernel, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                         const InterpretOptions& options = {});
template <class Args>
InterpretStats interpret(const Kernel& kernel, Grid grid, const Args& args, Memory& memory,
                         const InterpretOptions& options = {}) {
  return interpret(kernel, grid, &args, std::is_empty_v<Args> ? 0 : sizeof args, memory, options);
}

// Launches on devices that see each other's memory, as those of the ranks of a group do. The launches of a queue, one
// per device, follow each other; those of different queues run at the same time, in turns, and may wait for what
// another one writes. Warps spin in vain (no_progress) when no launch makes any progress. Returns what all of them did.
struct QueuedLaunch {
  const Lowered* kernel;
  Grid grid;
  std::vector<uint8_t> args;
  InterpretOptions options = {};  // the seed of the first launch also decides which launch runs next

  template <class Args>
  static QueuedLaunch of(const Lowered& kernel, Grid grid, const Args& args, const InterpretOptions& options = {}) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&args);
    return {&kernel, grid, {bytes, bytes + sizeof args}, options};
  }
};
InterpretStats interpret_together(std::span<const std::vector<QueuedLaunch>> queues, Memory& memory);

}  // namespace heddle::ptx
