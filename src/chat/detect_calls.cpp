// From texts with one and two calls of known names and values to the marks around them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/detect.h"
#include "chat/json_scanner.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

using Json = nlohmann::ordered_json;
using Kind = CallFormat::Kind;

size_t common_prefix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.begin(), a.begin() + ptrdiff_t(std::min(a.size(), b.size())), b.begin()).first -
                a.begin());
}
size_t common_suffix(std::string_view a, std::string_view b) {
  size_t size = 0;
  while (size < a.size() && size < b.size() && a[a.size() - 1 - size] == b[b.size() - 1 - size]) ++size;
  return size;
}
std::string text_of(std::string_view text) { return std::string(text); }

// Where the JSON value that begins at `at` ends; npos if it does not.
size_t json_end(std::string_view text, size_t at) {
  JsonScanner scanner;
  for (size_t i = at; i < text.size(); ++i) {
    if (!scanner.take(text[i])) return text.npos;
    if (scanner.done()) return i + 1;
  }
  return text.npos;
}

// The first call in a sample: what it shows of the format, and where it stands. The marks of sections and calls follow
// from two of these.
struct FirstCall {
  CallFormat format;
  size_t begin, end;
};

// {"name": ..., "arguments": ...} around both.
std::optional<FirstCall> object_call(std::string_view text, size_t name, size_t arguments_end) {
  for (size_t at = text.rfind('{', name); at != text.npos; at = at ? text.rfind('{', at - 1) : text.npos) {
    const size_t end = json_end(text, at);
    if (end == text.npos || end < arguments_end) continue;
    const Json json = Json::parse(text.substr(at, end - at), nullptr, false);
    if (!json.is_object()) continue;
    FirstCall call{{.kind = Kind::object}, at, end};
    bool has_name = false, has_arguments = false;
    for (const auto& [key, value] : json.items()) {
      if (value == SampleCall::name) {
        call.format.name_key = key;
        has_name = true;
      }
      if (value.is_object() && value.contains(SampleCall::key)) {
        has_arguments = true;
        if (key == SampleCall::name)
          has_name = call.format.name_is_key = true;
        else
          call.format.arguments_key = key;
      }
    }
    if (has_name && has_arguments) return call;
  }
  return std::nullopt;
}

// Behind the name: an id, or the number of the call.
void read_name_end(std::string_view between, CallFormat& format) {
  if (const size_t id = between.find(SampleCall::id); id != between.npos) {
    format.name_end = between.substr(0, id);
    format.after = CallFormat::Slot::id;
    between.remove_prefix(id + SampleCall::id.size());
  } else if (between.starts_with(":0")) {
    format.name_end = ":";
    format.after = CallFormat::Slot::index;
    between.remove_prefix(2);
  }
  format.arguments_begin = between;
}

std::optional<FirstCall> call_with_json(std::string_view text, size_t name, size_t key) {
  const size_t brace = text.rfind('{', key);
  const size_t end = brace == text.npos ? text.npos : json_end(text, brace);
  if (end == text.npos) return std::nullopt;
  if (auto call = object_call(text, name, end)) return call;
  const size_t name_end = name + SampleCall::name.size();
  if (brace < name_end) return std::nullopt;
  FirstCall call{{.kind = Kind::json}, name, end};
  read_name_end(text.substr(name_end, brace - name_end), call.format);
  return call;
}

// What stands between the names and values of a call without JSON.
struct Gaps {
  std::string_view arguments_begin, key_end, value_end, other_key_end, rest;
  size_t after;  // the last value
};
std::optional<Gaps> find_gaps(std::string_view text, size_t name) {
  Gaps gaps{};
  size_t at = name + SampleCall::name.size();
  const auto gap = [&](std::string_view next, std::string_view& before) {
    const size_t found = text.find(next, at);
    if (found == text.npos) return false;
    before = text.substr(at, found - at);
    at = found + next.size();
    return true;
  };
  if (!gap(SampleCall::key, gaps.arguments_begin) || !gap(SampleCall::value, gaps.key_end) ||
      !gap(SampleCall::other_key, gaps.value_end) || !gap(SampleCall::other_value, gaps.other_key_end))
    return std::nullopt;
  gaps.rest = text.substr(at);
  gaps.after = at;
  return gaps;
}

std::optional<FirstCall> call_with_literals(std::string_view text, size_t name, const Gaps& gaps) {
  FirstCall call{{}, name, 0};
  if (gaps.arguments_begin == "(" && gaps.key_end == "=\"" && gaps.other_key_end == "=") {
    call.format.kind = Kind::python;
    call.end = text.find(')', gaps.after);
  } else if (gaps.arguments_begin == "{" && gaps.key_end.starts_with(':') && gaps.other_key_end == ":") {
    call.format.kind = Kind::quoted;
    call.format.quote = gaps.key_end.substr(1);
    call.end = text.find('}', gaps.after);
  }
  if (call.format.kind == Kind::none || call.end == text.npos) return std::nullopt;
  ++call.end;
  return call;
}

