#include "grammar/json_text.h"

#include "grammar/code_points.h"

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

}  // namespace heddle::grammar
