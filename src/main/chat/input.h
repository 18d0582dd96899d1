// Messages of one or more lines, from whatever gives lines.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>

namespace heddle {

struct Line {
  enum class Kind { text, interrupted, end } kind = Kind::end;
  std::string text;  // without its end; interrupted: what was typed so far
};

class LineSource {
 public:
  virtual ~LineSource() = default;
  virtual Line read(std::string_view prompt) = 0;
  virtual void remember(const std::string&) {}  // a message, so that it can be had again
};

// A pipe or a file: no prompt is shown.
class StreamLines : public LineSource {
 public:
  explicit StreamLines(std::istream& in) : in_(in) {}
  Line read(std::string_view prompt) override;

 private:
  std::istream& in_;
};

struct Input {
  Line::Kind kind = Line::Kind::end;
  std::string text;
  bool quoted = false;  // in """: no command, whatever it begins with
};

// A line, with the next one if it ends with a backslash; or everything from """ to """. An Error if the lines end
// before the message does.
Input read_message(LineSource& lines);

}  // namespace heddle
