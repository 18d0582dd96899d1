// Typed values: what converts, what does not, and the words of the refusal.
#include "formats/metadata.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/formats/built_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

Metadata sample() {
  Metadata metadata("m.gguf");
  metadata.set("text", std::string("llama"));
  metadata.set("u8", uint8_t{255});
  metadata.set("i8", int8_t{-1});
  metadata.set("u64", ~uint64_t{0});
  metadata.set("i64", int64_t{1} << 53);
  metadata.set("beyond", (int64_t{1} << 53) + 1);
  metadata.set("lowest", std::numeric_limits<int64_t>::min());
  metadata.set("f32", 0.1f);
  metadata.set("f64", -2.5);
  metadata.set("yes", true);
  metadata.set("array", Array::of(std::vector<int32_t>{1, -2, 3}));
  return metadata;
}

TEST(Metadata, GivesWhatWasSetInItsOrder) {
  Metadata metadata = sample();
  metadata.set("u8", uint32_t{7});  // replaces, at its place
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata.all()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"text", "u8", "i8", "u64", "i64", "beyond", "lowest", "f32", "f64", "yes",
                                            "array"}));
  EXPECT_EQ(metadata.integer("u8"), 7u);
  EXPECT_EQ(type_of(*metadata.find("u8")), ValueType::u32);
  EXPECT_EQ(metadata.find("nothing"), nullptr);
  EXPECT_EQ(metadata.find(""), nullptr);
  EXPECT_EQ(Metadata().all().size(), 0u);
}

TEST(Metadata, ConvertsWithoutLoss) {
  const Metadata metadata = sample();
  EXPECT_EQ(metadata.string("text"), "llama");
  EXPECT_EQ(metadata.integer("u8"), 255u);
  EXPECT_EQ(metadata.integer("u64"), ~uint64_t{0});
  EXPECT_EQ(metadata.integer("beyond"), (uint64_t{1} << 53) + 1);
  EXPECT_EQ(metadata.number("i8"), -1.0);
  EXPECT_EQ(metadata.number("i64"), 9007199254740992.0);
  EXPECT_EQ(metadata.number("f32"), double(0.1f));
  EXPECT_EQ(metadata.number("f64"), -2.5);
  EXPECT_TRUE(metadata.boolean("yes"));
  EXPECT_EQ(metadata.array("array").integers(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(metadata.find_string("x"), std::nullopt);
  EXPECT_EQ(metadata.find_integer("x"), std::nullopt);
  EXPECT_EQ(metadata.find_number("x"), std::nullopt);
  EXPECT_EQ(metadata.find_boolean("x"), std::nullopt);
  EXPECT_EQ(metadata.find_array("x"), nullptr);
}

TEST(Metadata, RefusesWhatWouldLoseAndSaysWhatItFound) {
  const Metadata metadata = sample();
  EXPECT_REFUSED(metadata.string("u8"), "m.gguf: u8: expected a string, found the u8 255");
  EXPECT_REFUSED(metadata.integer("i8"), "m.gguf: i8: expected an integer of at least 0, found the i8 -1");
  EXPECT_REFUSED(metadata.integer("f64"), "f64: expected an integer", "found the f64 -2.5");
  EXPECT_REFUSED(metadata.integer("yes"), "yes: expected an integer", "found the bool true");
  EXPECT_REFUSED(metadata.integer("text"), "text: expected an integer", "found the string \"llama\"");
  EXPECT_REFUSED(metadata.number("u64"), "u64: expected a number", "18446744073709551615");
  EXPECT_REFUSED(metadata.number("beyond"), "beyond: expected a number", "9007199254740993");
  EXPECT_REFUSED(metadata.number("lowest"), "lowest: expected a number", "-9223372036854775808");
  EXPECT_REFUSED(metadata.boolean("u8"), "u8: expected a bool, found the u8 255");
  EXPECT_REFUSED(metadata.array("text"), "text: expected an array, found the string");
  EXPECT_REFUSED(metadata.find_integer("array"), "array: expected an integer", "found an array of 3 i32");
  EXPECT_REFUSED(metadata.string("x"), "m.gguf: x: expected a string, found no such key");
  EXPECT_REFUSED(metadata.integer("x"), "x: expected an integer", "found no such key");
  EXPECT_REFUSED(metadata.number("x"), "x: expected a number, found no such key");
  EXPECT_REFUSED(metadata.boolean("x"), "x: expected a bool, found no such key");
  EXPECT_REFUSED(metadata.array("x"), "x: expected an array, found no such key");
}

TEST(Arrays, KeepStringsOfAnyBytes) {
  const std::vector<std::string> values = {"a", "", std::string("\xff\0z", 3), std::string(1000, 'x')};
  const Array array = Array::of(values);
  EXPECT_EQ(array.type(), ValueType::string);
  EXPECT_EQ(array.size(), 4u);
  EXPECT_EQ(array.encoded().size(), 4 * 8 + 1 + 3 + 1000u);
  const auto read = array.strings();
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin(), values.end()));
  EXPECT_TRUE(Array::of(std::vector<std::string>{}).strings().empty());
  EXPECT_REFUSED(array.integers(), "expected an array of integers, found an array of 4 string");
  EXPECT_REFUSED(array.numbers(), "expected an array of numbers, found an array of 4 string");
}

