#include "main/chat/dim_thoughts.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/marks.h"

namespace heddle {
namespace {

// Bytes at the end of `text` that `mark` begins with.
size_t begun_mark(std::string_view text, std::string_view mark) {
  size_t size = std::min(text.size(), mark.size() - 1);
  while (!text.ends_with(mark.substr(0, size))) --size;
  return size;
}

}  // namespace

DimThoughts::DimThoughts(const chat::ThoughtFormat& marks, bool inside)
    : begin_(chat::trimmed(marks.begin)), end_(chat::trimmed(marks.end)) {
  if (!end_.empty() && inside) state_ = State::opened;
  if (!end_.empty() && !inside && !begin_.empty()) state_ = State::undecided;
}

void DimThoughts::skip(std::string_view text) {
  push(text);
  held_.clear();
  if (state_ == State::inside) state_ = State::opened;
}

std::string DimThoughts::push(std::string_view text) {
  held_ += text;
  if (state_ == State::undecided) {
    const std::string_view answer =
        std::string_view(held_).substr(std::min(held_.find_first_not_of(" \t\r\n"), held_.size()));
    if (answer.starts_with(begin_))
      state_ = State::opened;
    else if (!std::string_view(begin_).starts_with(answer))
      state_ = State::over;
    else
      return "";
  }
  std::string out;
  if (state_ == State::opened) {
    append_utf8(out, dim);
    state_ = State::inside;
  }
  if (state_ == State::inside) {
    const size_t at = held_.find(end_),
                 size = at == held_.npos ? held_.size() - begun_mark(held_, end_) : at + end_.size();
    out += held_.substr(0, size);
    held_.erase(0, size);
    if (at == held_.npos) return out;
    append_utf8(out, plain);
    state_ = State::over;
  }
  out += held_;
  held_.clear();
  return out;
}

std::string DimThoughts::finish() {
  std::string out = std::move(held_);
  held_.clear();
  if (state_ == State::inside) append_utf8(out, plain);
  state_ = State::over;
  return out;
}

std::string DimThoughts::with_styles(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.value == dim || point.value == plain)
      out += point.value == dim ? "\x1b[2m" : "\x1b[22m";
    else
      out += text.substr(at, point.bytes);
    at += point.bytes;
  }
  return out;
}

}  // namespace heddle
