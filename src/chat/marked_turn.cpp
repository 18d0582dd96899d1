// Answers with thoughts and calls between marks, and content around them.
#include <algorithm>
#include <utility>

#include "chat/marks.h"
#include "chat/turn.h"

namespace heddle::chat {
namespace {

class MarkedTurn : public Turn {
 public:
  MarkedTurn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools, ParserOptions options)
      : Turn(std::move(format), std::move(tools), options),
        thought_begin_(trimmed(format_->thought.begin)),
        thought_end_(trimmed(format_->thought.end)) {
    const CallFormat& calls = this->calls();
    has_calls_ = options_.calls && calls.kind != CallFormat::Kind::none;
    if (options_.in_thought && !thought_end_.empty()) place_ = Place::thought;
    if (!has_calls_) return;
    for (const std::string& mark : {calls.section_begin, calls.begin, calls.other_begin})
      if (std::string found = trigger(mark); !found.empty() && std::ranges::find(triggers_, found) == triggers_.end())
        triggers_.push_back(std::move(found));
    is_bare_ = trimmed(calls.section_begin + calls.begin).empty();
  }

 private:
  enum class Place { content, thought, call, closing, between };

  const CallFormat& calls() const { return format_->calls; }
  // Without a mark before it, only a call of a known tool is one.
  CallContext context() const { return {calls(), *tools_, options_.any_name && !is_bare_}; }

  bool step() override {
    switch (place_) {
      case Place::content:
        return in_content();
      case Place::thought:
        return in_thought();
      case Place::call:
        return at_call();
      case Place::closing:
        return at_closing();
      default:
        return between_calls();
    }
  }

  // White space is held until it is known what follows it: around thoughts and calls it is left out, but for what keeps
  // content before them and content behind them apart.
  void content(std::string_view text) {
    if (trims_) {
      const size_t space = skip_space(text, 0);
      if (has_content_) space_behind_ += text.substr(0, space);
      text.remove_prefix(space);
      if (text.empty()) return;
      trims_ = false;
      space_ = std::exchange(space_before_, {});
      if (space_.empty()) space_ = space_behind_;
      space_behind_.clear();
    }
    size_t end = text.size();
    while (end > 0 && is_space(text[end - 1])) --end;
    if (end > 0) {
      sink_.content(space_);
      sink_.content(text.substr(0, end));
      space_.clear();
      has_content_ = true;
    }
    space_ += text.substr(end);
  }
  void drop_space() {
    if (has_content_ && space_before_.empty()) space_before_ = space_;
    space_.clear();
    trims_ = true;
  }

  bool in_content() {
    if (is_bare_ && has_calls_ && !has_content_ && sink_.calls() == 0) {
      const size_t at = skip_space(held_, 0);
      if (at == held_.size()) return false;
      if (held_[at] == '{') return open_call(0);
    }
    size_t first = held_.size();
    std::string_view found;
    size_t safe = held_.size();
    const auto look = [&](std::string_view mark) {
      if (mark.empty()) return;
      const Found here = find_mark(held_, mark);
      if (!here.complete)
        safe = std::min(safe, here.at);
      else if (here.at < first || (here.at == first && mark.size() > found.size())) {
        first = here.at;
        found = mark;
      }
    };
    if (!thought_end_.empty()) look(thought_begin_);
    for (const std::string& mark : triggers_) look(mark);
    if (found.empty()) {
      if (last_) safe = held_.size();
      content(std::string_view(held_).substr(0, safe));
      held_.erase(0, safe);
      return false;
    }
    content(std::string_view(held_).substr(0, first));
    held_.erase(0, first);
    if (found != thought_begin_) return open_call(found.size());
    held_.erase(0, found.size());
    drop_space();
    place_ = Place::thought;
    return true;
  }

  bool in_thought() {
    if (!thinks_) {  // what stands at its beginning may be the mark, which the prompt has as well
      const size_t at = skip_space(held_, 0);
      const std::string_view rest = std::string_view(held_).substr(at);
      if (!last_ && thought_begin_.starts_with(rest)) return false;
      if (!thought_begin_.empty() && rest.starts_with(thought_begin_)) {
        held_.erase(0, at + thought_begin_.size());
        thinks_ = true;
        return true;
      }
      thinks_ = true;
    }
    // models make calls without ending their thought: the mark of a call ends it, too
    Found end = find_mark(held_, thought_end_);
    size_t mark = 0;
    for (const std::string& call : triggers_) {
      const Found here = find_mark(held_, call);
      if (here.complete ? !end.complete || here.at < end.at : !end.complete && here.at < end.at) {
        mark = here.complete ? call.size() : 0;
        end = here;
      }
    }
    size_t size = end.at;
    if (last_ && !end.complete) size = held_.size();
    thought(std::string_view(held_).substr(0, size));
    held_.erase(0, size);
    if (!end.complete) return false;
    if (mark > 0) {
      from_thought_ = true;
      return open_call(mark);
    }
    held_.erase(0, thought_end_.size());
    end_thought();
    place_ = Place::content;
    return true;
  }
  void end_thought() {
    thought_space_.clear();
    thinks_ = false;
    thought_text_ = false;
    from_thought_ = false;
    drop_space();
  }
  void thought(std::string_view text) {
    if (!thought_text_) text.remove_prefix(skip_space(text, 0));
    size_t end = text.size();
    while (end > 0 && is_space(text[end - 1])) --end;
    if (end > 0) {
      sink_.reasoning(thought_space_);
      sink_.reasoning(text.substr(0, end));
      thought_space_.clear();
      thought_text_ = true;
    }
    thought_space_ += text.substr(end);
  }

