// Methods of str: those that examine or change a text (positions count code points), then those that take one
// apart or put one together.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

const std::string& text_of(const Args& args) { return args.self.text(); }
// A part of the text, which `part` points into.
Value part_alike(const Args& args, std::string_view part) {
  return part_of(args.self.str(), size_t(part.data() - args.self.text().data()), part.size());
}
// A string of the same type: Markup of Markup.
Value alike(Machine& machine, const Args& args, std::string text) {
  return machine.sandbox.string(std::move(text), args.self.str().markup);
}

template <std::string (*change)(std::string_view)>
Value changed(Machine& machine, Args& args) {
  machine.sandbox.bytes(text_of(args).size());
  std::string text = change(text_of(args));
  if (args.self.str().all_own()) return own_string(std::move(text), args.self.str().markup);
  return alike(machine, args, std::move(text));
}

template <bool (*is)(char32_t)>
Value all_are(Machine& machine, Args& args) {
  machine.sandbox.bytes(text_of(args).size());
  const std::u32string points = decode(text_of(args));
  return !points.empty() && std::all_of(points.begin(), points.end(), is);
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }

template <bool (*right)(char32_t), bool (*wrong)(char32_t)>
Value has_case(Machine&, Args& args) {
  bool any = false;
  for (const char32_t c : decode(text_of(args))) {
    if (wrong(c) || is_title(c)) return false;
    any = any || right(c);
  }
  return any;
}

Value is_titled(Machine&, Args& args) {
  bool inside = false, any = false;
  for (const char32_t c : decode(text_of(args))) {
    const bool big = is_upper(c) || is_title(c);
    if (big ? inside : is_lower(c) && !inside) return false;
    inside = big || is_lower(c);
    any = any || inside;
  }
  return any;
}

// The slice of the text between two positions, and where it begins in bytes and code points.
struct Slice {
  std::string_view text;
  size_t byte = 0;
  int64_t start = 0;
  bool exists = true;  // start is not beyond the end
};
Slice slice_of(const Args& args, const Value& from, const Value& to) {
  const auto length = int64_t(args.self.str().length);
  const auto bound = [&](const Value& value, int64_t standard) {
    if (!value.given() || value.is(Kind::none)) return standard;
    const int64_t at = integer_argument(value, "a position");
    return at < 0 ? std::max<int64_t>(at < -length ? 0 : at + length, 0) : at;
  };
  const int64_t start = bound(from, 0), stop = std::min(bound(to, length), length);
  if (start > length) return {{}, 0, start, false};
  const std::string_view text = text_of(args);
  const size_t byte = byte_of(text, size_t(start));
  const std::string_view rest = text.substr(byte);
  return {rest.substr(0, byte_of(rest, size_t(std::max<int64_t>(stop - start, 0)))), byte, start, start <= stop};
}

template <bool from_right>
int64_t find_in_text(Machine& machine, Args& args, std::string_view name) {
  const std::string& what = string_argument(args[0], name).text();
  machine.sandbox.bytes(text_of(args).size());
  machine.sandbox.search(text_of(args), what);
  const Slice slice = slice_of(args, args[1], args[2]);
  const size_t at = !slice.exists ? slice.text.npos : from_right ? slice.text.rfind(what) : slice.text.find(what);
  if (at == slice.text.npos) return -1;
  return slice.start + int64_t(Str(std::string(slice.text.substr(0, at))).length);
}
template <bool from_right>
Value find(Machine& machine, Args& args) {
  return find_in_text<from_right>(machine, args, "find()");
}
template <bool from_right>
Value index_in_text(Machine& machine, Args& args) {
  const int64_t at = find_in_text<from_right>(machine, args, "index()");
  if (at < 0) throw Error("index(): the text is not found");
  return at;
}

Value count_in_text(Machine& machine, Args& args) {
  const std::string& what = string_argument(args[0], "count()").text();
  machine.sandbox.bytes(text_of(args).size());
  machine.sandbox.search(text_of(args), what);
  const Slice slice = slice_of(args, args[1], args[2]);
  if (!slice.exists) return 0;
  if (what.empty()) return int64_t(Str(std::string(slice.text)).length) + 1;
  int64_t found = 0;
  for (size_t at = slice.text.find(what); at != slice.text.npos; at = slice.text.find(what, at + what.size())) ++found;
  return found;
}

