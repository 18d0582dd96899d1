// Sequence breakers of DRY sampling: texts that no repetition reaches across, as sequences of tokens.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace heddle::text {

std::vector<std::string> default_dry_breakers();  // a newline, ":", "\"" and "*"

// The token sequences in which the texts may occur: a token that contains the text, or one that ends with a prefix of
// it followed by the tokens of the rest. Each sequence once. No text may be empty. Goes through the whole vocabulary.
std::vector<std::vector<TokenId>> dry_breaker_tokens(const std::vector<std::string>& texts, const Tokenizer& tokenizer);

}  // namespace heddle::text
