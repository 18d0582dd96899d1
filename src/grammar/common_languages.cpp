// The languages that grammars of JSON have in common.
#include "grammar/json_text.h"

namespace heddle::grammar {

const Languages& Languages::common() {
  static const Languages all = [] {
    Languages l(nullptr);
    JsonText(l).terminals(l);
    l.complete();
    return l;
  }();
  return all;
}

}  // namespace heddle::grammar
