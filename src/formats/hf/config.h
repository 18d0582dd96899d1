// config.json, read so that nothing in it goes unnoticed: an option that was not read is an Error where it is known to
// change the result, and named in a warning where it is not known to be harmless.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace heddle::formats::hf {

// The text of a config.json. Python writes infinities as no JSON has them: they become {"__float__": "Infinity"}, which
// is how newer versions of transformers write them.
Json parse_config(std::string_view text, std::string_view where);

class Config {
 public:
  // `json` must outlive it. `where` names the file, and the object in it, in errors. The warnings of an object within
  // another are the other's.
  Config(const Json& json, std::string where, Config* outer = nullptr);

  const std::string& where() const { return where_; }
  const Json& whole() const { return *json_; }
  // The value; null where it is absent or null. The key counts as read from now on.
  const Json* find(std::string_view key);
  bool is_null(std::string_view key);  // present, as null

  // Absent or null: the fallback. Of another kind than expected: an Error. Integers are from 1 to 2^30; numbers are
  // finite, also as an f32.
  uint64_t integer(std::string_view key, uint64_t fallback);
  uint64_t count(std::string_view key, uint64_t fallback);  // an integer that may be 0
  double number(std::string_view key, double fallback);
  bool boolean(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);
  std::vector<double> numbers(std::string_view key);       // empty where absent
  std::vector<std::string> strings(std::string_view key);  // empty where absent

  // For an option that changes the result in a way that GGUF or heddle cannot express: it must have one of these
  // values.
  void expect(std::string_view key, std::initializer_list<Json> allowed, const Json& fallback);
  void ignore(std::initializer_list<std::string_view> keys);

  // Of the options that were not read, are on no list, and are not null, false or empty: throws an Error that names
  // those that are known to change the result, and warns of the others.
  void finish();
  const std::vector<std::string>& warnings() const { return warnings_; }  // that finish() found

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  double checked(std::string_view key, double number) const;

  const Json* json_;
  std::string where_;
  Config* outer_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> warnings_;
};

}  // namespace heddle::formats::hf
