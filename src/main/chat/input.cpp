// What is remembered can be sent again as it is: joined lines as they were joined, a quoted text with its quotes.
#include "main/chat/input.h"

#include <istream>

#include "base/error.h"

namespace heddle {
namespace {

constexpr std::string_view quotes = "\"\"\"", first_prompt = "> ", next_prompt = "... ";

// The next line of a message that has begun.
Line read_more(LineSource& lines, const char* missing) {
  Line line = lines.read(next_prompt);
  if (line.kind == Line::Kind::end) throw Error("the input ended inside a message: expected {}", missing);
  return line;
}

Input quoted_message(LineSource& lines, std::string text) {
  Input input{.kind = Line::Kind::text, .quoted = true};
  const auto closed = [&text] { return text.size() >= 2 * quotes.size() && text.ends_with(quotes); };
  while (!closed()) {
    Line line = read_more(lines, "\"\"\"");
    if (line.kind == Line::Kind::interrupted) return {.kind = line.kind, .text = text};
    text += '\n' + line.text;
  }
  lines.remember(text);
  text = text.substr(quotes.size(), text.size() - 2 * quotes.size());
  // quotes on lines of their own do not make empty lines
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  input.text = std::move(text);
  return input;
}

}  // namespace

Line StreamLines::read(std::string_view) {
  std::string text;
  if (!std::getline(in_, text)) return {};
  if (text.ends_with('\r')) text.pop_back();
  return {.kind = Line::Kind::text, .text = std::move(text)};
}

Input read_message(LineSource& lines) {
  Line line = lines.read(first_prompt);
  if (line.kind != Line::Kind::text) return {.kind = line.kind, .text = line.text};
  if (line.text.starts_with(quotes)) return quoted_message(lines, std::move(line.text));
  std::string text = std::move(line.text);
  while (text.ends_with('\\')) {
    text.back() = '\n';
    line = read_more(lines, "the line after the backslash");
    if (line.kind == Line::Kind::interrupted) return {.kind = line.kind, .text = text};
    text += line.text;
  }
  if (text.find_first_not_of(" \t\n") != text.npos) lines.remember(text);
  return {.kind = Line::Kind::text, .text = std::move(text)};
}

}  // namespace heddle
