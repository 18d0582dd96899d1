// Which tokens end an answer: those a file names, and those that every model means so.
#pragma once
#include <initializer_list>
#include <optional>

#include "text/pipeline.h"

namespace heddle::text {

// Fills pipeline.ends; its tokens and ids are there already. Tokens known by their text become control tokens.
// `untyped`: the file says of no token what it is.
void add_ends(Pipeline& pipeline, bool untyped, std::initializer_list<std::optional<TokenId>> named);

}  // namespace heddle::text
