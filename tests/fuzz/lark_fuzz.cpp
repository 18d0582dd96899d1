// Any bytes as a grammar in Lark's notation: a grammar or refused, and texts parsed with it.
#include "grammar/lark.h"
#include "tests/fuzz/grammar_input.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(lark) { return heddle::fuzz::try_grammar(data, size, heddle::grammar::lark); }
