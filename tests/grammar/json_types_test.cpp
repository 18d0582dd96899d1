#include "grammar/json_types.h"

#include <gtest/gtest.h>

namespace heddle::grammar {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonTypes, OfValuesAndByName) {
  const std::pair<const char*, JsonType> all[] = {
      {"null", null_type},  {"true", boolean_type}, {"-1", number_type}, {"18446744073709551615", number_type},
      {"0.5", number_type}, {"\"\"", string_type},  {"[]", array_type},  {"{}", object_type}};
  for (const auto& [text, type] : all) EXPECT_EQ(type_of(Json::parse(text)), uint32_t(type)) << text;
  uint32_t sum = 0;
  for (const auto& [type, name] : json_type_names) {
    EXPECT_EQ(type_named(name), uint32_t(type)) << name;
    sum += type;
  }
  EXPECT_EQ(sum, uint32_t(any_type));
  EXPECT_EQ(type_named("integer"), uint32_t(number_type));
  EXPECT_EQ(type_named("int") + type_named("") + type_named("Null"), 0u);
}

}  // namespace
}  // namespace heddle::grammar
