// Reads one tool call, from behind the mark that begins it to the end of its arguments.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/format.h"
#include "chat/parser.h"
#include "chat/tools.h"

namespace heddle::chat {

// Collects events; neighbours of one kind become one.
class EventSink {
 public:
  void content(std::string_view text) { add(ChatEvent::Kind::content, text); }
  void reasoning(std::string_view text) { add(ChatEvent::Kind::reasoning, text); }
  void arguments(std::string_view text) { add(ChatEvent::Kind::arguments, text); }
  void begin(std::string_view name) { events_.push_back({ChatEvent::Kind::call_begin, calls_++, std::string(name)}); }
  void end() { events_.push_back({ChatEvent::Kind::call_end, calls_ - 1}); }
  uint32_t calls() const { return calls_; }
  std::vector<ChatEvent> take() { return std::exchange(events_, {}); }

 private:
  void add(ChatEvent::Kind kind, std::string_view text);

  std::vector<ChatEvent> events_;
  uint32_t calls_ = 0;
};

class CallReader {
 public:
  enum class State { more, done, failed };
  struct Result {
    State state;
    size_t taken;  // bytes of the text; 0 until the call has begun
  };
  virtual ~CallReader() = default;
  // `text` begins behind what was taken before; `last`: no more comes. A call that has not begun (no event) and fails
  // is no call at all.
  virtual Result read(std::string_view text, bool last, EventSink& sink) = 0;
  bool begun() const { return begun_; }

 protected:
  bool begun_ = false;
};

// What a reader needs to know; all of it outlives the reader.
struct CallContext {
  const CallFormat& format;
  const Tools& tools;
  bool any_name;
  // A name that can be called: letters, digits and a few signs, and one of the tools where others are no calls.
  bool accepts(std::string_view name) const;
};

std::unique_ptr<CallReader> make_call_reader(const CallContext& context);
std::unique_ptr<CallReader> make_json_reader(const CallContext& context);
std::unique_ptr<CallReader> make_object_reader(const CallContext& context);
std::unique_ptr<CallReader> make_tag_reader(const CallContext& context);
std::unique_ptr<CallReader> make_literal_reader(const CallContext& context);  // quoted and python

constexpr size_t max_head_bytes = 512;  // of what stands before the arguments

}  // namespace heddle::chat
