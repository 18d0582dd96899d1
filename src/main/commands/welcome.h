// heddle alone: a story by the program's own model, and what to try next.
#pragma once
#include <iosfwd>

namespace heddle {

int welcome(std::ostream& out, std::ostream& err);  // the exit status

}  // namespace heddle
