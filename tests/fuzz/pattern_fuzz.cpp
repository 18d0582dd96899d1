// Any bytes as a regular expression: a grammar or refused, and texts parsed with it.
#include "grammar/regex.h"
#include "tests/fuzz/grammar_input.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(pattern) { return heddle::fuzz::try_grammar(data, size, heddle::grammar::regex); }
