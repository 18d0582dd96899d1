// JSON of requests and responses. Bodies are read field by field: a field that is missing, of the wrong type or out of
// range is an ApiError that names it; null counts as absent. Fields that are unknown or have no effect here are taken
// and listed, or refused if the server is strict. Responses are written straight into strings, because a stream has
// thousands of small documents per second.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/api_error.h"

namespace heddle::server {

// The body of a request. Throws an ApiError that says where it is not JSON.
Json parse_body(std::string_view body);
// Its field "model"; empty: it has none. Throws an ApiError as if the whole body were read.
std::string model_field(std::string_view body);

// The fields of a body that were taken without effect.
class IgnoredFields {
 public:
  void add(std::string place);                                      // "messages[2].id" is kept as "messages[].id"
  const std::vector<std::string>& names() const { return names_; }  // each once, at most 32, in printable ASCII

 private:
  std::vector<std::string> names_;
};

class Fields {
 public:
  // The body itself, which must outlive this. `ignored`: gets the fields that have no effect; null: they are refused.
  Fields(const Json& body, IgnoredFields* ignored);
  // An object in it. `path`: where it stands ("messages[1]").
  Fields(const Json& object, std::string path, const Fields& outer);
  std::string place(std::string_view name) const;  // "messages[1].content"

  // Names are not copied: they must outlive this.
  const Json* find(std::string_view name);  // null: absent
  const Json& at(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise) { return flag(name).value_or(otherwise); }
  std::optional<int64_t> whole(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  void ignore(std::string_view name);  // any value: it has no effect here
  // Of two names for one field, the one that is present, or the first if neither is. Both together are refused.
  std::string_view either(std::string_view name, std::string_view other);

  void finish() const;  // after the last known field was asked for: all others are ignored or refused

 private:
  const Json& object_;
  std::string path_;
  IgnoredFields* ignored_;
  std::vector<std::string_view> known_;
};

// The value at `place`. Ranges include both ends. A whole number may be written as 5.0.
const std::string& text_at(const Json& value, const std::string& place);
int64_t whole_at(const Json& value, const std::string& place, int64_t low, int64_t high);
double number_at(const Json& value, const std::string& place, double low, double high);
const Json& list_at(const Json& value, const std::string& place, size_t max_size);  // not empty
std::string element(const std::string& place, size_t index);                        // "messages[1]"

// "<place>: expected <what>, found <value>"; `code` is OpenAI's word for the kind of mistake.
ApiError unexpected(const std::string& place, std::string_view expected, const Json& found,
                    std::string code = "invalid_type");

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
