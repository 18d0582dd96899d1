#include "chat/tools.h"

#include <gtest/gtest.h>

namespace heddle::chat {
namespace {

TEST(ValueAsJson, WhatIsNoJsonOfTheTypesIsAString) {
  EXPECT_EQ(value_as_json("3", number_type), "3");
  EXPECT_EQ(value_as_json("3", string_type), "\"3\"");
  EXPECT_EQ(value_as_json("three", number_type), "\"three\"");
  EXPECT_EQ(value_as_json(" [1, \"a\"] ", array_type), "[1, \"a\"]");
  EXPECT_EQ(value_as_json("[1]", object_type), "\"[1]\"");
  EXPECT_EQ(value_as_json("True", boolean_type), "true");
  EXPECT_EQ(value_as_json("True", string_type), "\"True\"");
  EXPECT_EQ(value_as_json("None", null_type), "null");
}

TEST(ValueAsJson, PythonsListsAndObjectsWhereNoStringIsAllowed) {
  EXPECT_EQ(value_as_json("['t', \"u\", 1.5, None]", array_type), "[\"t\", \"u\", 1.5, null]");
  EXPECT_EQ(value_as_json("{'on': True, 'off': [False]}", object_type), "{\"on\": true, \"off\": [false]}");
  EXPECT_EQ(value_as_json(R"(['it\'s', "a\nb", 'x\\y', 'say "z"'])", array_type),
            R"(["it's", "a\nb", "x\\y", "say \"z\""])");
  EXPECT_EQ(value_as_json("['t']", array_type | string_type), "\"['t']\"") << "it may be a text";
  EXPECT_EQ(value_as_json("['t']", object_type), "\"['t']\"");
  for (const char* broken : {"['t", "['t'", "['\\x41']", "[t]", "['a' 'b']", "{'a'}"})
    EXPECT_EQ(value_as_json(broken, array_type | object_type).front(), '"') << broken;
}

}  // namespace
}  // namespace heddle::chat
