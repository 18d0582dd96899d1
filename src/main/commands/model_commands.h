// The options of the commands that run a model: run, logits, perplexity.
#pragma once
#include <iosfwd>

namespace CLI {
class App;
}

namespace heddle {

// Adds the commands to `program`; they run while it parses, and set the exit status if it is not 0.
void describe_models(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status);

}  // namespace heddle
