// The command line as data, read from its parser: the manual pages and the completions of shells say what the help
// says.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

// An option, or an argument without a name of that kind.
struct OptionDescription {
  std::vector<std::string> names;  // "-p", "--prompt"; of an argument the one that the help shows, "MODEL"
  std::string value;               // what follows it, "N"; "[N]": may follow; empty: nothing
  std::string text;                // one or more sentences, the default not among them
  std::string text_with_default;
  std::string group;  // the heading it stands under
  bool required = false;
  bool repeatable = false;           // of an argument
  std::vector<std::string> choices;  // the values, where the text names all of them
};

struct CommandDescription {
  std::vector<std::string> path;  // "heddle", "bench", "client"
  std::string text;
  std::string usage;   // "heddle bench client [OPTIONS] URL"
  std::string footer;  // what the help has after its options
  std::vector<OptionDescription> arguments, options;
  std::vector<CommandDescription> commands;
};

// The command with all below it. What the help hides is not there.
CommandDescription describe_command(const CLI::App& command);

// "N" of "--port N", with the brackets where it may be left out; empty for a flag.
std::string value_name(const CLI::Option& option);
// "Port to listen on; 0: any free one [8080]"
std::string text_with_default(const CLI::Option& option);

}  // namespace heddle
