// JSON written straight into strings: a stream has thousands of small documents per second.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::server {

// Quoted and escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);
// The shortest number that reads back as the same float; null for one that is not finite.
void append_json(std::string& out, float number);
void append_json(std::string& out, uint64_t number);
void append_json(std::string& out, int64_t number);

// "[" and "]" around the elements, each written by append(element).
template <class List, class Append>
void append_json_list(std::string& out, const List& list, Append&& append) {
  out += "[";
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += ",";
    first = false;
    append(element);
  }
  out += "]";
}

std::string base64(std::string_view bytes);

}  // namespace heddle::server
