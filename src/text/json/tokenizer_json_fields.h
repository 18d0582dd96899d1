// One object of tokenizer.json, read field by field: what is missing, of the wrong kind or not asked for is an Error
// that names the place. A field that nobody asked for might change results.
#pragma once
#include <cstdint>
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

  // null and a missing field are the same
  const Json* find(std::string_view name);
  const Json& at(std::string_view name);
  const Json& list(std::string_view name);
  std::string text(std::string_view name);
  std::string character(std::string_view name);  // a text of one
  std::string text_or(std::string_view name, std::string otherwise);
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise);
  uint32_t number(std::string_view name);
  void ignore(std::string_view name) { asked_.emplace_back(name); }  // does not concern encoding or decoding
  void finish() const;  // to be called when every field that is known was asked for

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

std::string json_text(const Json& value, const std::string& place);
bool json_flag(const Json& value, const std::string& place);
uint32_t json_number(const Json& value, const std::string& place);

// A step of a pipeline, sequences of steps taken apart.
struct JsonStep {
  const Json* json = nullptr;
  std::string type;
  std::string where;
};
// `list`: what a "Sequence" calls its steps ("normalizers"). Without a json there are no steps.
std::vector<JsonStep> json_steps(const Json* json, std::string_view list, const std::string& where);
[[noreturn]] void throw_unknown(const JsonStep& step, std::string_view what, std::string_view known);

// {"String": "..."} or {"Regex": "..."}
struct JsonPattern {
  bool is_regex = false;
  std::string text;
};
JsonPattern json_pattern(Fields& fields, std::string_view name);

}  // namespace heddle::text