template <bool at_end>
Value has_affix(Machine&, Args& args) {
  const Slice slice = slice_of(args, args[1], args[2]);
  const auto matches = [&](const Value& affix) {
    const std::string& text = string_argument(affix, at_end ? "endswith()" : "startswith()").text();
    if (!slice.exists) return false;
    return at_end ? slice.text.ends_with(text) : slice.text.starts_with(text);
  };
  if (!args[0].is(Kind::tuple)) return matches(args[0]);
  return std::any_of(args[0].items().begin(), args[0].items().end(), matches);
}

template <bool left, bool right>
Value stripped(Machine& machine, Args& args) {
  machine.sandbox.bytes(text_of(args).size());
  if (!args.has(0) || args[0].is(Kind::none)) return part_alike(args, strip(text_of(args), left, right));
  const std::u32string points = decode(text_of(args)), chars = decode(string_argument(args[0], "strip()").text());
  machine.sandbox.step(points.size() * chars.size() / 64);
  size_t first = 0, last = points.size();
  const auto removed = [&](size_t at) { return chars.find(points[at]) != chars.npos; };
  while (left && first < last && removed(first)) ++first;
  while (right && last > first && removed(last - 1)) --last;
  const size_t begin = byte_of(text_of(args), first);
  return part_of(args.self.str(), begin, byte_of(text_of(args), last) - begin);
}

template <bool at_end>
Value without_affix(Machine&, Args& args) {
  std::string_view text = text_of(args);
  const std::string& affix = string_argument(args[0], at_end ? "removesuffix()" : "removeprefix()").text();
  if (at_end ? text.ends_with(affix) : text.starts_with(affix))
    text = at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  return part_alike(args, text);
}

enum class Side : uint8_t { left, right, both };
template <Side pads>
Value padded(Machine& machine, Args& args) {
  const int64_t width = integer_argument(args[0], "a width"), length = int64_t(args.self.str().length);
  const std::string fill = args.has(1) ? string_argument(args[1], "the fill character").text() : " ";
  if (Str(fill).length != 1) throw Error("the fill character must be one character");
  const int64_t missing = std::max<int64_t>(width - length, 0);
  machine.sandbox.bytes(text_of(args).size() + size_t(missing));
  machine.sandbox.bytes(text_of(args).size() + size_t(missing) * fill.size());
  const int64_t centred = missing / 2 + (missing & width & 1);
  const int64_t left = pads == Side::left ? missing : pads == Side::right ? 0 : centred;
  Text out;
  for (int64_t i = 0; i < left; ++i) out.text += fill;
  machine.sandbox.append(out, args.self.str());
  for (int64_t i = left; i < missing; ++i) out.text += fill;
  return machine.sandbox.string(std::move(out), args.self.str().markup);
}

Value zero_filled(Machine& machine, Args& args) {
  const int64_t missing = integer_argument(args[0], "zfill()") - int64_t(args.self.str().length);
  if (missing <= 0) return args.self;
  machine.sandbox.bytes(text_of(args).size() + size_t(missing));
  const std::string& text = text_of(args);
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  return alike(machine, args, text.substr(0, sign) + std::string(size_t(missing), '0') + text.substr(sign));
}

Value expand_tabs(Machine& machine, Args& args) {
  const int64_t size = args.has(0) ? integer_argument(args[0], "expandtabs()") : 8;
  machine.sandbox.items(size > 0 ? size_t(size) : 0);
  std::string out;
  int64_t column = 0;
  for (const char32_t c : decode(text_of(args))) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      machine.sandbox.append(out, std::string(size_t(spaces), ' '));
      column += spaces;
      continue;
    }
    append_utf8(out, c);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return alike(machine, args, std::move(out));
}

Value is_identifier(Machine&, Args& args) {
  const std::u32string points = decode(text_of(args));
  bool valid = !points.empty() && !is_decimal(points[0]);
  for (const char32_t c : points) valid = valid && (c == '_' || is_alpha(c) || is_decimal(c));
  return valid;
}

Value refused_method(Machine&, Args&) {
  throw Error("this method of str is not in heddle: it has no use in a chat template");
}

