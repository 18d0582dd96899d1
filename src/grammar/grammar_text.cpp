#include "grammar/grammar_text.h"

#include "grammar/gbnf.h"
#include "grammar/lark.h"

namespace heddle::grammar {

Symbol add_grammar_text(Grammar& grammar, std::string_view text) {
  return text.find("::=") != std::string_view::npos ? add_gbnf(grammar, text) : add_lark(grammar, text);
}

Grammar grammar_text(std::string_view text) { return grammar_of(add_grammar_text, text); }

}  // namespace heddle::grammar
