// Completions for shells, written from the description of the command line. Each script finds out which command a line
// is about, as a path such as "/bench/client", and offers its commands, options and arguments. The names of models are
// those that `heddle models --names` prints when they are asked for.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"
#include "base/version.h"
#include "main/commands/command_description.h"
#include "main/commands/commands.h"

namespace heddle {
namespace {

enum class Offer { nothing, words, files, folders, models };

// What can be offered for a value: its name says what it is.
Offer offered(const OptionDescription& option) {
  if (!option.choices.empty()) return Offer::words;
  const std::string& name = option.value.empty() ? option.names[0] : option.value;
  if (name == "MODEL") return Offer::models;
  if (name == "FOLDER") return Offer::folders;
  if (name == "F" || name == "FILE" || name == "IN" || name.starts_with("F.") || name.starts_with("OUT"))
    return Offer::files;
  return Offer::nothing;
}

bool takes_value(const OptionDescription& option) { return !option.value.empty() && !option.value.starts_with('['); }

std::string path_text(const CommandDescription& command) {  // "/bench/client"; empty: the program
  std::string text;
  for (size_t i = 1; i < command.path.size(); ++i) text += "/" + command.path[i];
  return text;
}

void for_each_command(const CommandDescription& command, const std::function<void(const CommandDescription&)>& call) {
  call(command);
  for (const CommandDescription& each : command.commands) for_each_command(each, call);
}

std::string replaced(const std::string& text, std::string_view characters, const char* format) {
  std::string result;
  for (char c : text)
    result += characters.find(c) == characters.npos ? std::string(1, c) : fmt::format(fmt::runtime(format), c);
  return result;
}

// Paths of all commands below the program, as the alternatives of a `case`.
std::string all_paths(const CommandDescription& program, const char* between) {
  std::vector<std::string> paths;
  for_each_command(program, [&](const CommandDescription& command) {
    if (command.path.size() > 1) paths.push_back(path_text(command));
  });
  return fmt::format("{}", fmt::join(paths, between));
}

std::vector<std::string> names_below(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& each : command.commands) names.push_back(each.path.back());
  if (command.path.size() == 1) names.push_back("help");
  return names;
}

std::string help_text(const CommandDescription& program) {  // of `heddle help`
  for (const OptionDescription& option : program.options)
    if (option.names.back() == "--help") return option.text;
  return "";
}

// --- bash -----------------------------------------------------------------------------------------------------------

// "words='a b' files=f models=": what `compgen -W` and `compgen -f` or `-d` are given, and whether models are offered.
std::string bash_offer(const OptionDescription& option) {
  switch (offered(option)) {
    case Offer::words:
      return fmt::format("words='{}' files= models=", fmt::join(option.choices, " "));
    case Offer::files:
      return "words= files=f models=";
    case Offer::folders:
      return "words= files=d models=";
    case Offer::models:
      return "words=weft files=f models=1";
    case Offer::nothing:
      break;
  }
  return "words= files= models=";
}

void write_bash(const CommandDescription& program, std::ostream& out) {
  out << fmt::format(R"(# Completion of heddle {} for bash, written by `heddle completion bash`
_heddle() {{
  local word before command= options= words= files= models= name i last
  local -a typed
  for ((i = 0; i <= COMP_CWORD; i++)); do # bash cuts name:tag into three words
    if ((i > 1)) && [[ ${{COMP_WORDS[i]}} == :* || ${{COMP_WORDS[i - 1]}} == : ]]; then
      typed[last]+=${{COMP_WORDS[i]}}
    else
      typed+=("${{COMP_WORDS[i]}}")
      last=$((${{#typed[@]}} - 1))
    fi
  done
  word=${{typed[last]}} before=${{typed[last - 1]}}
  if [[ $word == = ]]; then # --port=
    word=
  elif [[ $before == = ]]; then # --port=80
    before=${{typed[last - 2]}}
  fi
  for ((i = 1; i < last; i++)); do
    case $command/${{typed[i]}} in
      /help) ;;
      {}) command+=/${{typed[i]}} ;;
    esac
  done
  case $command in
)",
                     version, all_paths(program, " | "));
  for_each_command(program, [&](const CommandDescription& command) {
    std::vector<std::string> words = names_below(command), options;
    std::string files, models, values;
    for (const OptionDescription& argument : command.arguments) {
      words.insert(words.end(), argument.choices.begin(), argument.choices.end());
      const Offer offer = offered(argument);
      if (offer == Offer::models) {
        words.push_back("weft");
        models = "1";
      }
      if (offer == Offer::models || offer == Offer::files) files = "f";
      if (offer == Offer::folders && files.empty()) files = "d";
    }
    for (const OptionDescription& option : command.options) {
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (takes_value(option))
        values += fmt::format("        {}) options= {} ;;\n", fmt::join(option.names, " | "), bash_offer(option));
    }
    out << fmt::format("    '{}')\n      options='{}' words='{}' files={} models={}\n", path_text(command),
                       fmt::join(options, " "), fmt::join(words, " "), files, models);
    if (!values.empty()) out << "      case $before in\n" << values << "      esac\n";
    out << "      ;;\n";
  });
  out << R"(  esac
  [[ $word == -* && $options ]] && words=$options files= models=
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ $models ]]; then # not by compgen -W, which expands what it is given
    while IFS= read -r name; do
      [[ $name == "$word"* && $name != weft ]] && COMPREPLY+=("$name")
    done < <("${COMP_WORDS[0]}" models --names 2>/dev/null)
  fi
  if [[ $files ]]; then
    ((${#COMPREPLY[@]})) || compopt -o filenames 2>/dev/null # it would put a backslash before the colon of a name
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "-$files" -- "$word")
  fi
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then # what stands before the last colon is there already
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
  fi
}
complete -F _heddle heddle
)";
}

// --- zsh ------------------------------------------------------------------------------------------------------------

std::string zsh_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\{}'") + "'"; }
std::string zsh_text(const std::string& text) { return replaced(text, "[]:\\", "\\{}"); }

std::string zsh_offer(const OptionDescription& option) {
  switch (offered(option)) {
    case Offer::words:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case Offer::files:
      return "_files";
    case Offer::folders:
      return "_files -/";
    case Offer::models:
      return "_heddle_any_model";
    case Offer::nothing:
      break;
  }
  return " ";
}

std::string zsh_function(const CommandDescription& command) {
  return "_" + replaced(fmt::format("{}", fmt::join(command.path, "_")), "-", "_");
}

// The arguments of `_arguments`, each in quotes.
std::vector<std::string> zsh_specs(const CommandDescription& command) {
  std::vector<std::string> specs;
  for (const OptionDescription& option : command.options)
    for (const std::string& name : option.names) {
      const bool value = !option.value.empty(), is_long = name.starts_with("--");
      std::string spec = fmt::format("*{}{}[{}]", name, !value ? "" : is_long ? "=" : "+", zsh_text(option.text));
      if (value)
        spec += fmt::format("{}{}:{}", takes_value(option) ? ":" : "::", zsh_text(option.value), zsh_offer(option));
      specs.push_back(zsh_quoted(spec));
    }
  if (!command.commands.empty()) {
    specs.push_back("'1: :->first'");
    specs.push_back("'*::: :->rest'");
    return specs;
  }
  size_t position = 0;
  for (const OptionDescription& argument : command.arguments) {
    const std::string place = argument.repeatable ? "*" : std::to_string(++position);
    specs.push_back(zsh_quoted(fmt::format("{}:{}{}:{}", place, argument.required || argument.repeatable ? "" : ":",
                                           zsh_text(argument.names[0]), zsh_offer(argument))));
  }
  return specs;
}

void write_zsh(const CommandDescription& program, std::ostream& out) {
  out << fmt::format(R"(#compdef heddle
# Completion of heddle {} for zsh, written by `heddle completion zsh`
_heddle_any_model() {{
  local -aU models
  models=(weft "${{(@f)$(_call_program models $heddle_program models --names 2>/dev/null)}}")
  models=(${{models:#}})
  _alternative 'models:model:compadd -a models' 'files:file:_files'
}}
)",
                     version);
  for_each_command(program, [&](const CommandDescription& command) {
    const std::string specs = fmt::format("{}", fmt::join(zsh_specs(command), " \\\n    "));
    if (command.commands.empty()) {
      out << fmt::format("{}() {{\n  _arguments \\\n    {}\n}}\n", zsh_function(command), specs);
      return;
    }
    std::string described, cases, first;
    // the words change on the way down
    const char* program_word = command.path.size() == 1 ? "  local heddle_program=$words[1]\n" : "";
    for (const CommandDescription& each : command.commands) {
      described += "        " + zsh_quoted(each.path.back() + ":" + replaced(each.text, ":\\", "\\{}")) + "\n";
      cases += fmt::format("        {}) {} && found=0 ;;\n", each.path.back(), zsh_function(each));
    }
    if (command.path.size() == 1) {
      described += "        " + zsh_quoted("help:" + help_text(program)) + "\n";
      cases += fmt::format("        help) {} && found=0 ;;\n", zsh_function(command));
    }
    for (const OptionDescription& argument : command.arguments)
      if (offered(argument) == Offer::models) first = "      _heddle_any_model && found=0\n";
    out << fmt::format(R"({}() {{
{}  local curcontext=$curcontext state line found=1
  local -A opt_args
  local -a commands
  _arguments -C \
    {} && found=0
  case $state in
    first)
      commands=(
{}      )
      _describe -t commands command commands && found=0
{}      ;;
    rest)
      words=("$line[1]" "${{words[@]}}")
      ((CURRENT += 1))
      case $line[1] in
{}      esac
      ;;
  esac
  return found
}}
)",
                       zsh_function(command), program_word, specs, described, first, cases);
  });
  out << R"(if [[ $funcstack[1] == _heddle ]]; then
  _heddle "$@"
