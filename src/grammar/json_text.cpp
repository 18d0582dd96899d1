#include "grammar/json_text.h"

#include <nlohmann/json.hpp>

#include "grammar/code_points.h"
#include "grammar/numbers.h"

namespace heddle::grammar {
namespace {
constexpr uint32_t max_indentation = 40;  // ten levels of four blanks
}

JsonText::JsonText(Languages& all)
    : any_char(written(all, CodePoints::all(), Writing::json_string)),
      no_point(all.repeat(all.bytes(Bytes().set().reset('.')), 0)),
      blank_(all.repeat(all.text(" "), 0, 1)) {
  const Language indentation = all.repeat(all.bytes(Bytes().set(' ').set('\t')), 0, max_indentation);
  gap_ = all.any_of({blank_, all.sequence(all.text("\n"), indentation)});
}

Language JsonText::sign(Languages& all, char mark) const {
  const Language text = all.text({&mark, 1});
  if (mark == '}' || mark == ']') return all.sequence(gap_, text);
  return all.sequence(text, mark == ':' ? blank_ : gap_);
}

Language JsonText::quoted(Languages& all, Language inside) const {
  const Language mark = all.text("\"");
  return all.sequence(std::vector{mark, inside, mark});
}

std::string JsonText::plain(std::string_view text) {
  const std::string all = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return all.substr(1, all.size() - 2);
}

std::vector<Language> JsonText::terminals(Languages& all) const {
  const Language string = quoted(all, all.repeat(any_char, 0)), number = numbers(all, {}),
                 whole = numbers(all, {.whole = true}), null = all.text("null"),
                 boolean = all.any_of({all.text("true"), all.text("false")});
  const Language whole4 = all.all_of({whole, no_point});
  std::vector<Language> found{string, number, whole, whole4, boolean, null};
  for (Language scalar : {string, number, whole, whole4, boolean}) found.push_back(all.any_of({scalar, null}));
  found.push_back(all.any_of({string, number}));
  found.push_back(all.any_of({string, whole}));
  found.push_back(all.any_of({null, boolean, number, string}));
  for (const char mark : {'{', '}', '[', ']', ',', ':'}) found.push_back(sign(all, mark));
  for (const char* empty : {"}", "]"}) found.push_back(all.text(empty));
  return found;
}

}  // namespace heddle::grammar