constexpr Function string_table[] = {
    {"capitalize", "/", changed<capitalize>},
    {"casefold", "/", changed<case_fold>},
    {"lower", "/", changed<lower>},
    {"swapcase", "/", changed<swap_case>},
    {"title", "/", changed<title>},
    {"upper", "/", changed<upper>},
    {"center", "/width! fillchar", padded<Side::both>},
    {"ljust", "/width! fillchar", padded<Side::right>},
    {"rjust", "/width! fillchar", padded<Side::left>},
    {"zfill", "/width!", zero_filled},
    {"expandtabs", "tabsize", expand_tabs},
    {"count", "/sub! start end", count_in_text},
    {"find", "/sub! start end", find<false>},
    {"rfind", "/sub! start end", find<true>},
    {"index", "/sub! start end", index_in_text<false>},
    {"rindex", "/sub! start end", index_in_text<true>},
    {"startswith", "/prefix! start end", has_affix<false>},
    {"endswith", "/suffix! start end", has_affix<true>},
    {"strip", "/chars", stripped<true, true>},
    {"lstrip", "/chars", stripped<true, false>},
    {"rstrip", "/chars", stripped<false, true>},
    {"removeprefix", "/prefix!", without_affix<false>},
    {"removesuffix", "/suffix!", without_affix<true>},
    {"format", "*", [](Machine& machine, Args& args) { return format_braces(machine, args.self, args); }},
    {"isalnum", "/", all_are<is_alnum>},
    {"isalpha", "/", all_are<is_alpha>},
    {"isascii", "/", [](Machine&, Args& args) { return Value(args.self.str().ascii()); }},
    {"isdecimal", "/", all_are<is_decimal>},
    {"isdigit", "/", all_are<is_digit>},
    {"isidentifier", "/", is_identifier},
    {"islower", "/", has_case<is_lower, is_upper>},
    {"isnumeric", "/", all_are<is_numeric>},
    {"isprintable", "/",
     [](Machine& machine, Args& args) {
       return Value(text_of(args).empty() || truth(all_are<is_printable>(machine, args)));
     }},
    {"isspace", "/", all_are<is_space>},
    {"istitle", "/", is_titled},
    {"isupper", "/", has_case<is_upper, is_lower>},
    {"encode", "*", refused_method},
    {"format_map", "*", refused_method},
    {"maketrans", "*", refused_method},
    {"translate", "*", refused_method},
};

}  // namespace

std::span<const Function> string_methods() { return string_table; }

Text replace_text(Machine& machine, const Str& str, std::string_view from, const Str& to, int64_t limit) {
  const std::string_view text = str.text;
  machine.sandbox.search(text, from);
  Text out;
  if (limit < 0) limit = INT64_MAX;
  size_t at = 0;
  if (from.empty()) {  // before every character, and at the end
    for (; limit > 0; --limit) {
      machine.sandbox.append(out, to);
      if (at >= text.size()) return out;
      const size_t bytes = code_point_at(text, at).bytes;
      machine.sandbox.append(out, str, at, bytes);
      at += bytes;
    }
  }
  for (; limit > 0; --limit) {
    const size_t found = text.find(from, at);
    if (found == text.npos) break;
    machine.sandbox.append(out, str, at, found - at);
    machine.sandbox.append(out, to);
    at = found + from.size();
  }
  machine.sandbox.append(out, str, std::min(at, text.size()));
  return out;
}

namespace {

using Parts = std::vector<std::string_view>;

Value to_list(Machine& machine, const Args& args, const Parts& parts) {
  machine.sandbox.items(3 * parts.size());
  machine.sandbox.bytes(args.self.text().size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(part_alike(args, part));
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
  Parts parts = {text, text.substr(0, 0), text.substr(0, 0)};
  if (at != text.npos)
    parts = {text.substr(0, at), text.substr(at, separator.size()), text.substr(at + separator.size())};
  else if (from_right)
    std::swap(parts[0], parts[2]);
  return machine.sandbox.tuple(to_list(machine, args, parts).items());
}

Value join(Machine& machine, Args& args) {
  const bool markup = args.self.str().markup;
  Text out;
  Walk walk(machine, args[0]);
  bool first = true;
  for (Value item; walk.next(item); first = false) {
    if (!item.is(Kind::string)) throw Error("join() needs strings, found {}", type_name(item));
    if (!first) machine.sandbox.append(out, args.self.str());
    machine.sandbox.step();
    if (markup && !item.str().markup)
      machine.sandbox.append(out, escape_markup(item.text()));
    else
      machine.sandbox.append(out, item.str());
  }
  return string_value(std::move(out), markup);
}

Value replace(Machine& machine, Args& args) {
  const std::string& from = string_argument(args[0], "replace()").text();
  const Value& to = string_argument(args[1], "replace()");
  const int64_t limit = args.has(2) ? integer_argument(args[2], "replace()") : -1;
  const bool markup = args.self.str().markup;
  const Value escaped = markup && !to.str().markup ? string_value(escape_markup(to.text())) : to;
  return string_value(replace_text(machine, args.self.str(), from, escaped.str(), limit), markup);
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
