// heddle tokenize, detokenize and template: what a model sees of a text.
#pragma once
#include <iosfwd>

namespace CLI {
class App;
}

namespace heddle {

// Adds the commands to `program`; they run while it parses.
void describe_text(CLI::App& program, std::istream& in, std::ostream& out);

}  // namespace heddle