TEST(Arrays, KeepNumbersOfEveryType) {
  const auto array = [](ValueType type, const std::string& encoded) {
    auto owner = std::make_shared<std::string>(encoded);
    return Array(type, encoded.size() / value_bytes(type), test::bytes_of(*owner), owner);
  };
  using test::raw;
  EXPECT_EQ(array(ValueType::u8, raw(uint8_t{255})).integers(), std::vector<int64_t>{255});
  EXPECT_EQ(array(ValueType::i8, raw(int8_t{-1})).integers(), std::vector<int64_t>{-1});
  EXPECT_EQ(array(ValueType::u16, raw(uint16_t{65535})).integers(), std::vector<int64_t>{65535});
  EXPECT_EQ(array(ValueType::i16, raw(int16_t{-2})).numbers(), std::vector<double>{-2});
  EXPECT_EQ(array(ValueType::u32, raw(~uint32_t{0})).integers(), std::vector<int64_t>{4294967295});
  EXPECT_EQ(array(ValueType::i32, raw(int32_t{-7})).integers(), std::vector<int64_t>{-7});
  EXPECT_EQ(array(ValueType::u64, raw(uint64_t{1} << 62)).integers(), std::vector<int64_t>{int64_t{1} << 62});
  EXPECT_EQ(array(ValueType::i64, raw(int64_t{-5})).integers(), std::vector<int64_t>{-5});
  EXPECT_EQ(array(ValueType::f64, raw(0.1)).numbers(), std::vector<double>{0.1});
  EXPECT_EQ(Array::of(std::vector<float>{0.1f, -1}).numbers(), (std::vector<double>{double(0.1f), -1}));
  EXPECT_EQ(Array::of(std::vector<bool>{true, false}).integers(), (std::vector<int64_t>{1, 0}));
  EXPECT_REFUSED(array(ValueType::u64, raw(uint64_t{1}) + raw(uint64_t{1} << 63)).integers(),
                 "expected integers up to 2^63 - 1, found 9223372036854775808 at place 1");
  EXPECT_REFUSED(Array::of(std::vector<float>{1}).integers(), "expected an array of integers, found an array of 1 f32");
  EXPECT_REFUSED(Array::of(std::vector<bool>{true}).numbers(),
                 "expected an array of numbers, found an array of 1 bool");
  EXPECT_REFUSED(Array::of(std::vector<bool>{true}).strings(), "expected an array of string, found an array of 1 bool");
}

TEST(Arrays, AreEqualWhenTypeAndBytesAre) {
  EXPECT_EQ(Array::of(std::vector<float>{NAN}), Array::of(std::vector<float>{NAN}));
  EXPECT_FALSE(Array::of(std::vector<float>{0.f}) == Array::of(std::vector<int32_t>{0}));
  EXPECT_FALSE(Array::of(std::vector<int32_t>{0}) == Array::of(std::vector<int32_t>{0, 0}));
}

TEST(Arrays, OfAWrongSizeAreABug) {
  const std::string four(4, '\0');
  EXPECT_THROW(Array(ValueType::u8, 5, test::bytes_of(four), nullptr), std::logic_error);
  EXPECT_THROW(Array(ValueType::array, 1, test::bytes_of(four), nullptr), std::logic_error);
}

TEST(Values, AreShownToPeople) {
  EXPECT_EQ(to_string(Value(uint8_t{65})), "65");
  EXPECT_EQ(to_string(Value(int8_t{-65})), "-65");
  EXPECT_EQ(to_string(Value(true)), "true");
  EXPECT_EQ(to_string(Value(1e-5f)), "1e-05");
  EXPECT_EQ(to_string(Value(std::string("a\n\"b\xff"))), R"("a\n\"b\xff")");
  EXPECT_EQ(to_string(Value(std::string(100, 'x')), 5), "\"xxxxx\"...");
  EXPECT_EQ(to_string(Value(Array::of(std::vector<int32_t>{}))), "[]");
  EXPECT_EQ(to_string(Value(Array::of(std::vector<int32_t>{1, 2}))), "[1, 2]");
  EXPECT_EQ(to_string(Value(Array::of(std::vector<bool>{true, false}))), "[true, false]");
  EXPECT_EQ(to_string(Value(Array::of(std::vector<std::string>{"a", "b"}))), R"(["a", "b"])");
  EXPECT_EQ(to_string(Value(Array::of(std::vector<int32_t>(100'000, 7))), 10), "[7, 7, 7, 7, ...] (100000 of them)");
  EXPECT_EQ(name(ValueType::boolean), "bool");
}

}  // namespace
}  // namespace heddle::formats