std::optional<FirstCall> call_with_tags(size_t name, const Gaps& gaps) {
  CallFormat format{.kind = Kind::tags};
  const size_t same = common_suffix(gaps.arguments_begin, gaps.value_end);
  const std::string_view suffix = gaps.value_end.substr(gaps.value_end.size() - same);
  const size_t open = suffix.rfind('<');
  if (open == suffix.npos) return std::nullopt;
  format.key_begin = suffix.substr(open);
  format.arguments_begin = gaps.arguments_begin.substr(0, gaps.arguments_begin.size() - format.key_begin.size());
  format.value_end = gaps.value_end.substr(0, gaps.value_end.size() - format.key_begin.size());
  if (gaps.key_end == gaps.other_key_end) {
    const size_t value = gaps.key_end.rfind('<');
    const bool has_tag = value != gaps.key_end.npos && value > 0;
    format.key_end = gaps.key_end.substr(0, has_tag ? value : gaps.key_end.size());
    if (has_tag) format.value_begin = gaps.key_end.substr(value);
  } else {  // the tag says whether the value is a string
    const size_t quote = gaps.key_end.find('"');
    if (quote == gaps.key_end.npos || gaps.key_end.find("true") == gaps.key_end.npos ||
        gaps.other_key_end.find("false") == gaps.other_key_end.npos)
      return std::nullopt;
    format.key_end = gaps.key_end.substr(0, quote + 1);
    format.value_begin = gaps.key_end.substr(quote + 1);
    format.other_value_begin = gaps.other_key_end.substr(quote + 1);
  }
  // the last value may be followed by less white space
  size_t end = 0;
  if (gaps.rest.starts_with(format.value_end))
    end = format.value_end.size();
  else if (match_loosely(gaps.rest, format.value_end, end) != Match::yes)
    return std::nullopt;
  return FirstCall{std::move(format), name, gaps.after + end};
}

std::optional<FirstCall> find_call(std::string_view text) {
  const size_t name = text.find(SampleCall::name);
  if (name == text.npos) return std::nullopt;
  const std::string key = '"' + text_of(SampleCall::key) + '"';
  if (const size_t at = text.find(key); at != text.npos) {
    const size_t colon = skip_space(text, at + key.size());
    if (colon < text.size() && text[colon] == ':') return call_with_json(text, name, at);
  }
  const auto gaps = find_gaps(text, name);
  if (!gaps) return std::nullopt;
  if (auto call = call_with_literals(text, name, *gaps)) return call;
  return call_with_tags(name, *gaps);
}

bool opens_mark(char c) { return c == '<' || c == '['; }

// The marks from before the first call (section_begin begin), from between two (end between begin), and from behind the
// last (end section_end). A mark begins and ends with a whole tag.
void set_marks(std::string_view before, std::string_view middle, std::string_view behind, CallFormat& format) {
  std::string_view begin = middle.substr(middle.size() - common_suffix(before, middle));
  if (begin.size() < before.size() && begin.size() < middle.size())
    while (!begin.empty() && !opens_mark(begin.front())) begin.remove_prefix(1);
  format.begin = begin;
  format.section_begin = before.substr(0, before.size() - begin.size());
  middle.remove_suffix(begin.size());
  std::string_view end = middle.substr(0, common_prefix(middle, behind));
  if (end.size() < middle.size() && end.size() < behind.size()) end = end.substr(0, end.rfind('>') + 1);
  format.end = end;
  format.between = middle.substr(end.size());
  format.section_end = behind.substr(end.size());
  // one tag ends it; others belong to what follows the message
  if (const size_t close = format.section_end.find('>'); close != std::string::npos)
    format.section_end.erase(close + 1);
  if (trimmed(format.section_begin).empty()) {  // what follows the calls ends the turn, and what is before is no mark
    if (const std::string token = text_of(trimmed(format.section_end)); !token.empty()) format.end_tokens = {token};
    format.section_begin.clear();
    format.section_end.clear();
    if (trimmed(format.between).empty()) format.between.clear();
  }
}

void split_marks(CallFormat& format) {
  if (format.kind == Kind::tags) {
    // of two tags before the name, models leave out the first
    const size_t inner = format.begin.rfind('<');
    if (inner != format.begin.npos && !trimmed(std::string_view(format.begin).substr(0, inner)).empty())
      format.other_begin = format.begin.substr(inner);
    const size_t close = format.end.find('>');
    if (close == format.end.npos) return;
    format.arguments_end = format.end.substr(0, close + 1);
    format.end.erase(0, close + 1);
  }
  if (const size_t id = format.begin.find(SampleCall::id); format.kind == Kind::json && id != format.begin.npos) {
    format.before = CallFormat::Slot::id;
    format.name_begin = format.begin.substr(id + SampleCall::id.size());
    format.begin.erase(id);
  }
}

}  // namespace

std::optional<CallFormat> format_of_samples(const CallSamples& samples) {
  const auto first = find_call(samples.one);
  if (!first) return std::nullopt;
  CallFormat format = first->format;
  const std::string_view one = samples.one;
  const std::string_view before = one.substr(0, first->begin), behind = one.substr(first->end);
  if (samples.two.empty()) {
    format.begin = before;
    format.end = behind;
    format.one_call = true;
  } else {
    const auto in_two = find_call(samples.two);
    if (!in_two) return std::nullopt;
    const std::string_view rest = std::string_view(samples.two).substr(in_two->end);
    const auto second = find_call(rest);
    if (!second) return std::nullopt;
    set_marks(before, rest.substr(0, second->begin), behind, format);
  }
  split_marks(format);
  return format;
}

}  // namespace heddle::chat
