// Answers of gpt-oss: messages, each with a header that names its channel and, for a call, the tool:
// <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json
// <|message|>{...}<|call|>. Analysis is thought, everything else without a recipient is content.
#include <algorithm>

#include "chat/json_scanner.h"
#include "chat/marks.h"
#include "chat/turn.h"

namespace heddle::chat {
namespace {

class HarmonyTurn : public Turn {
 public:
  using Turn::Turn;

 private:
  enum class Place { header, thought, content, call };

  bool step() override { return place_ == Place::header ? in_header() : in_body(); }

  bool in_header() {
    const std::string_view text = held_;
    if (const std::string_view rest = text.substr(skip_space(text, 0)); !begins_header(rest)) {
      place_ = Place::content;
      return true;
    }
    const Found end = find_mark(text.substr(0, max_head_bytes), message);
    if (end.complete) {
      read_header(text.substr(0, end.at));
      held_.erase(0, end.at + message.size());
      return true;
    }
    if ((text.size() < max_head_bytes && !last_) || text.empty()) return false;
    // no header after all: its first mark is content, and so is what follows
    const size_t first = text.find('>') + 1;
    sink_.content(text.substr(0, first));
    held_.erase(0, first);
    place_ = Place::content;
    return true;
  }
  static bool begins_header(std::string_view text) {
    return std::ranges::any_of(headers, [&](std::string_view header) {
      return text.size() < header.size() ? header.starts_with(text) : text.starts_with(header);
    });
  }

  void read_header(std::string_view header) {
    std::string_view channel;
    if (const size_t at = header.find("<|channel|>"); at != header.npos) channel = trimmed(header.substr(at + 11));
    const size_t to = header.find("to=");
    place_ = Place::content;
    if (to != header.npos && options_.calls) {
      std::string_view name = header.substr(to + 3);
      name = name.substr(0, name.find_first_of(" <\n"));
      if (name.starts_with("functions.")) name.remove_prefix(10);
      if (CallContext{format_->calls, *tools_, options_.any_name}.accepts(name)) {
        place_ = Place::call;
        scanner_ = {};
        sink_.begin(name);
        return;
      }
    }
    if (channel.starts_with("analysis")) place_ = Place::thought;
  }

  bool in_body() {
    const std::string_view text = held_;
    size_t end = text.size(), safe = text.size();
    std::string_view found;
    for (const std::string_view mark : ends) {
      const Found here = find_mark(text, mark);
      if (!here.complete)
        safe = std::min(safe, here.at);
      else if (here.at < end) {
        end = here.at;
        found = mark;
      }
    }
    const size_t size = !found.empty() ? end : last_ ? text.size() : safe;
    const size_t taken = body(text.substr(0, size));
    const bool failed = taken < size;
    held_.erase(0, taken);
    if (failed) {  // the arguments are no JSON: the rest is content
      sink_.end();
      place_ = Place::content;
      return true;
    }
    if (found.empty() && !last_) return false;
    if (place_ == Place::call) sink_.end();
    place_ = Place::header;
    // the marks that begin a header are read with it
    if (found != "<|start|>" && found != "<|channel|>") held_.erase(0, found.size());
    return !held_.empty();
  }
  // The bytes taken; fewer than there are: arguments that cannot go on.
  size_t body(std::string_view text) {
    if (place_ == Place::thought) sink_.reasoning(text);
    if (place_ == Place::content) sink_.content(text);
    if (place_ != Place::call) return text.size();
    size_t i = 0;
    while (i < text.size() && ((scanner_.done() && is_space(text[i])) || scanner_.take(text[i]))) ++i;
    sink_.arguments(text.substr(0, i));
    return i;
  }

  void end() override {
    sink_.content(held_);
    held_.clear();
  }

  static constexpr std::string_view message = "<|message|>";
  static constexpr std::string_view headers[] = {"<|channel|>", "<|start|>", "to=", "<|message|>"};
  static constexpr std::string_view ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};

  Place place_ = Place::header;
  JsonScanner scanner_;
};

}  // namespace

std::unique_ptr<Turn> make_harmony_turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools,
                                        ParserOptions options) {
  return std::make_unique<HarmonyTurn>(std::move(format), std::move(tools), options);
}

}  // namespace heddle::chat
