// Streams: work in order. Events: points in it, to wait for and to time.
#pragma once
#include "cuda/context.h"

namespace heddle::cuda {

class Event;

// Ordered in itself, and with nothing else: not with other streams, nor with copies that name no stream.
class Stream {
 public:
  explicit Stream(const Context& context);

  void synchronize();
  // Whether all its work is done; waits up to `seconds` for it.
  bool done_within(double seconds);
  bool done() { return done_within(0); }
  // Work added to the stream after this starts when the event has happened.
  void wait(const Event& event);

  ContextState& state() const { return stream_.state(); }
  void* handle() const { return stream_.pointer(); }

 private:
  Owned stream_;
};

class Event {
 public:
  enum Timing : bool { untimed, timed };
  explicit Event(const Context& context, Timing timing = timed);

  void record(Stream& stream);
  // Waits until the work that was in the stream at record() is done. Returns at once if nothing was recorded.
  void synchronize();
  bool done() const;
  // Milliseconds from `start` to this, both recorded, timed and done.
  float milliseconds_since(const Event& start) const;

  void* handle() const { return event_.pointer(); }

 private:
  Owned event_;
};

}  // namespace heddle::cuda