  // A call may begin behind the first `lead` bytes; the first `mark` bytes are content if it is none.
  bool open_call(size_t mark, size_t lead = 0) {
    mark_ = mark;
    lead_ = lead;
    body_ = none;
    reader_.reset();
    place_ = Place::call;
    return true;
  }

  bool at_call() {
    if (body_ == none) {
      const Match begins = find_body();
      if (begins == Match::more && !last_) return false;
      if (begins != Match::yes) return no_call();
      reader_ = make_call_reader(context());
    }
    const uint32_t before = sink_.calls();
    const CallReader::Result result = reader_->read(std::string_view(held_).substr(body_), last_, sink_);
    if (sink_.calls() > before) end_thought();
    if (!reader_->begun()) return result.state == CallReader::State::failed && no_call();
    held_.erase(0, body_ + result.taken);
    body_ = 0;
    if (result.state == CallReader::State::more) return false;
    sink_.end();
    place_ = result.state == CallReader::State::done ? Place::closing : Place::content;
    return true;
  }
  // Where the call's own text begins, behind the marks of the section and the call.
  Match find_body() {
    size_t at = lead_;
    Match section = Match::no;
    if (!in_section_ && !trimmed(calls().section_begin).empty()) {
      section = match_loosely(held_, calls().section_begin, at);
      if (section == Match::more) return section;
      if (section == Match::no) at = 0;
    }
    size_t end = 0;
    Match begins = match_loosely(std::string_view(held_).substr(at), calls().begin, end);
    if (begins == Match::no && !calls().other_begin.empty())
      begins = match_loosely(std::string_view(held_).substr(at), calls().other_begin, end);
    else if (begins == Match::yes && end == 0 && !calls().other_begin.empty()) {
      size_t other = 0;  // nothing begins a call but, perhaps, the other mark
      const Match has_other = match_loosely(std::string_view(held_).substr(at), calls().other_begin, other);
      if (has_other == Match::more) return has_other;
      if (has_other == Match::yes) end = other;
    }
    if (begins != Match::yes) return begins;
    if (section == Match::yes) in_section_ = true;
    body_ = at + end;
    return Match::yes;
  }
  bool no_call() {
    in_section_ = false;
    if (std::exchange(from_thought_, false)) {
      thought(std::string_view(held_).substr(0, mark_));
      held_.erase(0, mark_);
      place_ = Place::thought;
      return true;
    }
    place_ = Place::content;
    has_content_ = true;
    content(std::string_view(held_).substr(0, mark_));
    held_.erase(0, mark_);
    return true;
  }

  bool at_closing() {
    size_t end = 0;
    const Match closes = match_loosely(held_, calls().end, end);
    if (closes == Match::more && !last_) return false;
    if (closes == Match::yes) held_.erase(0, end);
    place_ = calls().has_section() ? Place::between : Place::content;
    return true;
  }

  bool between_calls() {
    const CallFormat& format = calls();
    size_t end = 0;
    Match closes = Match::no, begins = Match::no;
    if (!trimmed(format.section_end).empty()) closes = match_loosely(held_, format.section_end, end);
    if (closes == Match::yes) {
      held_.erase(0, end);
      in_section_ = false;
      place_ = Place::content;
      return true;
    }
    if (closes == Match::more && !last_) return false;  // with white space between calls, anything may begin one
    begins = match_loosely(held_, format.between, end);
    if (begins == Match::yes && skip_space(held_, end) == held_.size()) begins = Match::more;
    size_t mark = 0;
    if (begins == Match::yes) {
      begins = match_loosely(std::string_view(held_).substr(end), format.begin, mark);
      if (begins == Match::yes && trimmed(format.begin).empty() && !begins_call(held_[skip_space(held_, end)]))
        begins = Match::no;
    }
    if (begins == Match::yes) {
      in_section_ = true;
      return open_call(end + mark, end);
    }
    if (!last_ && begins == Match::more) return false;
    in_section_ = false;
    place_ = Place::content;
    return true;
  }
  // What a call may begin with where no mark does.
  bool begins_call(char c) const { return calls().kind == CallFormat::Kind::object ? c == '{' : !is_space(c); }

  void end() override {
    if (place_ == Place::content) content(held_);
    held_.clear();
    // white space at the end belongs to an answer without calls
    if (sink_.calls() == 0) sink_.content(space_);
  }

  static constexpr size_t none = SIZE_MAX;
  const std::string_view thought_begin_, thought_end_;
  bool has_calls_ = false;
  std::vector<std::string> triggers_;
  bool is_bare_ = false;  // nothing begins a call but its own brace
  Place place_ = Place::content;
  std::string space_, thought_space_;
  std::string space_before_, space_behind_;  // a thought or a call
  bool trims_ = false, has_content_ = false, thinks_ = false, thought_text_ = false;
  bool from_thought_ = false;  // a call may begin inside of one
  std::unique_ptr<CallReader> reader_;
  size_t mark_ = 0, lead_ = 0, body_ = none;
  bool in_section_ = false;
};

}  // namespace

std::unique_ptr<Turn> make_marked_turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools,
                                       ParserOptions options) {
  return std::make_unique<MarkedTurn>(std::move(format), std::move(tools), options);
}

}  // namespace heddle::chat
