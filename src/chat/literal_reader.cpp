// Calls with their arguments in a notation near to JSON: Python's keyword arguments, or bare keys with strings between
// marks. They are turned into JSON as they come.
#include <algorithm>

#include "base/utf8.h"
#include "chat/call_reader.h"
#include "chat/json_scanner.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

class LiteralReader : public CallReader {
 public:
  explicit LiteralReader(const CallContext& context)
      : context_(context), is_python_(context.format.kind == CallFormat::Kind::python) {}

  Result read(std::string_view text, bool last, EventSink& sink) override {
    size_t at = 0;
    State state = State::more;
    if (!begun_) {
      const char open = is_python_ ? '(' : '{';
      const size_t end = text.find(open);
      if (end == text.npos) return {last || text.size() > max_head_bytes ? State::failed : State::more, 0};
      const std::string_view name = trimmed(text.substr(0, end));
      if (end > max_head_bytes || !context_.accepts(name)) return {State::failed, 0};
      begun_ = true;
      sink.begin(name);
      at = end + 1;
      put('{');
      open_ = "}";
    }
    while (state == State::more && at < text.size()) {
      const size_t before = at;
      state = in_string_ ? read_string(text, at) : read_token(text, at);
      if (at == before) break;
    }
    sink.arguments(out_);
    out_.clear();
    if (last && state == State::more) state = State::failed;
    return {state, at};
  }

 private:
  // Whether what is put is JSON is seen by the scanner.
  bool put(char c) {
    if (!scanner_.take(c)) return false;
    out_ += c;
    return true;
  }
  bool put(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [&](char c) { return put(c); });
  }
  // A comma is only put before what follows it: Python allows one at the end.
  bool put_value(std::string_view text) {
    if (comma_ && !put(',')) return false;
    comma_ = false;
    return put(text);
  }

  State read_token(std::string_view text, size_t& at) {
    const char c = text[at];
    const auto taken = [&](bool is_json) {
      if (!is_json) return State::failed;
      ++at;
      return State::more;
    };
    if (is_space(c)) return taken(true);
    if (c == '{' || c == '[' || (c == '(' && is_python_)) {
      if (!put_value(c == '{' ? "{" : "[")) return State::failed;
      open_ += c == '{' ? '}' : ']';
      return taken(true);
    }
    if (c == '}' || c == ']' || c == ')') {
      if (c == ')' && !is_python_) return State::failed;
      comma_ = false;
      if (!put(open_.back())) return State::failed;
      open_.pop_back();
      ++at;
      return open_.empty() ? State::done : State::more;
    }
    if (c == ',') {
      if (comma_) return State::failed;
      comma_ = true;
      return taken(true);
    }
    if (c == ':' || c == '=') return taken(put(':'));
    if (is_python_ ? c == '"' || c == '\'' : match_quote(text.substr(at)) == Match::yes) {
      if (!put_value("\"")) return State::failed;
      quote_ = is_python_ ? std::string(1, c) : context_.format.quote;
      in_string_ = true;
      at += quote_.size();
      return State::more;
    }
    if (!is_python_ && match_quote(text.substr(at)) == Match::more) return State::more;
    return read_word(text, at);
  }
  Match match_quote(std::string_view text) const {
    const std::string& quote = context_.format.quote;
    if (text.starts_with(quote)) return Match::yes;
    return quote.starts_with(text) ? Match::more : Match::no;
  }

  // A key, a number, a constant; anything else is a string.
  State read_word(std::string_view text, size_t& at) {
    const size_t end = text.find_first_of(",:=}])", at);
    if (std::min(end, text.size()) - at > max_head_bytes) return State::failed;
    if (end == text.npos) return State::more;
    const std::string_view word = trimmed(text.substr(at, end - at));
    const bool is_key = text[end] == ':' || text[end] == '=';
    if (!put_value(is_key ? quoted_text(word) : value_as_json(word, any_type))) return State::failed;
    at = end;
    return State::more;
  }

  State read_string(std::string_view text, size_t& at) {
    if (is_python_) return read_python_string(text, at);
    const Found end = find_mark(text.substr(at), quote_);
    std::string json;
    append_escaped(json, text.substr(at, end.at));
    put(json);
    at += end.at;
    if (end.complete) end_string(at);
    return State::more;
  }
  void end_string(size_t& at) {
    put('"');
    at += quote_.size();
    in_string_ = false;
  }

  State read_python_string(std::string_view text, size_t& at) {
    std::string json;
    while (at < text.size() && text[at] != quote_[0]) {
      if (text[at] != '\\') {
        append_escaped(json, text.substr(at++, 1));
        continue;
      }
      const size_t size = at + 1 == text.size() ? 2 : text[at + 1] == 'u' ? 6 : text[at + 1] == 'x' ? 4 : 2;
      if (at + size > text.size()) break;
      append_escape(json, text.substr(at, size));
      at += size;
    }
    put(json);
    if (at < text.size() && text[at] == quote_[0]) end_string(at);
    return State::more;
  }
  static void append_escape(std::string& json, std::string_view escape) {
    const char c = escape[1];
    const bool is_code = escape.size() > 2 && escape.find_first_not_of("0123456789abcdefABCDEF", 2) == escape.npos;
    if (is_code)
      json.append(c == 'u' ? "\\u" : "\\u00").append(escape.substr(2));
    else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos)
      json += escape;
    else if (c == '\'')
      json += '\'';
    else if (c != '\n')  // an escaped line end continues the string
      append_escaped(json, escape);
  }

  CallContext context_;
  const bool is_python_;
  JsonScanner scanner_;
  std::string out_, open_, quote_;
  bool comma_ = false, in_string_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_literal_reader(const CallContext& context) {
  return std::make_unique<LiteralReader>(context);
}

}  // namespace heddle::chat
