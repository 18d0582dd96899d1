#include "cuda/plan.h"

#include <algorithm>
#include <array>

#include "cuda/context_state.h"
#include "cuda/memory.h"

namespace heddle::cuda {

// --- launches -------------------------------------------------------------------------------------------------------
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

// --- plans ----------------------------------------------------------------------------------------------------------
size_t Plan::launch(Launch what) {
  if (steps_.empty() || !std::holds_alternative<Launch>(steps_.back())) what.after_previous_starts = false;
  check_launch(what);
  steps_.emplace_back(std::move(what));
  return steps_.size() - 1;
}
size_t Plan::fill(uint64_t to, uint8_t value, uint64_t bytes) {
  steps_.emplace_back(Fill{to, bytes, value});
  return steps_.size() - 1;
}
size_t Plan::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  steps_.emplace_back(Copy{to, from, bytes});
  return steps_.size() - 1;
}
size_t Plan::call(Work work) {
  steps_.push_back(std::move(work));
  return steps_.size() - 1;
}

Launch& Plan::launch_at(size_t step) {
  Launch* found = step < steps_.size() ? std::get_if<Launch>(&steps_[step]) : nullptr;
  if (!found) throw Error("step {} of a plan of {} is not a launch", step, steps_.size());
  return *found;
}

size_t Plan::launches() const {
  return size_t(
      std::count_if(steps_.begin(), steps_.end(), [](auto& step) { return std::holds_alternative<Launch>(step); }));
}

struct Plan::Run {
  Stream& stream;
  bool alone = false;
  void operator()(const Launch& l) const {
    if (!alone) return cuda::launch(stream, l);
    Launch one = l;
    one.after_previous_starts = false;
    cuda::launch(stream, one);
  }
  void operator()(const Fill& f) const { fill_device(stream, f.to, f.value, f.bytes); }
  void operator()(const Copy& c) const { copy_device(stream, c.to, c.from, c.bytes); }
  void operator()(const Work& work) const { work(stream); }
};

void Plan::run(Stream& stream, size_t first) const {
  for (size_t i = first; i < steps_.size(); ++i) std::visit(Run{stream}, steps_[i]);
}
void Plan::run_alone(Stream& stream, size_t step) const { std::visit(Run{stream, true}, steps_.at(step)); }

Graph Plan::graph(const Context& context) const {
  ContextState& s = *context.state();
  void* captured = nullptr;
  Stream stream(context);
  // Captured rather than built node by node: only so does the driver turn overlapping launches into edges of that kind.
  // Only calls of this thread are held to the rules of capturing; others may allocate and compile meanwhile.
  s.call(s.api.capture_begin, stream.handle(), capture_thread_local);
  try {
    run(stream);
  } catch (...) {
    s.release(s.api.capture_end, stream.handle(), &captured);
    if (captured) s.release(s.api.graph_destroy, captured);
    throw;
  }
  s.call(s.api.capture_end, stream.handle(), &captured);
  const Owned description(context.state(), reinterpret_cast<uint64_t>(captured),
                          [](ContextState& state, uint64_t h) noexcept {
                            state.release(state.api.graph_destroy, reinterpret_cast<void*>(h));
                          });

  Graph graph;
  void* executable = nullptr;
  s.call(s.api.graph_instantiate, &executable, description.pointer(), 0ull);
  graph.graph_ =
      Owned(context.state(), reinterpret_cast<uint64_t>(executable), [](ContextState& state, uint64_t h) noexcept {
        state.release(state.api.graph_exec_destroy, reinterpret_cast<void*>(h));
      });
  for (auto& step : steps_)
    if (auto* l = std::get_if<Launch>(&step)) graph.functions_.push_back(l->function);
  graph.name_ =
      s.keep(graph.functions_.empty() ? fmt::format("a graph of {} steps", steps_.size())
                                      : fmt::format("a graph of {} steps, with kernels {} to {}", steps_.size(),
                                                    graph.functions_.front().name(), graph.functions_.back().name()));
  return graph;
}

// --- graphs ---------------------------------------------------------------------------------------------------------
void Graph::launch(Stream& stream) {
  ContextState& s = graph_.state();
  check(&s == &stream.state(), "a graph and a stream of different contexts");
  s.call(s.api.graph_launch, graph_.pointer(), stream.handle());
  s.launched(name_);
}

void Graph::upload(Stream& stream) {
  ContextState& s = graph_.state();
  s.call(s.api.graph_upload, graph_.pointer(), stream.handle());
}

}  // namespace heddle::cuda
