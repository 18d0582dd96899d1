// The languages that grammars of JSON have in common.
#include "grammar/code_points.h"
#include "grammar/json_text.h"
#include "grammar/numbers.h"

namespace heddle::grammar {

const Languages& Languages::common() {
  static const Languages all = [] {
    Languages l(nullptr);
    const JsonText json(l);
    const Language string = json.quoted(l, l.repeat(json.any_char, 0)), number = numbers(l, {}),
                   whole = numbers(l, {.whole = true}), null = l.text("null"),
                   boolean = l.any_of({l.text("true"), l.text("false")});
    l.any_of({null, boolean, number, string});
    for (Language scalar : {string, number, whole, boolean}) l.any_of({scalar, null});
    l.any_of({string, number});
    l.any_of({string, whole});
    for (const char* mark : {"{", "}", "[", "]", ",", ":"})
      for (const bool before : {false, true})
        for (const bool after : {false, true}) json.sign(l, mark, before, after);
    l.complete();
    return l;
  }();
  return all;
}

}  // namespace heddle::grammar
