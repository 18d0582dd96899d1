// heddle tokenize, detokenize and template: what a model sees of a text.
#pragma once
#include <iosfwd>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace CLI {
class App;
}

namespace heddle {

// Adds the commands to `program`; they run while it parses.
void describe_text(CLI::App& program, std::istream& in, std::ostream& out);

// Numbers between spaces, commas and brackets, as tokenize prints them. An Error names what is none.
void read_ids(std::string_view list, std::vector<text::TokenId>& ids);

}  // namespace heddle
