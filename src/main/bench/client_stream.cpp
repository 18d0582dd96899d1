// As little of HTTP as servers send, at the speed of memory.
#include "main/bench/client_stream.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
  return result;
}

size_t number_of(std::string_view text, int base, const char* what) {
  size_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (read.ec != std::errc() || read.ptr == text.data())
    throw Error("{}: expected a number, found {}", what, in_quotes(text));
  return number;
}

}  // namespace

std::optional<std::string> AnswerStream::line() {
  const size_t end = rest_.find("\r\n");
  if (end == rest_.npos) return std::nullopt;
  std::string text = rest_.substr(0, end);
  rest_.erase(0, end + 2);
  return text;
}

bool AnswerStream::take(std::string_view bytes) {
  rest_ += bytes;
  while (part_ != Part::whole) {
    switch (part_) {
      case Part::head: {
        const size_t end = rest_.find("\r\n\r\n");
        if (end == rest_.npos) return false;
        const std::string head = rest_.substr(0, end + 2);
        rest_.erase(0, end + 4);
        head_came(head);
        break;
      }
      case Part::chunk_size: {
        const auto size = line();
        if (!size) return false;
        left_ = number_of(*size, 16, "the size of a chunk");
        part_ = left_ ? Part::chunk : Part::last;
        break;
      }
      case Part::last: {  // fields, if any, and an empty line
        const auto field = line();
        if (!field) return false;
        if (field->empty()) part_ = Part::whole;
        break;
      }
      case Part::chunk_end:
        if (!line()) return false;
        part_ = Part::chunk_size;
        break;
      default: {
        const size_t here = part_ == Part::to_end ? rest_.size() : std::min(left_, rest_.size());
        add(std::string_view(rest_).substr(0, here));
        rest_.erase(0, here);
        left_ -= part_ == Part::to_end ? 0 : here;
        if (part_ == Part::to_end || left_ > 0) return false;
        part_ = part_ == Part::chunk ? Part::chunk_end : Part::whole;
      }
    }
  }
  return true;
}

void AnswerStream::head_came(std::string_view head) {
  if (!head.starts_with("HTTP/1.") || head.size() < 12) throw Error("expected HTTP, found {}", in_quotes(head));
  status_ = unsigned(number_of(head.substr(9, 3), 10, "status"));
  if (status_ / 100 == 1) return;  // another head follows
  const std::string fields = lower(head);
  const auto field = [&](const char* name) {
    const size_t at = fields.find(std::string("\r\n") + name + ":");
    if (at == fields.npos) return std::string();
    const size_t from = fields.find_first_not_of(' ', fields.find(':', at) + 1);
    return fields.substr(from, fields.find("\r\n", from) - from);
  };
  keep_alive_ = field("connection") != "close" && head[7] == '1';
  events_ = field("content-type").starts_with("text/event-stream");
  const std::string length = field("content-length");
  if (field("transfer-encoding") == "chunked") {
    part_ = Part::chunk_size;
  } else if (!length.empty()) {
    left_ = number_of(length, 10, "Content-Length");
    part_ = left_ ? Part::counted : Part::whole;
  } else {
    part_ = Part::to_end;
    keep_alive_ = false;
  }
}

void AnswerStream::add(std::string_view text) {
  body_ += text;
  if (!events_) return;
  size_t from = 0;
  for (size_t end; (end = body_.find('\n', from)) != body_.npos; from = end + 1) {
    const std::string_view one = std::string_view(body_).substr(from, end - from);
    if (one.starts_with("data: ")) event_(one.substr(6, one.size() - 6 - (one.ends_with('\r') ? 1 : 0)));
  }
  body_.erase(0, from);
}

}  // namespace heddle
