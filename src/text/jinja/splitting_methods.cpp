// Methods of str that take a text apart or put one together.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/machine.h"
#include "text/jinja/unicode.h"

namespace heddle::text::jinja {

std::string replace_text(Machine& machine, std::string_view text, std::string_view from, std::string_view to,
                         int64_t limit) {
  machine.sandbox.search(text, from);
  std::string out;
  if (limit < 0) limit = INT64_MAX;
  size_t at = 0;
  if (from.empty()) {  // before every character, and at the end
    for (; limit > 0; --limit) {
      machine.sandbox.append(out, to);
      if (at >= text.size()) return out;
      const size_t bytes = code_point_at(text, at).bytes;
      machine.sandbox.append(out, text.substr(at, bytes));
      at += bytes;
    }
  }
  for (; limit > 0; --limit) {
    const size_t found = text.find(from, at);
    if (found == text.npos) break;
    machine.sandbox.append(out, text.substr(at, found - at));
    machine.sandbox.append(out, to);
    at = found + from.size();
  }
  machine.sandbox.append(out, text.substr(std::min(at, text.size())));
  return out;
}

namespace {

using Parts = std::vector<std::string_view>;

Value to_list(Machine& machine, const Args& args, const Parts& parts) {
  machine.sandbox.items(3 * parts.size());
  machine.sandbox.bytes(args.self.text().size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(string_value(std::string(part), args.self.str().markup));
  return machine.sandbox.list(std::move(items));
}

Parts split_at(std::string_view text, std::string_view separator, int64_t limit) {
  Parts parts;
  size_t at = 0;
  for (; limit != 0; --limit) {
    const size_t found = text.find(separator, at);
    if (found == text.npos) break;
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}
Parts split_at_from_right(std::string_view text, std::string_view separator, int64_t limit) {
  Parts parts;
  size_t end = text.size();
  for (; limit != 0 && end >= separator.size(); --limit) {
    const size_t found = text.rfind(separator, end - separator.size());
    if (found == text.npos) break;
    parts.push_back(text.substr(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  parts.push_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// Words between white space; what is left after `limit` of them is one more.
Parts split_words(std::string_view text, int64_t limit) {
  Parts parts;
  for (text = strip(text, true, false); !text.empty(); text = strip(text, true, false)) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint point = code_point_at(text, end);
      if (is_space(point.value)) break;
      end += point.bytes;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}
Parts split_words_from_right(std::string_view text, int64_t limit) {
  Parts parts;
  for (text = strip(text, false, true); !text.empty(); text = strip(text, false, true)) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      size_t before = start - 1;
      while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0u) == 0x80u) --before;
      if (is_space(code_point_at(text, before).value)) break;
      start = before;
    }
    parts.push_back(text.substr(start));
    text = text.substr(0, start);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Value split(Machine& machine, Args& args) {
  const int64_t limit = args.has(1) ? integer_argument(args[1], "split()") : -1;
  const std::string_view text = args.self.text();
  if (!args.has(0) || args[0].is(Kind::none))
    return to_list(machine, args, from_right ? split_words_from_right(text, limit) : split_words(text, limit));
  const std::string& separator = string_argument(args[0], "split()").text();
  if (separator.empty()) throw Error("split() by an empty text");
  machine.sandbox.search(text, separator);
  return to_list(machine, args,
                 from_right ? split_at_from_right(text, separator, limit) : split_at(text, separator, limit));
}

template <bool from_right>
Value partition(Machine& machine, Args& args) {
  const std::string_view text = args.self.text();
  const std::string& separator = string_argument(args[0], "partition()").text();
  if (separator.empty()) throw Error("partition() by an empty text");
  machine.sandbox.search(text, separator);
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  Parts parts = {text, "", ""};
  if (at != text.npos)
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  else if (from_right)
    std::swap(parts[0], parts[2]);
  return machine.sandbox.tuple(to_list(machine, args, parts).items());
}

Value join(Machine& machine, Args& args) {
  const bool markup = args.self.str().markup;
  std::string out;
  Walk walk(machine, args[0]);
  bool first = true;
  for (Value item; walk.next(item); first = false) {
    if (!item.is(Kind::string)) throw Error("join() needs strings, found {}", type_name(item));
    if (!first) machine.sandbox.append(out, args.self.text());
    machine.sandbox.step();
    machine.sandbox.append(out, markup && !item.str().markup ? escape_markup(item.text()) : item.text());
  }
  return string_value(std::move(out), markup);
}

Value replace(Machine& machine, Args& args) {
  const std::string& from = string_argument(args[0], "replace()").text();
  const Value& to = string_argument(args[1], "replace()");
  const int64_t limit = args.has(2) ? integer_argument(args[2], "replace()") : -1;
  const bool markup = args.self.str().markup;
  const std::string escaped = markup && !to.str().markup ? escape_markup(to.text()) : to.text();
  return string_value(replace_text(machine, args.self.text(), from, escaped, limit), markup);
}

constexpr Function splitting_table[] = {
    {"split", "sep maxsplit", split<false>},
    {"rsplit", "sep maxsplit", split<true>},
    {"splitlines", "keepends",
     [](Machine& machine, Args& args) { return to_list(machine, args, split_lines(args.self.text(), args.flag(0))); }},
    {"partition", "/sep!", partition<false>},
    {"rpartition", "/sep!", partition<true>},
    {"join", "/iterable!", join},
    {"replace", "/old! new! count", replace},
};

}  // namespace

std::span<const Function> splitting_methods() { return splitting_table; }

}  // namespace heddle::text::jinja
