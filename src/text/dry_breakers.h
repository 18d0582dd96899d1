// Texts that a repetition does not reach across (DRY), as the tokens that may spell them.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace heddle::text {

std::vector<std::string> default_dry_breakers();  // a newline, ":", "\"" and "*"

// The sequences of tokens a text may be spelt by: a token that holds all of it, or one that ends with its beginning and
// then the rest as it is encoded. Those of all texts, each once. No text may be empty.
std::vector<std::vector<TokenId>> dry_breaker_tokens(const std::vector<std::string>& texts, const Tokenizer& tokenizer);

}  // namespace heddle::text
