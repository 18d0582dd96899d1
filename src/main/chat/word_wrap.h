// Text that is streamed to a terminal, wrapped at words.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace heddle {

// Cells that a character takes on a terminal: 0, 1 or 2.
size_t cells_of(char32_t character);

// A word is held back until it is complete, so that nothing on the screen has to be taken back. Lines of a fenced code
// block and lines that are indented by four blanks are passed on as they are.
class WordWrap {
 public:
  // The width of the terminal, asked for at every word so that a resize counts; 0: not known, nothing is wrapped.
  explicit WordWrap(std::function<size_t()> width) : width_(std::move(width)) {}

  std::string push(std::string_view text);  // whole characters; returns what can be shown
  std::string finish();                     // the last word; the next text begins on a new line

 private:
  void take(char32_t character, std::string& out);
  void end_line(std::string& out);
  void place_word(std::string& out);
  void show(std::string_view text, size_t cells, std::string& out);

  std::function<size_t()> width_;
  size_t column_ = 0;  // cells used in the line of the screen
  std::string blanks_, word_;
  size_t blank_cells_ = 0, word_cells_ = 0;
  bool within_word_ = false;  // the beginning of the word was shown already
  std::string line_start_;    // of the text's line: enough of it to know a fence or an indentation
  bool fenced_ = false, verbatim_ = false;
};

// A whole text; `width` 0: not known, nothing is wrapped.
std::string wrapped(std::string_view text, size_t width);

}  // namespace heddle
