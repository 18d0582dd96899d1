#include "main/commands/command_description.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace heddle {
namespace {

// "One of F32, F16 [F16]" and "auto (as they are), or one of F32, F16": the words after "one of", and one before it.
std::vector<std::string> choices_of(const std::string& text) {
  const std::string mark = "ne of ";
  const size_t at = text.find(mark);
  if (at == text.npos || at == 0 || (text[at - 1] != 'o' && text[at - 1] != 'O')) return {};
  std::vector<std::string> choices;
  if (at > 1) choices.push_back(text.substr(0, text.find_first_of(" ,")));
  for (std::string choice : CLI::detail::split(text.substr(at + mark.size()), ',')) {
    CLI::detail::trim(choice);
    if (choice.empty() || choice[0] == '-' || choice.find(' ') != choice.npos) return {};  // a sentence, not a list
    choices.push_back(choice);
  }
  return choices;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription result{.value = value_name(option),
                           .text = option.get_description(),
                           .text_with_default = text_with_default(option),
                           .group = option.get_group(),
                           .required = option.get_required(),
                           .choices = choices_of(option.get_description())};
  if (option.get_positional()) {
    result.names = {option.get_name(true)};
    result.repeatable = option.get_expected_max() > 1;
  } else {
    for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  }
  return result;
}

CommandDescription describe_command_below(const CLI::App& command, std::vector<std::string> path) {
  path.push_back(command.get_name());
  CommandDescription result{.path = path, .text = command.get_description(), .footer = command.get_footer()};
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(command.get_formatter());
  check(formatter != nullptr, "the command line has a formatter of another kind");
  result.usage = formatter->make_usage(&command, fmt::format("{}", fmt::join(path, " ")));
  result.usage = result.usage.substr(result.usage.find(": ") + 2);
  CLI::detail::rtrim(result.usage);
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      (option->get_positional() ? result.arguments : result.options).push_back(describe_option(*option));
  for (const CLI::App* each : command.get_subcommands({}))
    if (!each->get_group().empty()) result.commands.push_back(describe_command_below(*each, path));
  return result;
}

}  // namespace

CommandDescription describe_command(const CLI::App& command) { return describe_command_below(command, {}); }

std::string value_name(const CLI::Option& option) {
  std::string type = option.get_type_name();
  type = type.substr(0, type.find(":POSITIVE"));  // the name of a check behind that of the value
  return option.get_type_size() != 0 ? type : "";
}

std::string text_with_default(const CLI::Option& option) {
  std::string shown = option.get_type_size() != 0 ? option.get_default_str() : "";
  if (shown.starts_with('[') && shown.ends_with(']')) shown = shown.substr(1, shown.size() - 2);  // a list
  return option.get_description() + (shown.empty() ? "" : fmt::format(" [{}]", shown));
}

}  // namespace heddle
