// What to answer when a name, an option or a command is not known: what was probably meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "main/commands/nearest.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace heddle {

std::string unknown_kernel(std::string_view name, const std::vector<std::string>& known);

// Why `arguments` were not understood, and what would be: in one line. `program` has parsed them and thrown `error`.
std::string explain_mistake(const CLI::ParseError& error, const CLI::App& program,
                            const std::vector<std::string>& arguments);
// The deepest command that was named: "heddle ptx show".
std::string command_named(const CLI::App& program);
// A value that an option could not be given, in the words of this program: "--temp: expected a number, found "hot"".
std::string explain_value(const CLI::ParseError& error, const CLI::App& command);

}  // namespace heddle
