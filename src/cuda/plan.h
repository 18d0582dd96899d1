// Launches of kernels, and plans: lists of work for the device, kept with its arguments, that are run step by step or
// made into a graph that costs one call.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "cuda/module.h"
#include "cuda/stream.h"

namespace heddle::cuda {

// One launch of a kernel. Every kernel takes one argument: a struct, passed by value.
struct Launch {
  Function function;
  Dim3 grid, block;
  Dim3 cluster = {};            // blocks; {1, 1, 1}: no cluster
  uint32_t dynamic_shared = 0;  // bytes per block
  // The kernel may begin while the launch before it still runs, and waits by itself for its results
  // (griddepcontrol.wait; GPUs from sm_90 on).
  bool after_previous_starts = false;
  std::vector<std::byte> args;

  // Throws if the kernel takes another number of bytes.
  void set_args(const void* from, size_t bytes);
  template <class Args>
  void set_args(const Args& from) {
    static_assert(std::is_trivially_copyable_v<Args>);
    set_args(&from, sizeof from);
  }
};

// Throws, naming the kernel, if grid, block, cluster, shared memory or arguments cannot be right for it.
void check_launch(const Launch& what);
// Checks the launch in the same way first.
void launch(Stream& stream, const Launch& what);

template <class Args>
Launch make_launch(Function function, Dim3 grid, Dim3 block, const Args& args, uint32_t dynamic_shared = 0) {
  Launch l{.function = std::move(function), .grid = grid, .block = block, .dynamic_shared = dynamic_shared};
  l.set_args(args);
  return l;
}

class Graph;

// Addresses in it must stay valid as long as it, and graphs made from it, are run.
class Plan {
 public:
  // Each returns the number of its step. `after_previous_starts` is ignored unless the step before is a launch too:
  // nothing else can be overlapped.
  size_t launch(Launch what);
  size_t fill(uint64_t to, uint8_t value, uint64_t bytes);
  size_t copy(uint64_t to, uint64_t from, uint64_t bytes);  // on the device
  // Work that another library puts into the stream: called each time the plan is run, and once for each of its graphs.
  using Work = std::function<void(Stream&)>;
  size_t call(Work work);

  // New arguments for a launch; graphs made before keep the old ones.
  template <class Args>
  void set_args(size_t step, const Args& args) {
    launch_at(step).set_args(args);
  }
  Launch& launch_at(size_t step);  // throws if the step is no launch
  size_t size() const { return steps_.size(); }
  size_t launches() const;

  void run(Stream& stream, size_t first = 0) const;   // from this step on
  void run_alone(Stream& stream, size_t step) const;  // this step, which starts when all before it has ended
  Graph graph(const Context& context) const;

 private:
  struct Fill {
    uint64_t to, bytes;
    uint8_t value;
  };
  struct Copy {
    uint64_t to, from, bytes;
  };
  struct Run;
  std::vector<std::variant<Launch, Fill, Copy, Work>> steps_;
};

// A plan as the driver keeps it, move-only. The kernels stay loaded as long as it lives.
class Graph {
 public:
  Graph() = default;

  // One launch after another: the driver does not run a graph twice at the same time.
  void launch(Stream& stream);
  // Moves to the device what the first launch needs, so that it is not slower than the others.
  void upload(Stream& stream);

 private:
  friend class Plan;
  std::vector<Function> functions_;
  const std::string* name_ = nullptr;  // for messages; kept by the context
  Owned graph_;
};

}  // namespace heddle::cuda
