// One object of a request, read field by field: what is missing, of the wrong kind, out of range or not asked for is an
// ApiError that names the field. null and a missing field are the same: not said.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/api_error.h"

namespace heddle::server {

// The body of a request. Throws an ApiError that says where it is no JSON.
Json parse_body(std::string_view body);

class Fields {
 public:
  // `where`: the path of the object ("messages[1]"); empty: the body itself. The object must outlive this.
  explicit Fields(const Json& object, std::string where = "");
  std::string place(std::string_view name) const;  // "messages[1].content"

  // Names are not copied: they must outlive this.
  const Json* find(std::string_view name);  // null: not said
  const Json& at(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise) { return flag(name).value_or(otherwise); }
  std::optional<int64_t> whole(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  // Two names for the same: the one that was said, or the first. Both are refused.
  std::string_view either(std::string_view name, std::string_view other);

  void finish() const;  // to be called when every field that is known was asked for

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string_view> asked_;
};

// A value that stands at `place`. Ranges include both ends. A whole number may be written as 5.0.
const std::string& text_at(const Json& value, const std::string& place);
int64_t whole_at(const Json& value, const std::string& place, int64_t low, int64_t high);
double number_at(const Json& value, const std::string& place, double low, double high);
// A list of 1 to `most` elements.
const Json& list_at(const Json& value, const std::string& place, size_t most);
std::string element(const std::string& place, size_t index);  // "messages[1]"

// "<place>: expected <what>, found <value>"; `code` is OpenAI's name for what is wrong.
ApiError unexpected(const std::string& place, std::string_view expected, const Json& found,
                    std::string code = "invalid_type");

}  // namespace heddle::server
