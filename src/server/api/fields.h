// Reading one JSON object of a body field by field. A field that is missing, of the wrong type, out of range or unknown
// is an ApiError that names it. A field that is null counts as absent.
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

class Fields {
 public:
  // `path`: where the object stands ("messages[1]"); empty: the body itself. The object must outlive this.
  explicit Fields(const Json& object, std::string path = "");
  std::string place(std::string_view name) const;  // "messages[1].content"

  // Names are not copied: they must outlive this.
  const Json* find(std::string_view name);  // null: absent
  const Json& at(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise) { return flag(name).value_or(otherwise); }
  std::optional<int64_t> whole(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  // Of two names for one field the one that is there, or the first. Both together are refused.
  std::string_view either(std::string_view name, std::string_view other);

  void finish() const;  // after the last known field was asked for: refuses all others

 private:
  const Json& object_;
  std::string path_;
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

}  // namespace heddle::server
