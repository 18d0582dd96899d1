// Calls with their arguments in JSON: behind a name, or as a member of an object that has the name too.
#include <algorithm>

#include "base/utf8.h"
#include "chat/call_reader.h"
#include "chat/json_scanner.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

using Json = nlohmann::ordered_json;

// The arguments as they come, up to the end of the value at `depth`. Control characters in strings, which JSON does not
// have, are escaped.
class ArgumentStream {
 public:
  explicit ArgumentStream(size_t depth = 0) : depth_(depth) {}
  JsonScanner scanner;

  CallReader::Result read(std::string_view text, EventSink& sink) {
    std::string out;
    size_t i = 0;
    CallReader::State state = CallReader::State::more;
    for (; i < text.size() && state == CallReader::State::more; ++i) {
      const bool in_string = scanner.in_string();
      if (!scanner.take(text[i])) {
        state = CallReader::State::failed;
        break;
      }
      if (in_string && uint8_t(text[i]) < 0x20)
        append_escaped(out, text.substr(i, 1));
      else
        out += text[i];
      if (scanner.depth() == depth_) state = CallReader::State::done;
    }
    sink.arguments(out);
    return {state, i};
  }

 private:
  size_t depth_;
};

class JsonReader : public CallReader {
 public:
  explicit JsonReader(const CallContext& context) : context_(context) {}

  Result read(std::string_view text, bool last, EventSink& sink) override {
    size_t taken = 0;
    if (!begun_) {
      taken = read_head(text, sink);
      if (!begun_) return {failed_ || last ? State::failed : State::more, 0};
    }
    Result result = arguments_.read(text.substr(taken), sink);
    result.taken += taken;
    if (last && result.state == State::more) result.state = State::failed;
    return result;
  }

 private:
  // Up to the brace that opens the arguments.
  size_t read_head(std::string_view text, EventSink& sink) {
    const CallFormat& format = context_.format;
    const std::string_view mark = trimmed(format.arguments_begin);
    size_t end = mark.empty() ? text.find('{') : text.find(mark);
    if (end == text.npos) {
      failed_ = text.size() > max_head_bytes + mark.size();
      return 0;
    }
    const size_t brace = skip_space(text, end + mark.size());
    if (brace == text.size()) return 0;
    std::string_view name = text.substr(0, end);
    if (const size_t at = name.find(format.name_begin); !format.name_begin.empty() && at != name.npos)
      name.remove_prefix(at + format.name_begin.size());
    if (const size_t at = name.find(format.name_end); !format.name_end.empty() && at != name.npos)
      name = name.substr(0, at);
    name = trimmed(name);
    if (text[brace] != '{' || end > max_head_bytes || !context_.accepts(name)) {
      failed_ = true;
      return 0;
    }
    begun_ = true;
    sink.begin(name);
    return brace;
  }

  CallContext context_;
  ArgumentStream arguments_;
  bool failed_ = false;
};

// Reads signs and strings of JSON with white space before them.
struct ObjectCursor {
  std::string_view text;
  size_t at = 0;

  Match sign(char c) {
    at = skip_space(text, at);
    if (at == text.size()) return Match::more;
    if (text[at] != c) return Match::no;
    ++at;
    return Match::yes;
  }
  // One without escapes.
  Match string(std::string_view& value) {
    if (const Match quote = sign('"'); quote != Match::yes) return quote;
    const size_t end = text.find_first_of("\"\\", at);
    if (std::min(end, text.size()) - at > max_head_bytes) return Match::no;
    if (end == text.npos) return Match::more;
    if (text[end] != '"') return Match::no;
    value = text.substr(at, end - at);
    at = end + 1;
    return Match::yes;
  }
};

class ObjectReader : public CallReader {
 public:
  explicit ObjectReader(const CallContext& context) : context_(context) {}

