#include "grammar/json_text.h"

#include "grammar/code_points.h"
#include "grammar/numbers.h"

namespace heddle::grammar {

JsonText::JsonText(Languages& all)
    : space(all.repeat(all.bytes(Bytes().set(' ').set('\n').set('\r').set('\t')), 0, 64)),
      any_char(written(all, CodePoints::all(), Writing::json_string)) {}

Language JsonText::sign(Languages& all, std::string_view mark, bool space_before, bool space_after) const {
  return all.sequence(
      std::vector{space_before ? space : Languages::empty, all.text(mark), space_after ? space : Languages::empty});
}

Language JsonText::quoted(Languages& all, Language inside) const {
  const Language mark = all.text("\"");
  return all.sequence(std::vector{mark, inside, mark});
}

std::vector<Language> JsonText::terminals(Languages& all) const {
  const Language string = quoted(all, all.repeat(any_char, 0)), number = numbers(all, {}),
                 whole = numbers(all, {.whole = true}), null = all.text("null"),
                 boolean = all.any_of({all.text("true"), all.text("false")});
  std::vector<Language> found{string, number, whole, boolean, null};
  for (Language scalar : {string, number, whole, boolean}) found.push_back(all.any_of({scalar, null}));
  found.push_back(all.any_of({string, number}));
  found.push_back(all.any_of({string, whole}));
  found.push_back(all.any_of({null, boolean, number, string}));
  for (const char* mark : {"{", "}", "[", "]", ",", ":"})
    for (const bool before : {false, true})
      for (const bool after : {false, true}) found.push_back(sign(all, mark, before, after));
  return found;
}

}  // namespace heddle::grammar
