// Messages of one or more lines, piped or typed at a terminal with editing, history and pasting.
#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct Line {
  enum class Kind { text, interrupted, end } kind = Kind::end;
  std::string text;  // without its line break; interrupted: what was typed so far
};

class LineSource {
 public:
  virtual ~LineSource() = default;
  virtual Line read(std::string_view prompt) = 0;
  virtual void remember(const std::string&) {}  // adds a message to the history
};

// A pipe, a file, or a terminal that cannot move its cursor.
class StreamLines : public LineSource {
 public:
  explicit StreamLines(std::istream& in, std::ostream* prompts = nullptr) : in_(in), prompts_(prompts) {}
  Line read(std::string_view prompt) override;

 private:
  std::istream& in_;
  std::ostream* prompts_;  // null: no prompt is shown
};

struct Input {
  Line::Kind kind = Line::Kind::end;
  std::string text;
  bool quoted = false;  // in """: a message even if it begins with /
};

// A line, joined with the next one if it ends with a backslash; or a text from """ to """. An Error if the input ends
// inside a message.
Input read_message(LineSource& lines);

// A terminal, by libedit, which input.cpp alone knows.
class LineEditor : public LineSource {
 public:
  using Completions = std::function<std::vector<std::string>(std::string_view before_cursor)>;

  // On standard input and output. `history`: file of the history, created if absent; empty: it is not kept.
  LineEditor(std::filesystem::path history, Completions completions);
  ~LineEditor() override;

  Line read(std::string_view prompt) override;
  void remember(const std::string& message) override;
  // Why the history could not be saved: one line, or empty.
  std::string complaint() const;

  // Whether standard input and output are a terminal that can move its cursor.
  static bool possible();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// $XDG_STATE_HOME/heddle/chat_history, or the same under ~/.local/state; empty if HOME is not set.
std::filesystem::path chat_history_path();

}  // namespace heddle
