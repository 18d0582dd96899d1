#include "main/chat/word_wrap.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace heddle {
namespace {

constexpr size_t tab_stop = 8;
constexpr size_t indentation = 4;  // from which a line is code, as in Markdown

bool is_fence(std::string_view line_start) {
  line_start.remove_prefix(std::min(line_start.find_first_not_of(' '), line_start.size()));
  return line_start.starts_with("```") || line_start.starts_with("~~~");
}

}  // namespace

size_t cells_of(char32_t character) { return size_t(std::max(0, utf8proc_charwidth(utf8proc_int32_t(character)))); }

std::string wrapped(std::string_view text, size_t width) {
  WordWrap wrap([width] { return width; });
  std::string shown = wrap.push(text);
  return shown + wrap.finish();
}

std::string WordWrap::push(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    take(point.value, out);
    at += point.bytes;
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  place_word(out);
  *this = WordWrap(std::move(width_));
  return out;
}

void WordWrap::take(char32_t character, std::string& out) {
  if (character == '\n') return end_line(out);
  if (line_start_.size() < 8) {
    append_utf8(line_start_, character);
    verbatim_ |= line_start_ == "\t" || line_start_ == std::string(indentation, ' ');
  }
  const bool blank = character == ' ' || character == '\t';
  const size_t cells =
      character == '\t' ? tab_stop - (column_ + blank_cells_ + word_cells_) % tab_stop : cells_of(character);
  if (verbatim_) {
    place_word(out);
    std::string text = std::move(blanks_);
    append_utf8(text, character);
    show(text, blank_cells_ + cells, out);
    blanks_.clear();
    blank_cells_ = 0;
  } else if (blank) {
    place_word(out);
    within_word_ = false;
    blanks_ += char(character);
    blank_cells_ += cells;
  } else {
    const bool ideograph = cells == 2;  // a line may be broken before and after it
    if (ideograph) {
      place_word(out);
      within_word_ = false;
    }
    append_utf8(word_, character);
    word_cells_ += cells;
    if (ideograph || word_cells_ >= std::max<size_t>(1, width_())) place_word(out);
    if (ideograph) within_word_ = false;
  }
}

void WordWrap::end_line(std::string& out) {
  place_word(out);
  out += '\n';
  column_ = 0;
  blanks_.clear();
  blank_cells_ = 0;
  within_word_ = false;
  if (is_fence(line_start_)) fenced_ = !fenced_;
  line_start_.clear();
  verbatim_ = fenced_;
}

void WordWrap::place_word(std::string& out) {
  if (word_.empty()) return;
  const size_t width = width_();
  const bool fits = width == 0 || column_ + blank_cells_ + word_cells_ <= width;
  if (fits || column_ == 0) {
    show(blanks_, blank_cells_, out);
  } else if (!within_word_) {  // what is longer than a line is broken by the terminal
    out += '\n';
    column_ = 0;
  }
  show(word_, word_cells_, out);
  within_word_ = true;
  word_.clear();
  word_cells_ = 0;
  blanks_.clear();
  blank_cells_ = 0;
}

void WordWrap::show(std::string_view text, size_t cells, std::string& out) {
  out += text;
  column_ += cells;
  const size_t width = width_();
  if (width > 0 && column_ > width) column_ = (column_ - 1) % width + 1;
}

}  // namespace heddle
