// Manual pages, one for each command, written from the description of the command line: roff with the macros of man(7).
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/version.h"
#include "main/commands/command_description.h"
#include "main/commands/commands.h"
#include "main/commands/version_text.h"

namespace heddle {
namespace {

// A line of text: a hyphen is the one of the keyboard, so that what is copied from a page can be typed.
std::string roff(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

// Each line by itself, as a filled paragraph or as it is.
std::string roff_lines(const std::string& text) {
  std::string result;
  for (const std::string& line : CLI::detail::split(text, '\n')) result += roff(line) + "\n";
  return result;
}

std::string heading(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return ".SH " + (text.find(' ') == text.npos ? roff(text) : "\"" + roff(text) + "\"") + "\n";
}

std::string page_name(const CommandDescription& command) { return fmt::format("{}", fmt::join(command.path, "-")); }

std::string page_reference(const std::string& name) { return ".BR " + roff(name) + " (1)"; }

// "-p, --prompt TEXT" in bold and italics, and its text below.
std::string option_item(const OptionDescription& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "\\fB" : "\\fR, \\fB") + roff(name);
  names += "\\fR";
  if (!option.value.empty()) names += " \\fI" + roff(option.value) + "\\fR";
  if (option.required && option.names[0].starts_with('-')) names += " (required)";
  return ".TP\n" + names + "\n" + roff(option.text_with_default) + "\n";
}

// Paragraphs of the help's end: "Examples:" and lines below it are a section, as they are; "Exit status: 0 success" is
// one, filled; what has no heading is a paragraph of NOTES.
std::string footer_sections(const std::string& footer) {
  std::string sections, notes;
  size_t begin = 0;
  while (begin < footer.size()) {
    const size_t end = std::min(footer.find("\n\n", begin), footer.size());
    const std::string paragraph = footer.substr(begin, end - begin);
    begin = end + 2;
    const size_t colon = paragraph.find(':'), line_end = paragraph.find('\n');
    const std::string title = colon < 20 ? paragraph.substr(0, colon) : "";
    if (!title.empty() && colon + 1 == line_end)
      sections += heading(title) + ".nf\n" + roff_lines(paragraph.substr(line_end + 1)) + ".fi\n";
    else if (title == "Exit status")
      sections += heading(title) + roff_lines(paragraph.substr(colon + 2));
    else
      notes += (notes.empty() ? heading("Notes") : ".PP\n") + roff_lines(paragraph);
  }
  return notes + sections;
}

std::string manual_page(const CommandDescription& command, const std::string& parent) {
  const std::string name = page_name(command);
  std::string text = command.text, description;
  if (text.starts_with(name + ": ")) {  // of the program: its first sentence is what it is
    text = text.substr(name.size() + 2);
    const size_t end = text.find(". ");
    description = heading("Description") + roff_lines(text.substr(std::min(end, text.size() - 2) + 2));
    text = text.substr(0, end);
  }
  const std::string title = heading(name).substr(4, heading(name).size() - 5);
  std::string page = fmt::format(".TH {} 1 \"{}\" \"heddle {}\" \"heddle\"\n", title, version_date(), version);
  page += ".ad l\n";  // no gaps where a long option does not fit a line
  page += heading("Name") + roff(name) + " \\- " + roff(text) + "\n";
  const std::string called = fmt::format("{}", fmt::join(command.path, " "));
  page += heading("Synopsis") + ".B " + roff(called) + "\n" + roff(command.usage.substr(called.size() + 1)) + "\n";
  page += description;
  if (!command.arguments.empty()) page += heading("Arguments");
  for (const OptionDescription& argument : command.arguments) page += option_item(argument);
  std::string group;
  for (const OptionDescription& option : command.options) {
    if (option.group != group) page += heading(group = option.group);
    page += option_item(option);
  }
  if (!command.commands.empty()) page += heading("Commands");
  for (const CommandDescription& each : command.commands)
    page += ".TP\n" + page_reference(page_name(each)) + "\n" + roff(each.text) + "\n";
  page += footer_sections(command.footer);
  if (!parent.empty()) page += heading("See also") + page_reference(parent) + "\n";
  return page;
}

void write_pages(const CommandDescription& command, const std::string& parent, const std::string& folder) {
  const std::string name = page_name(command);
  OutputFile file(folder + "/" + name + ".1");
  file.write(manual_page(command, parent));
  file.commit();
  for (const CommandDescription& each : command.commands) write_pages(each, name, folder);
}

}  // namespace

void describe_manual(CLI::App& program) {
  const auto folder = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("manual", "Write the manual pages, one for each command");
  command->add_option("FOLDER", *folder, "Where to write them; made if it is not there")->type_name("")->required();
  command->callback([folder, &program] {
    std::error_code failed;
    std::filesystem::create_directories(*folder, failed);
    if (failed) throw Error("{}: {}", *folder, failed.message());
    write_pages(describe_command(program), "", *folder);
  });
}

}  // namespace heddle
