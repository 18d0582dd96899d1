// Any bytes as GBNF: a grammar or refused, and texts parsed with it.
#include "grammar/gbnf.h"
#include "tests/fuzz/grammar_input.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(gbnf) { return heddle::fuzz::try_grammar(data, size, heddle::grammar::gbnf); }
