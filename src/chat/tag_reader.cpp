// Calls with each parameter between tags. Strings are written as they are, other values as JSON; which it is, the tag
// says or the tool's schema.
#include <algorithm>

#include "chat/call_reader.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

class TagReader : public CallReader {
 public:
  explicit TagReader(const CallContext& context)
      : context_(context),
        in_lines_((context.format.key_end + context.format.value_begin).ends_with('\n') &&
                  context.format.value_end.starts_with('\n')),
        value_end_(trimmed(context.format.value_end)) {}

  Result read(std::string_view text, bool last, EventSink& sink) override {
    size_t taken = 0;
    State state = State::more;
    for (bool goes_on = true; goes_on && state == State::more;) {
      const std::string_view rest = text.substr(taken);
      const size_t before = taken;
      const Place place = place_;
      switch (place_) {
        case Place::name:
          state = read_name(rest, taken, sink);
          break;
        case Place::key:
          state = read_key(rest, taken, sink);
          break;
        case Place::value:
          state = read_value(rest, taken, sink);
          break;
      }
      goes_on = taken != before || place != place_;
    }
    if (last && state == State::more) state = State::failed;
    return {state, begun_ ? taken : 0};
  }

 private:
  enum class Place { name, key, value };

  State read_name(std::string_view text, size_t& taken, EventSink& sink) {
    const std::string_view mark = trimmed(context_.format.arguments_begin);
    const size_t begin = skip_space(text, 0);
    size_t end = mark.empty() ? text.find_first_of("< \n\r\t", begin) : text.find(mark, begin);
    if (end == text.npos) return text.size() > max_head_bytes + mark.size() ? State::failed : State::more;
    const std::string_view name = trimmed(text.substr(begin, end - begin));
    if (end > max_head_bytes || !context_.accepts(name)) return State::failed;
    tool_ = find_tool(context_.tools, name);
    begun_ = true;
    sink.begin(name);
    taken += end + mark.size();
    place_ = Place::key;
    return State::more;
  }

  State read_key(std::string_view text, size_t& taken, EventSink& sink) {
    const CallFormat& format = context_.format;
    size_t end = 0;
    const Match ends = match_loosely(text, format.arguments_end, end);
    if (ends == Match::yes) {
      sink.arguments(first_ ? "{}" : "}");
      taken += end;
      return State::done;
    }
    const Match begins = match_loosely(text, format.key_begin, end);
    if (begins != Match::yes) return begins == Match::more || ends == Match::more ? State::more : State::failed;
    const std::string_view mark = trimmed(format.key_end);
    const size_t close = text.find(mark, end);
    if (close == text.npos) return text.size() - end > max_head_bytes + mark.size() ? State::failed : State::more;
    if (close - end > max_head_bytes) return State::failed;
    const std::string_view key = trimmed(text.substr(end, close - end));
    size_t at = close + mark.size();
    types_ = tool_ ? parameter_types(*tool_, key) : uint32_t(any_type);
    size_t value = 0;
    const Match value_begins = match_loosely(text.substr(at), format.value_begin, value);
    if (value_begins == Match::yes) {
      // the schema knows better than a tag that calls a number a string
      if (!format.other_value_begin.empty() && (types_ & string_type)) types_ = string_type;
    } else {
      const Match other = format.other_value_begin.empty()
                              ? Match::no
                              : match_loosely(text.substr(at), format.other_value_begin, value);
      if (other != Match::yes) return value_begins == Match::more || other == Match::more ? State::more : State::failed;
      if (types_ != string_type) types_ &= ~uint32_t(string_type);
    }
    sink.arguments((first_ ? "{" : ",") + quoted_text(key) + ":");
    first_ = false;
    taken += at + value;
    place_ = Place::value;
    started_ = false;
    return State::more;
  }

  State read_value(std::string_view text, size_t& taken, EventSink& sink) {
    const Found end = find_mark(text, value_end_);
    if (types_ != string_type) {
      if (!end.complete) return State::more;
      std::string_view value = text.substr(0, end.at);
      if (in_lines_) value = without_line_ends(value);
      sink.arguments(value_as_json(value, types_));
    } else {
      if (!started_) {
        if (end.at == 0 && !end.complete) return State::more;
        started_ = true;
        sink.arguments("\"");
        if (in_lines_ && text.starts_with('\n') && !(end.complete && end.at == 0)) {
          ++taken;
          return State::more;
        }
      }
      std::string_view value = text.substr(0, end.at);
      if (in_lines_ && value.ends_with('\n')) value.remove_suffix(1);
      std::string out;
      append_escaped(out, value);
      if (!end.complete) {
        sink.arguments(out);
        taken += value.size();
        return State::more;
      }
      sink.arguments(out += "\"");
    }
    taken += end.at + value_end_.size();
    place_ = Place::key;
    return State::more;
  }
  static std::string_view without_line_ends(std::string_view value) {
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    return value;
  }

  CallContext context_;
  const bool in_lines_;  // a value stands in lines of its own
  const std::string_view value_end_;
  Place place_ = Place::name;
  const Tool* tool_ = nullptr;
  uint32_t types_ = any_type;
  bool first_ = true, started_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_tag_reader(const CallContext& context) { return std::make_unique<TagReader>(context); }

}  // namespace heddle::chat
