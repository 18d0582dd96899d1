// Everything goes through the parser of the command line, so that there is one list of names and one way to parse them.
#include "main/chat/settings.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "main/commands/suggestions.h"

namespace heddle {
namespace {

std::string setting_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

// The options of AnswerOptions alone.
struct Parser {
  CLI::App app;
  explicit Parser(AnswerOptions& into) {
    app.set_help_flag();
    describe_answers(app, into);
  }
  CLI::Option* find(const std::string& name) { return app.get_option_no_throw("--" + name); }
  // The current value of the variable behind an option.
  std::string value(const std::string& name) { return find(name)->capture_default_str()->get_default_str(); }
};

}  // namespace

void describe_answers(CLI::App& command, AnswerOptions& options) {
  command.add_option("--system", options.system, "System message")->type_name("TEXT");
  command.add_option("-n,--tokens", options.tokens, "Maximum tokens of an answer; 0: no limit")->type_name("N");
  command.add_flag("--parse-special", options.parse_special, "Control tokens may be written in messages")
      ->default_function([&options] { return std::string(options.parse_special ? "true" : "false"); });
  describe_constraint(command, options.constraint);
  describe_sampling(command, options.sampling);
}

ChatSettings::ChatSettings(const CLI::App& command) {
  for (const std::string& name : names()) {
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    check(option != nullptr, "the command has every setting");
    if (option->count() > 0) given_[name] = option->results();
  }
  parse();
}

void ChatSettings::parse() {
  values_ = {};
  Parser parser(values_);
  std::vector<std::string> arguments;
  for (const auto& [name, texts] : given_)
    for (const std::string& text : texts) arguments.push_back(fmt::format("--{}={}", name, text));
  try {
    parser.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    throw Error("{}", explain_value(error, parser.app));
  }
}

ChatSettings ChatSettings::with(const std::string& name, const std::string& value) const {
  AnswerOptions any;
  Parser parser(any);
  const CLI::Option* option = parser.find(name);
  if (!option || name.empty())
    throw Error("there is no setting {}; there are {}{}", in_quotes(name), fmt::join(names(), ", "),
                did_you_mean(name, names()));
  ChatSettings changed = *this;
  const bool list = option->get_expected_max() > 1 && option->get_delimiter() == '\0';
  if (!list || value.empty()) changed.given_.erase(name);
  if (!value.empty()) changed.given_[name].push_back(value);
  changed.parse();
  return changed;
}

std::vector<std::pair<std::string, std::string>> ChatSettings::changed() const {
  AnswerOptions defaults, values = values_;
  Parser of_defaults(defaults), of_values(values);
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& name : names()) {
    const std::string value = of_values.value(name);
    if (value != of_defaults.value(name)) result.emplace_back(name, value);
  }
  return result;
}

std::vector<std::string> ChatSettings::names() {
  AnswerOptions any;
  Parser parser(any);
  std::vector<std::string> result;
  for (const CLI::Option* option : parser.app.get_options()) result.push_back(setting_name(*option));
  return result;
}

}  // namespace heddle
