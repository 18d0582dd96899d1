// Scalars as regular languages: numbers, and strings in any escape form.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/code_points.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

Language SchemaWriter::scalars(const Shape& s) {
  Languages& l = g_.languages;
  std::vector<Language> all;
  auto add = [&](uint32_t type, const SchemaJson& v) {
    const auto is_it = [&](const SchemaJson* one) { return *one == v; };
    if (s.types & type && std::ranges::none_of(s.excluded, is_it)) all.push_back(l.text(v.dump()));
  };
  add(null_type, nullptr);
  add(boolean_type, true);
  add(boolean_type, false);
  if (s.types & number_type) all.push_back(number_language(s));
  if (s.types & string_type) all.push_back(quoted(string_language(s)));
  return l.any_of(std::move(all));
}

Language SchemaWriter::numbers_at(const NumberLimits& limits, const std::string& pointer) {
  try {
    return numbers(g_.languages, limits);
  } catch (const Error& e) {
    refuse_schema(pointer, e.what());
  }
}

Language SchemaWriter::number_language(const Shape& s) {
  Languages& l = g_.languages;
  std::vector<Language> without;
  for (const NumberLimits& limits : s.not_numbers) without.push_back(numbers_at(limits, s.pointer));
  for (const SchemaJson* one : s.excluded)
    if (one->is_number()) {
      const Decimal d(one->dump());
      without.push_back(numbers(l, {.least = d, .most = d}));
    }
  NumberLimits limits = s.numbers;
  // numbers with exponents are not in the languages that are left out
  limits.plain = !without.empty() || !s.more_numbers.empty();
  std::vector<Language> all{numbers_at(limits, s.pointer)};
  for (const NumberLimits& more : s.more_numbers) all.push_back(numbers_at(more, s.pointer));
  if (!without.empty()) all.push_back(l.without(l.any_of(std::move(without))));
  if (s.numbers.whole && is_draft4_) all.push_back(json_.no_point);
  return l.all_of(std::move(all));
}

Language SchemaWriter::string_language(const Shape& s) {
  Languages& l = g_.languages;
  if (s.min_length > s.max_length) return Languages::nothing;
  std::vector<Language> all = s.strings;
  std::vector<std::string> without;
  for (const SchemaJson* one : s.excluded)
    if (one->is_string()) without.push_back(one->get<std::string>());
  if (!without.empty()) all.push_back(l.without(texts_inside(std::move(without), Form::every)));
  all.push_back(l.repeat(json_.any_char, s.min_length, s.max_length));
  return l.all_of(std::move(all));
}

Language SchemaWriter::names_of(const Literals& all) {
  std::vector<Language> names;
  for (const Shape& s : shapes_of(all)) {
    if (!s.constants) {
      if (s.types & string_type) names.push_back(string_language(s));
      continue;
    }
    std::vector<std::string> values;
    for (const SchemaJson* one : *s.constants)
      if (one->is_string() && is_valid(*one, all)) values.push_back(one->get<std::string>());
    names.push_back(texts_inside(std::move(values), Form::every));
  }
  return g_.languages.any_of(std::move(names));
}

bool SchemaWriter::contains_name(Language names, const std::string& name) {
  return g_.languages.contains(names, JsonText::plain(name));
}

Language SchemaWriter::quoted(Language inside) { return json_.quoted(g_.languages, inside); }

Language SchemaWriter::text_inside(std::string_view value, Form form) {
  if (form == Form::plain) return g_.languages.text(JsonText::plain(value));
  std::vector<Language> parts;
  for (size_t i = 0; i < value.size();) {
    const CodePoint c = code_point_at(value, i);
    auto [found, is_new] = letters_.try_emplace(c.value, Languages::nothing);
    if (is_new) found->second = written(g_.languages, {{c.value, c.value}}, Writing::json_string);
    parts.push_back(found->second);
    i += c.bytes;
  }
  return g_.languages.sequence(parts);
}

// By their beginnings, so that only those go on together that have begun alike.
Language SchemaWriter::texts_inside(std::vector<std::string> values, Form form) {
  std::ranges::sort(values);
  Languages& l = g_.languages;
  auto group = [&](auto&& self, size_t first, size_t last, size_t at, int depth) -> Language {
    if (last - first == 1 || depth == 100) {
      std::vector<Language> all;
      for (size_t i = first; i < last; ++i) all.push_back(text_inside(std::string_view(values[i]).substr(at), form));
      return l.any_of(std::move(all));
    }
    std::vector<Language> ways;
    for (size_t i = first; i < last;) {
      if (values[i].size() == at) {
        ways.push_back(Languages::empty);
        ++i;
        continue;
      }
      const size_t bytes = std::min<size_t>(code_point_at(values[i], at).bytes, values[i].size() - at);
      const std::string letter = values[i].substr(at, bytes);
      size_t end = i + 1;
      while (end < last && values[end].compare(at, bytes, letter) == 0) ++end;
      ways.push_back(l.sequence(text_inside(letter, form), self(self, i, end, at + bytes, depth + 1)));
      i = end;
    }
    return l.any_of(std::move(ways));
  };
  return values.empty() ? Languages::nothing : group(group, 0, values.size(), 0, 0);
}

Language SchemaWriter::constant_language(const SchemaJson& v) {
  if (v.is_string()) return quoted(text_inside(v.get<std::string>(), Form::plain));
  if (!v.is_number()) return g_.languages.text(v.dump());
  const Decimal d(v.dump());
  const Language number = numbers(g_.languages, {.least = d, .most = d});
  return is_draft4_ && d.is_whole() ? g_.languages.all_of({number, json_.no_point}) : number;
}

}  // namespace heddle::grammar
