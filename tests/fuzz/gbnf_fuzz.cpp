// Any bytes as GBNF: a grammar or refused, and texts parsed with it.
#include "grammar/gbnf.h"
#include "tests/fuzz/grammar_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return heddle::fuzz::try_grammar(data, size, heddle::grammar::gbnf);
}
