// Tokens -> Ast.
#pragma once
#include <string_view>

#include "text/jinja/ast.h"

namespace heddle::text::jinja {

// Throws an Error with line and column. `max_depth` bounds the nesting of tags and of expressions.
Ast parse(std::string_view source, uint32_t max_depth);

}  // namespace heddle::text::jinja
