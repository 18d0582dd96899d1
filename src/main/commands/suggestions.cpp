// Options of other programs that have another name here are answered by name, all else by the least edit distance.
#include "main/commands/suggestions.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"
#include "main/models/named_model.h"

namespace heddle {
namespace {

// What people type who know other programs.
struct Foreign {
  std::vector<const char*> names;
  const char* option;  // the option here; empty: there is none
  const char* answer;  // then this
};
const std::vector<Foreign>& foreign_options() {
  static const std::vector<Foreign> all{
      {{"-m", "--model"}, "", "MODEL is given without an option: heddle run MODEL"},
      {{"-f", "--file"}, "", "a text is read from standard input: heddle run MODEL < FILE"},
      {{"-ngl", "--n-gpu-layers", "--gpu-layers"},
       "--device",
       "--device cuda:N runs the whole model on that GPU, --device cpu none of it"},
      {{"-c", "--ctx-size", "--n-ctx", "--context", "--max-model-len"}, "--ctx", ""},
      {{"--n-predict", "--max-tokens", "--max-new-tokens", "--num-predict"}, "--tokens", ""},
      {{"-t"}, "--threads", ""},
      {{"-s"}, "--seed", ""},
      {{"-sys", "--system-prompt"}, "--system", ""},
      {{"-ctk", "-ctv", "--cache-type-k", "--cache-type-v", "--kv-cache-dtype"}, "--kv", ""},
      {{"-hf", "--hf-repo"}, "", "MODEL is given without an option, and may be a name: heddle run org/repo:Q4_K_M"},
  };
  return all;
}

const CLI::App& deepest(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// "--ctx=5" -> "--ctx"; empty for what is no option.
std::string option_name(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && argument != "--" ? argument.substr(0, argument.find('=')) : "";
}

std::string explain_foreign(const CLI::App& command, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const std::string name = option_name(argument);
    if (name.empty() || command.get_option_no_throw(name)) continue;
    for (const Foreign& foreign : foreign_options()) {
      if (std::find(foreign.names.begin(), foreign.names.end(), name) == foreign.names.end()) continue;
      if (*foreign.option && !command.get_option_no_throw(foreign.option)) continue;
      return fmt::format("there is no option {}: {}", name,
                         *foreign.answer ? foreign.answer : fmt::format("did you mean {}?", foreign.option));
    }
  }
  return "";
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands({})) names.push_back(each->get_name());
  return names;
}

// Arguments that nothing took, in the order in which they were given.
std::string explain_left(const CLI::App& command, const std::vector<std::string>& left) {
  for (const std::string& argument : left)
    if (const std::string name = option_name(argument); !name.empty())
      return fmt::format("there is no option {}{}", name, did_you_mean(name, option_names(command)));
  const std::vector<std::string> commands = command_names(command);
  if (!commands.empty()) {
    const std::string suggestion = did_you_mean(left[0], commands);
    const bool names_model = suggestion.empty() && (left[0].ends_with(".gguf") || is_model(left[0]));
    return fmt::format("there is no command {}{}", in_quotes(left[0]),
                       names_model ? fmt::format("; did you mean heddle chat {}?", left[0]) : suggestion);
  }
  std::vector<std::string> quoted;
  for (const std::string& argument : left) quoted.push_back(in_quotes(argument));
  return fmt::format("expected no further argument, found {}", fmt::join(quoted, " "));
}

// What the value names of options stand for.
std::string kind_of_value(const std::string& type) {
  if (type == "N") return "a number";
  if (type == "N,N,...") return "numbers separated by commas";
  if (type == "MS") return "a number of milliseconds";
  if (type == "S") return "a number of seconds";
  if (type == "MB") return "a number of megabytes";
  return type;
}

}  // namespace

std::string unknown_kernel(std::string_view name, const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(name, known);
  return fmt::format("no kernel is called {}{}", name,
                     meant.empty() ? fmt::format("; there are {}", fmt::join(known, ", ")) : meant);
}

std::string command_named(const CLI::App& program) {
  std::string name;
  for (const CLI::App* command = &deepest(program); command; command = command->get_parent())
    name = command->get_name() + (name.empty() ? "" : " ") + name;
  return name;
}

std::string explain_value(const CLI::ParseError& error, const CLI::App& command) {
  const std::string text = error.what(), begin = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (!text.starts_with(begin) || equals == text.npos) return text;
  const std::string name = text.substr(begin.size(), equals - begin.size());
  const CLI::Option* option = command.get_option_no_throw(name);
  if (!option) return text;
  return fmt::format("{}: expected {}, found {}", name, kind_of_value(option->get_type_name()),
                     in_quotes(text.substr(equals + 3)));
}

std::string explain_mistake(const CLI::ParseError& error, const CLI::App& program,
                            const std::vector<std::string>& arguments) {
  const CLI::App& command = deepest(program);
  if (const std::string foreign = explain_foreign(command, arguments); !foreign.empty()) return foreign;
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return explain_left(command, program.remaining(true));
  return explain_value(error, command);
}

}  // namespace heddle
