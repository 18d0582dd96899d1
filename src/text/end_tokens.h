// Which tokens end a completion: those that a file names, and those that end it in every model that has them.
#pragma once
#include <initializer_list>
#include <optional>

#include "text/pipeline.h"

namespace heddle::text {

// Fills pipeline.end_tokens from pipeline.tokens and pipeline.ids. Tokens known by their text become control tokens.
// `untyped`: the file gives no token types.
void add_end_tokens(Pipeline& pipeline, bool untyped, std::initializer_list<std::optional<TokenId>> named);

}  // namespace heddle::text
