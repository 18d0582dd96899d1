// Text that a grammar forces: nothing else can follow, so no model needs to be asked for it.
#pragma once
#include <functional>
#include <string>

#include "grammar/token_masks.h"

namespace heddle::grammar {

// The bytes that must follow: as long as exactly one can, and the text may not end. Not more than `max_bytes`.
std::string forced(const Position& at, size_t max_bytes = 512);

// The tokens of a text by the model's own tokenizer, without any that stand for the beginning or end of a text.
using Tokenize = std::function<std::vector<uint32_t>(std::string_view text)>;

// Tokens of the forced text, such as the tokenizer would give to the whole text, of which the end is not known yet. So
// a token is left out if one that is allowed begins in it and goes beyond the forced text, and if the tokenizer, given
// a character that may follow, splits the text differently. `before` is what precedes the forced text, as much of it as
// the tokenizer may look at; a token that begins in it and ends behind it is no longer possible, and then none is
// given.
std::vector<uint32_t> forced_tokens(const Position& at, const Vocabulary& vocabulary, const Tokenize& tokenize,
                                    std::string_view before, size_t max_bytes = 512);

}  // namespace heddle::grammar
