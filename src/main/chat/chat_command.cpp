// The loop (a message in, an answer out) and the table of commands.
#include "main/chat/chat_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "base/utf8.h"
#include "main/chat/input.h"
#include "main/commands/commands.h"
#include "main/commands/suggestions.h"

namespace heddle {
namespace {

constexpr std::string_view blanks = " \t\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::filesystem::path file_named(std::string_view text) {
  const std::string_view name = trimmed(text);
  if (name.empty()) throw Error("expected the name of a file, found none");
  const char* home = std::getenv("HOME");
  if (home && name.starts_with("~/")) return std::filesystem::path(home) / name.substr(2);
  return name;
}

void change_setting(ChatTalk& talk, std::string_view rest) {
  const size_t space = rest.find_first_of(blanks);
  if (trimmed(rest).empty()) return talk.show_settings();
  const std::string name(rest.substr(0, space));
  // a stop string may be blank: only other values are trimmed
  const std::string_view value = space == rest.npos ? "" : rest.substr(space + 1);
  talk.set(name, std::string(trimmed(value).empty() ? value : trimmed(value)));
}

void change_system(ChatTalk& talk, std::string_view rest) {
  if (trimmed(rest).empty()) return talk.show_system();
  talk.set("system", std::string(trimmed(rest)));
}

struct Command {
  std::vector<const char*> names;  // the first is the one that is shown
  const char *arguments, *help;
  void (*act)(ChatTalk& talk, std::string_view rest);  // rest: what follows the name and one blank

  bool is(std::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }
};

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {{"help", "?"}, "", "show this list", nullptr},
      {{"again", "regenerate"},
       "",
       "another answer to the last message",
       [](ChatTalk& talk, std::string_view) { talk.again(); }},
      {{"continue"}, "", "continue the last answer", [](ChatTalk& talk, std::string_view) { talk.go_on(); }},
      {{"undo"},
       "",
       "take back the last message and its answer",
       [](ChatTalk& talk, std::string_view) { talk.undo(); }},
      {{"drop"},
       "",
       "forget the oldest turns, to make room in the context",
       [](ChatTalk& talk, std::string_view) { talk.drop(); }},
      {{"reset", "clear"}, "", "begin anew; settings stay", [](ChatTalk& talk, std::string_view) { talk.reset(); }},
      {{"system"}, "[TEXT]", "show or set the system message", change_system},
      {{"set"},
       "[NAME [VALUE]]",
       "change a setting (temp 0.5); no value: its default; no name: list changes",
       change_setting},
      {{"save"},
       "FILE",
       "write the conversation as JSON",
       [](ChatTalk& talk, std::string_view rest) { talk.save(file_named(rest)); }},
      {{"load"},
       "FILE",
       "continue a saved conversation",
       [](ChatTalk& talk, std::string_view rest) { talk.load(file_named(rest)); }},
      {{"stats"},
       "",
       "speed of the last answer, and use of the context",
       [](ChatTalk& talk, std::string_view) { talk.show_stats(); }},
      {{"quit", "exit", "bye"}, "", "leave; so does Ctrl-D", nullptr},
  };
  return all;
}

void show_help(std::ostream& notices) {
  for (const Command& command : commands()) {
    std::string names;
    for (const char* name : command.names) names += fmt::format("{}/{}", names.empty() ? "" : ", ", name);
    notices << fmt::format("  {:22}{}\n", names + (*command.arguments ? " " : "") + command.arguments, command.help);
  }
  notices
      << "A line that ends with \\ continues on the next one, as does a text from \"\"\" to \"\"\". Alt-Enter breaks "
         "a\n"
         "line. Type // for a message that begins with /. Ctrl-C stops an answer.\n";
}

[[noreturn]] void refuse_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands())
    for (const char* each : command.names) names.push_back(fmt::format("/{}", each));
  throw Error(
      "there is no command /{}{} /help lists them; //{} is sent to the model with one slash", name,
      fmt::format(
          "{}", nearest(fmt::format("/{}", name), names).empty() ? ":" : did_you_mean(fmt::format("/{}", name), names)),
      name);
}

