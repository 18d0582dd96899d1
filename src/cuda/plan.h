// A list of work for the device, kept with its arguments: run step by step, or made into a graph that costs one call.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "cuda/launch.h"

namespace heddle::cuda {

class Graph;

// Addresses in it must stay valid as long as it, and graphs made from it, are run.
class Plan {
 public:
  // Each returns the number of its step. `after_previous_starts` counts only where the step before is a launch too:
  // nothing else can be overlapped.
  size_t launch(Launch what);
  size_t fill(uint64_t to, uint8_t value, uint64_t bytes);
  size_t copy(uint64_t to, uint64_t from, uint64_t bytes);  // on the device

  // New arguments for a launch; graphs made before keep the old ones.
  template <class Args>
  void set_args(size_t step, const Args& args) {
    launch_at(step).set_args(args);
  }
  Launch& launch_at(size_t step);  // throws if the step is no launch
  size_t size() const { return steps_.size(); }
  size_t launches() const;

  void run(Stream& stream) const;
  Graph graph(const Context& context) const;

 private:
  struct Fill {
    uint64_t to, bytes;
    uint8_t value;
  };
  struct Copy {
    uint64_t to, from, bytes;
  };
  std::vector<std::variant<Launch, Fill, Copy>> steps_;
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
