// Reading one object of tokenizer.json field by field. A field that is missing, of the wrong type or unknown is an
// Error that names its place: an unknown one might change results. A field that is null counts as absent.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace heddle::text {

class Fields {
 public:
  Fields(const Json& object, std::string where);
  const std::string& where() const { return where_; }
  std::string place(std::string_view name) const { return fmt::format("{}.{}", where_, name); }

  const Json* find(std::string_view name);  // null: absent
  const Json& at(std::string_view name);
  const Json& list(std::string_view name);
  std::string text(std::string_view name);
  std::string character(std::string_view name);  // a text of one character
  std::string text_or(std::string_view name, std::string otherwise);
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise);
  uint32_t number(std::string_view name);
  void ignore(std::string_view name) { known_.emplace_back(name); }  // has no effect on encoding and decoding
  void ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) ignore(name);
  }
  void finish() const;  // after the last known field was asked for: refuses all others

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

std::string json_text(const Json& value, const std::string& place);
bool json_flag(const Json& value, const std::string& place);
uint32_t json_number(const Json& value, const std::string& place);

// One step of a pipeline; sequences of steps are flattened.
struct JsonStep {
  const Json* json = nullptr;
  std::string type;
  std::string where;
};
// `list`: the field in which a "Sequence" has its steps ("normalizers"). Null: no steps.
std::vector<JsonStep> json_steps(const Json* json, std::string_view list, const std::string& where);
[[noreturn]] void throw_unknown(const JsonStep& step, std::string_view what, std::string_view known);

// {"String": "..."} or {"Regex": "..."}
struct JsonPattern {
  bool is_regex = false;
  std::string text;
};
JsonPattern json_pattern(Fields& fields, std::string_view name);

}  // namespace heddle::text