// Until the user leaves or the input ends. False: something was refused.
bool converse(ChatTalk& talk, LineSource& lines, const ChatOutput& output, bool stats, std::ostream& err) {
  bool fine = true;
  while (output.answers.good()) {
    try {
      const Input input = read_message(lines);
      if (input.kind == Line::Kind::end) break;
      if (input.kind == Line::Kind::interrupted) {
        if (input.text.empty()) output.notices << "(Ctrl-D or /quit leaves)" << std::endl;
        continue;
      }
      const size_t answers = talk.answers();
      if (!handle(talk, input, output.notices)) break;
      if (stats && talk.answers() != answers) err << figures(*talk.last()) << std::endl;
    } catch (const Error& error) {
      fine = false;
      output.answers << std::flush;
      const std::string line = fmt::format("heddle: {}", error.what());
      err << (output.terminal() && ::isatty(STDERR_FILENO) ? wrapped(line, output.width()) : line) << std::endl;
    }
    output.answers << (output.terminal() ? "\n" : "") << std::flush;
  }
  return fine;
}

size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

void describe_chat(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* command = program.add_subcommand("chat", "Chat with a model");
  describe_model(*command, options->model);
  command->add_flag("--no-history", options->no_history, "Do not keep messages for the next chat");
  command->add_flag("--stats", options->stats, "Print the speed after every answer");
  describe_answers(*command, options->answers);
  describe_device(*command, options->device);
  describe_draft(*command, options->device);
  describe_ranks(*command, options->device.ranks);
  command->callback([options, command, &in, &out, &err, &status] {
    status = run_chat(*options, ChatSettings(*command), in, out, err);
  });
}

int run_chat(const ChatOptions& options, const ChatSettings& settings, std::istream& in, std::ostream& out,
             std::ostream& err) {
  if (follows(options.device)) return follow_ranks(options.model, options.device, err);
  const auto running = open_running(options.model, options.device, &err);
  const bool typed = &in == &std::cin && ::isatty(STDIN_FILENO), shown = &out == &std::cout && ::isatty(STDOUT_FILENO);
  const bool edited = typed && shown && LineEditor::possible();
  const ChatOutput output{
      .answers = out, .notices = shown ? out : err, .width = shown ? terminal_width : nullptr, .styled = edited};
  ChatTalk talk(*running, settings, output);
  const std::string backend = running->backend->describe();
  output.notices << fmt::format("{}, context of {} tokens, {}\n", running->model.name, running->model.context,
                                backend.substr(0, backend.find(" (")))
                 << "/help for commands, Ctrl-D to leave" << std::endl;
  if (edited) {
    LineEditor lines(options.no_history ? std::filesystem::path() : chat_history_path(), completions);
    converse(talk, lines, output, options.stats, err);
    if (!lines.complaint().empty()) err << "heddle: " << lines.complaint() << '\n';
    return 0;
  }
  // a terminal without cursor movements still shows a prompt
  StreamLines lines(in, typed ? &output.notices : nullptr);
  return converse(talk, lines, output, options.stats, err) || typed ? 0 : 1;
}

bool handle(ChatTalk& talk, const Input& input, std::ostream& notices) {
  const std::string& text = input.text;
  if (trimmed(text).empty()) return true;
  if (input.quoted || !text.starts_with('/')) {
    talk.say(text);
    return true;
  }
  if (text.starts_with("//")) {
    talk.say(text.substr(1));
    return true;
  }
  const size_t end = text.find_first_of(blanks);
  const std::string_view name = std::string_view(text).substr(1, end - 1),
                         rest = end == text.npos ? "" : std::string_view(text).substr(end + 1);
  const auto command =
      std::find_if(commands().begin(), commands().end(), [&](const Command& each) { return each.is(name); });
  if (command == commands().end()) refuse_command(name);
  if (!*command->arguments && !trimmed(rest).empty())
    throw Error("/{}: expected nothing after it, found {}", name, in_quotes(trimmed(rest)));
  if (command->is("quit")) return false;
  if (command->is("help"))
    show_help(notices);
  else
    command->act(talk, rest);
  return true;
}

std::vector<std::string> completions(std::string_view line) {
  std::vector<std::string> result;
  const auto add = [&](std::string whole) {
    if (whole.starts_with(line)) result.push_back(std::move(whole));
  };
  for (const Command& command : commands()) add(fmt::format("/{}{}", command.names[0], *command.arguments ? " " : ""));
  for (const std::string& name : line.starts_with("/set ") ? ChatSettings::names() : std::vector<std::string>())
    add(fmt::format("/set {} ", name));
  return result;
}

}  // namespace heddle
