#include "cuda/plan.h"

#include <algorithm>

#include "cuda/context_state.h"
#include "cuda/memory.h"

namespace heddle::cuda {

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

Launch& Plan::launch_at(size_t step) {
  Launch* found = step < steps_.size() ? std::get_if<Launch>(&steps_[step]) : nullptr;
  if (!found) throw Error("step {} of a plan of {} is not a launch", step, steps_.size());
  return *found;
}

size_t Plan::launches() const {
  return size_t(
      std::count_if(steps_.begin(), steps_.end(), [](auto& step) { return std::holds_alternative<Launch>(step); }));
}

void Plan::run(Stream& stream) const {
  struct Run {
    Stream& stream;
    void operator()(const Launch& l) const { cuda::launch(stream, l); }
    void operator()(const Fill& f) const { fill_device(stream, f.to, f.value, f.bytes); }
    void operator()(const Copy& c) const { copy_device(stream, c.to, c.from, c.bytes); }
  };
  for (auto& step : steps_) std::visit(Run{stream}, step);
}

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
