#include "cuda/stream.h"

#include <chrono>
#include <thread>

#include "cuda/context_state.h"

namespace heddle::cuda {

// --- streams --------------------------------------------------------------------------------------------------------
Stream::Stream(const Context& context) {
  ContextState& s = *context.state();
  void* stream = nullptr;
  s.call(s.api.stream_create, &stream, stream_non_blocking);
  stream_ = Owned(context.state(), reinterpret_cast<uint64_t>(stream), [](ContextState& state, uint64_t h) noexcept {
    state.release(state.api.stream_destroy, reinterpret_cast<void*>(h));
  });
}

void Stream::synchronize() { state().call(state().api.stream_synchronize, handle()); }

bool Stream::done_within(double seconds) {
  ContextState& s = state();
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    const int result = s.result_of(s.api.stream_query, handle());
    if (result == code::success) return true;
    if (result != code::not_ready) s.fail(result, s.api.stream_query.name);
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (waited >= seconds) return false;
    // no sleep in the first millisecond: short work must not be measured in sleeps
    if (waited > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Stream::wait(const Event& event) { state().call(state().api.stream_wait, handle(), event.handle(), 0u); }

// --- events ---------------------------------------------------------------------------------------------------------
Event::Event(const Context& context, Timing timing) {
  ContextState& s = *context.state();
  void* event = nullptr;
  s.call(s.api.event_create, &event, timing == timed ? 0u : event_untimed);
  event_ = Owned(context.state(), reinterpret_cast<uint64_t>(event), [](ContextState& state, uint64_t h) noexcept {
    state.release(state.api.event_destroy, reinterpret_cast<void*>(h));
  });
}

void Event::record(Stream& stream) {
  ContextState& s = event_.state();
  s.call(s.api.event_record, handle(), stream.handle());
}

void Event::synchronize() { event_.state().call(event_.state().api.event_synchronize, handle()); }

bool Event::done() const {
  ContextState& s = event_.state();
  const int result = s.result_of(s.api.event_query, handle());
  if (result != code::success && result != code::not_ready) s.fail(result, s.api.event_query.name);
  return result == code::success;
}

float Event::milliseconds_since(const Event& start) const {
  float ms = 0;
  event_.state().call(event_.state().api.event_elapsed, &ms, start.handle(), handle());
  return ms;
}

}  // namespace heddle::cuda