else
  compdef _heddle heddle
fi
)";
}

// --- fish -----------------------------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) { return "'" + replaced(text, "'\\", "\\{}") + "'"; }

std::string fish_offer(const OptionDescription& option) {
  switch (offered(option)) {
    case Offer::words:
      return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
    case Offer::files:
      return " -r -F";
    case Offer::folders:
      return " -x -a '(__fish_complete_directories)'";
    case Offer::models:
      return " -r -F -a '(__heddle_models)'";
    case Offer::nothing:
      break;
  }
  return " -x";
}

void write_fish(const CommandDescription& program, std::ostream& out) {
  out << fmt::format(R"(# Completion of heddle {} for fish, written by `heddle completion fish`
function __heddle_at
    set -l command ''
    for word in (commandline -opc)[2..-1]
        switch "$command/$word"
            case {}
                set command "$command/$word"
        end
    end
    test "$command" = "$argv[1]"
end
function __heddle_models
    set -l program (commandline -opc)[1]
    echo weft
    type -q -- $program; or return
    $program models --names 2>/dev/null | string match -v weft
end
complete -c heddle -f
)",
                     version, all_paths(program, " "));
  for_each_command(program, [&](const CommandDescription& command) {
    const std::string begin = fmt::format("complete -c heddle -n \"__heddle_at '{}'\"", path_text(command));
    for (const CommandDescription& each : command.commands)
      out << fmt::format("{} -a {} -d {}\n", begin, each.path.back(), fish_quoted(each.text));
    if (command.path.size() == 1) out << fmt::format("{} -a help -d {}\n", begin, fish_quoted(help_text(program)));
    for (const OptionDescription& argument : command.arguments) {
      const Offer offer = offered(argument);
      if (offer == Offer::words) out << fmt::format("{} -a '{}'\n", begin, fmt::join(argument.choices, " "));
      if (offer == Offer::models) out << begin << " -F -a '(__heddle_models)'\n";
      if (offer == Offer::files) out << begin << " -F\n";
      if (offer == Offer::folders) out << begin << " -a '(__fish_complete_directories)'\n";
    }
    for (const OptionDescription& option : command.options) {
      out << begin;
      for (const std::string& name : option.names)
        out << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      out << (takes_value(option) ? fish_offer(option) : "") << " -d " << fish_quoted(option.text) << '\n';
    }
  });
}

}  // namespace

void describe_completion(CLI::App& program, std::ostream& out) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("SHELL", *shell, "One of bash, zsh, fish")->type_name("")->required();
  command->footer(
      "To try it in this shell: source <(heddle completion bash), or heddle completion fish | source. An installed "
      "heddle\n"
      "has its scripts where the shells look for them.");
  command->callback([shell, &program, &out] {
    const CommandDescription all = describe_command(program);
    if (*shell == "bash")
      write_bash(all, out);
    else if (*shell == "zsh")
      write_zsh(all, out);
    else if (*shell == "fish")
      write_fish(all, out);
    else
      throw Error("SHELL: expected bash, zsh or fish, found {}", in_quotes(*shell));
  });
}

}  // namespace heddle
