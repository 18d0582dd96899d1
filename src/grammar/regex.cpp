#include "grammar/regex.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/pattern.h"

namespace heddle::grammar {

namespace {

Language text_then(Languages& all, std::string_view text, Language rest) {
  for (size_t i = text.size(); i-- > 0;) rest = all.sequence(all.bytes(Bytes().set(uint8_t(text[i]))), rest);
  return rest;
}

// Sorted texts without their first `skip` bytes, by what they have in common: a union of thousands would be slow at
// every byte. Each level takes a text away or splits the list, so it is never deeper than there are texts, and few fit
// into a million bytes that differ in length.
Language one_of(Languages& all, std::span<const std::string> sorted, size_t skip) {
  const std::string &first = sorted.front(), &last = sorted.back();
  size_t common = skip;
  while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
  const std::string_view shared = std::string_view(first).substr(skip, common - skip);
  if (sorted.size() == 1) return text_then(all, shared, Languages::empty);
  std::vector<Language> ways;
  for (size_t begin = 0; begin < sorted.size();) {
    if (sorted[begin].size() == common) {
      ways.push_back(Languages::empty);
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < sorted.size() && sorted[end][common] == sorted[begin][common]) ++end;
    ways.push_back(one_of(all, sorted.subspan(begin, end - begin), common));
    begin = end;
  }
  return text_then(all, shared, all.any_of(std::move(ways)));
}

}  // namespace

Symbol add_regex(Grammar& grammar, std::string_view pattern) {
  const Language language = whole_pattern(grammar.languages, pattern, Writing::utf8);
  if (grammar.languages.is_nothing(language)) throw Error("no text matches the pattern {}", in_quotes(pattern, 200));
  return grammar.symbol_of(language);
}

Symbol add_choices(Grammar& grammar, std::span<const std::string> texts) {
  if (texts.empty()) throw Error("expected at least one choice");
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (bytes > 1'000'000) throw Error("the choices have {} bytes; at most 1000000 are read", bytes);
  std::vector<std::string> sorted(texts.begin(), texts.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return grammar.symbol_of(one_of(grammar.languages, sorted, 0));
}

Grammar regex(std::string_view pattern) { return grammar_of(add_regex, pattern); }

Grammar choices(std::span<const std::string> texts) { return grammar_of(add_choices, texts); }

}  // namespace heddle::grammar