  Result read(std::string_view text, bool last, EventSink& sink) override {
    size_t taken = 0;
    if (!begun_ && !whole_) {
      const Match head = read_head(text, taken, sink);
      if (head == Match::more) return {last ? State::failed : State::more, 0};
      whole_ = head == Match::no;
    }
    if (whole_) return read_whole(text, last, sink);
    if (!has_arguments_) {
      Result result = arguments_.read(text.substr(taken), sink);
      taken += result.taken;
      has_arguments_ = result.state == State::done;
      if (!has_arguments_) return {last ? State::failed : result.state, taken};
    }
    while (taken < text.size() && !arguments_.scanner.done()) {  // members behind the arguments, such as an id
      if (!arguments_.scanner.take(text[taken])) return {State::done, taken};
      ++taken;
    }
    return {last || arguments_.scanner.done() ? State::done : State::more, taken};
  }

 private:
  // {"name": "NAME", "arguments": { up to the brace. No: another order, or no call.
  Match read_head(std::string_view text, size_t& taken, EventSink& sink) {
    const CallFormat& format = context_.format;
    ObjectCursor cursor{text};
    std::string_view key, name;
    Match m = cursor.sign('{');
    if (m == Match::yes) m = cursor.string(key);
    if (m == Match::yes) m = cursor.sign(':');
    if (format.name_is_key) {
      name = key;
    } else {
      if (m == Match::yes && key != format.name_key) m = Match::no;
      if (m == Match::yes) m = cursor.string(name);
      if (m == Match::yes) m = cursor.sign(',');
      if (m == Match::yes) m = cursor.string(key);
      if (m == Match::yes && key != format.arguments_key) m = Match::no;
      if (m == Match::yes) m = cursor.sign(':');
    }
    if (m == Match::yes) m = cursor.sign('{');
    if (m != Match::yes) return m;
    if (!context_.accepts(name)) return Match::no;
    begun_ = true;
    taken = cursor.at - 1;
    for (const char c : text.substr(0, taken)) arguments_.scanner.take(c);
    sink.begin(name);
    return Match::yes;
  }

  // Any object with a name and arguments, once it is complete.
  Result read_whole(std::string_view text, bool last, EventSink& sink) {
    for (; scanned_ < text.size() && !scanner_.done(); ++scanned_)
      if (!scanner_.take(text[scanned_])) return {State::failed, 0};
    if (!scanner_.done()) return {last ? State::failed : State::more, 0};
    const std::string_view object = text.substr(0, scanned_);
    Json json = Json::parse(object, nullptr, false);
    if (json.is_object() && json.contains("function") && json["function"].is_object()) json = Json(json["function"]);
    if (!json.is_object()) return {State::failed, 0};
    const Json* name = member(json, {context_.format.name_key, "name", "tool_name", "function"});
    const Json* arguments = member(json, {context_.format.arguments_key, "arguments", "parameters"});
    if (!name || !name->is_string() || !context_.accepts(name->get_ref<const std::string&>()))
      return {State::failed, 0};
    Json value = arguments ? *arguments : Json::object();
    if (value.is_string()) value = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
    if (value.is_null()) value = Json::object();
    if (!value.is_object()) return {State::failed, 0};
    begun_ = true;
    sink.begin(name->get_ref<const std::string&>());
    sink.arguments(value.dump());
    return {State::done, scanned_};
  }
  static const Json* member(const Json& object, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const auto found = object.find(std::string(name)); found != object.end()) return &*found;
    return nullptr;
  }

  CallContext context_;
  ArgumentStream arguments_{1};
  bool has_arguments_ = false, whole_ = false;
  JsonScanner scanner_;  // of the whole object
  size_t scanned_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> make_json_reader(const CallContext& context) {
  return std::make_unique<JsonReader>(context);
}
std::unique_ptr<CallReader> make_object_reader(const CallContext& context) {
  return std::make_unique<ObjectReader>(context);
}

}  // namespace heddle::chat
