// One table: the name, what comes after it, what it does in words, and what it does.
#include "main/chat/chat_commands.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"

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

struct Command {
  const char *name, *arguments, *help;
  void (*act)(ChatTalk& talk, std::string_view rest);  // rest: what comes after the name and one space
};

void set(ChatTalk& talk, std::string_view rest) {
  const size_t space = rest.find_first_of(blanks);
  if (trimmed(rest).empty()) return talk.show_settings();
  const bool named_only = space == rest.npos;
  const std::string name(rest.substr(0, space));
  // a stop text may be blanks: only other values are trimmed
  const std::string_view value = named_only ? "" : rest.substr(space + 1);
  talk.set(name, std::string(trimmed(value).empty() ? value : trimmed(value)));
}

void set_system(ChatTalk& talk, std::string_view rest) {
  if (trimmed(rest).empty()) return talk.show_system();
  talk.set("system", std::string(trimmed(rest)));
}

constexpr Command commands[] = {
    {"help", "", "this list", nullptr},
    {"again", "", "another answer to the last message", [](ChatTalk& talk, std::string_view) { talk.again(); }},
    {"undo", "", "take back the last message and its answer", [](ChatTalk& talk, std::string_view) { talk.undo(); }},
    {"reset", "", "begin anew; settings stay", [](ChatTalk& talk, std::string_view) { talk.reset(); }},
    {"system", "[TEXT]", "show or set the system message", set_system},
    {"set", "[NAME [VALUE]]", "change a setting (temp 0.5); without a value, its default; alone, what differs", set},
    {"save", "FILE", "write the conversation as JSON",
     [](ChatTalk& talk, std::string_view rest) { talk.save(file_named(rest)); }},
    {"load", "FILE", "go on with a conversation that was saved",
     [](ChatTalk& talk, std::string_view rest) { talk.load(file_named(rest)); }},
    {"stats", "", "speed of the last answer, and how much of the context is used",
     [](ChatTalk& talk, std::string_view) { talk.show_stats(); }},
    {"quit", "", "leave; so does Ctrl-D", nullptr},
};

void show_help(std::ostream& out) {
  for (const Command& command : commands)
    out << fmt::format("  {:22}{}\n", fmt::format("/{} {}", command.name, command.arguments), command.help);
  out << "A line that ends with \\ goes on in the next one, and so does everything from \"\"\" to \"\"\"; Alt-Enter "
         "breaks a\n"
         "line. A message that begins with / is typed with two. Ctrl-C stops an answer.\n";
}

}  // namespace

bool handle(ChatTalk& talk, const Input& input, std::ostream& out) {
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
  for (const Command& command : commands) {
    if (name != command.name && !(name == "regenerate" && command.name == std::string_view("again"))) continue;
    if (!*command.arguments && !trimmed(rest).empty())
      throw Error("/{}: expected nothing after it, found {}", name, in_quotes(trimmed(rest)));
    if (name == "quit") return false;
    if (name == "help") {
      show_help(out);
      return true;
    }
    command.act(talk, rest);
    return true;
  }
  throw Error("there is no command /{}: /help lists them; //{} is said to the model with one slash", name, name);
}

std::vector<std::string> completions(std::string_view line) {
  std::vector<std::string> result;
  const auto add = [&](std::string whole) {
    if (whole.starts_with(line)) result.push_back(std::move(whole));
  };
  for (const Command& command : commands) add(fmt::format("/{}{}", command.name, *command.arguments ? " " : ""));
  for (const std::string& name : line.starts_with("/set ") ? ChatSettings::names() : std::vector<std::string>())
    add(fmt::format("/set {} ", name));
  return result;
}

}  // namespace heddle
