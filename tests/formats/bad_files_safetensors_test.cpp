// safetensors files that are wrong in one thing each.
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

std::vector<Tensor> read_bytes(const std::string& bytes) { return read_safetensors(bytes_of(bytes), "m.st"); }
// One tensor under the name "t", given by the text of its object; 4 bytes of data.
std::vector<Tensor> read_object(const std::string& object) {
  return read_bytes(safetensors("{\"t\":" + object + "}", "abcd"));
}

const std::string good =
    "{" + safetensors_line("a", "I8", "[3]", 0, 3) + "," + safetensors_line("b", "F32", "[2,1]", 3, 11) + "}";

TEST(BadSafetensors, CutAnywhereIsRefused) {
  const std::string whole = safetensors(good, "abcdefghijk");
  ASSERT_EQ(read_bytes(whole).size(), 2u);
  for (size_t length = 0; length < whole.size(); ++length) {
    heddle::test::expect_says(heddle::test::refusal([&] { read_bytes(whole.substr(0, length)); }),
                              {"m.st: ", "expected ", "found "});
    if (HasFailure()) FAIL() << "cut to " << length << " bytes";
  }
  EXPECT_REFUSED(read_bytes(whole + "x"), "m.st: data: expected 11 bytes, as many as the tensors have, found 12");
}

TEST(BadSafetensors, AnyByteChangedIsReadOrRefused) {
  const std::string whole = safetensors(good, "abcdefghijk");
  size_t refused = 0;
  for (size_t at = 0; at < 8 + good.size(); ++at)
    for (const char byte : std::string_view("\0\x01\x7f\x80\xff \"\\{}[],:-09eA", 19)) {
      std::string changed = whole;
      changed[at] = byte;
      try {
        read_bytes(changed);
      } catch (const Error& error) {
        ++refused;
        EXPECT_TRUE(std::string_view(error.what()).starts_with("m.st: ")) << error.what();
      }
    }
  EXPECT_GT(refused, 10 * good.size());  // more than half
}

TEST(BadSafetensors, HeaderLength) {
  EXPECT_REFUSED(read_bytes(""), "m.st: header length: expected 8 bytes, found the end of the file after 0");
  EXPECT_REFUSED(read_bytes("1234567"), "found the end of the file after 7");
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7})
    EXPECT_REFUSED(read_bytes(raw(length) + "{}"),
                   "m.st: header length: expected at most 2, found " + std::to_string(length));
  EXPECT_REFUSED(read_bytes(raw(uint64_t{100'000'001}) + std::string(100'000'001, ' ')),
                 "m.st: header length: expected at most 100000000, found 100000001");
}

TEST(BadSafetensors, HeaderThatIsNoObject) {
  for (const char* header : {"[]", "7", "null", "\"x\""})
    EXPECT_REFUSED(read_bytes(safetensors(header, "")), "m.st: header: expected an object, found \"");
  EXPECT_REFUSED(read_bytes(safetensors("", "")), "m.st: ", "JSON");
  EXPECT_REFUSED(read_bytes(safetensors("{} x", "")), "m.st: ", "JSON");
  EXPECT_REFUSED(read_bytes(safetensors("{\"a\xff\":1}", "")), "m.st: ", "JSON", "UTF-8");
  EXPECT_REFUSED(read_bytes(safetensors("{\"a\":" + std::string(1'000'000, '['), "")),
                 "m.st: nested deeper than 64 levels");
  EXPECT_REFUSED(read_bytes(safetensors("{\"__metadata__\":[]}", "")),
                 "m.st: __metadata__: expected an object, found \"[]\"");
  EXPECT_REFUSED(read_bytes(safetensors("{\"__metadata__\":{\"a\":1}}", "")),
                 "m.st: __metadata__: expected a string for \"a\", found \"1\"");
}

TEST(BadSafetensors, Names) {
  EXPECT_REFUSED(read_bytes(safetensors("{" + safetensors_line("", "I8", "[0]", 0, 0) + "}", "")),
                 "m.st: tensor \"\": expected a name, found an empty one");
  EXPECT_REFUSED(read_bytes(safetensors("{" + safetensors_line("a\\u0000b", "I8", "[0]", 0, 0) + "}", "")),
                 "m.st: tensor \"a\\x00b\": expected a name without control characters");
  const std::string line = safetensors_line("a", "I8", "[1]", 0, 1);
  EXPECT_REFUSED(read_bytes(safetensors("{" + line + "," + line + "}", "x")), "m.st: the key \"a\" is there twice");
}

TEST(BadSafetensors, Fields) {
  EXPECT_REFUSED(read_object("7"), "m.st: tensor \"t\": expected an object with dtype, found \"7\"");
  EXPECT_REFUSED(read_object("{}"), "m.st: tensor \"t\": expected an object with dtype, found \"{}\"");
  EXPECT_REFUSED(read_object(R"({"dtype":"I8","data_offsets":[0,4]})"), "tensor \"t\": expected an object with shape");
  EXPECT_REFUSED(read_object(R"({"dtype":"I8","shape":[4]})"), "tensor \"t\": expected an object with data_offsets");
  EXPECT_REFUSED(read_object(R"({"dtype":"I8","shape":[4],"data_offsets":[0,4],"more":0})"),
                 "tensor \"t\": expected dtype, shape and data_offsets alone, found");
  EXPECT_REFUSED(read_object(R"({"dtype":8,"shape":[4],"data_offsets":[0,4]})"),
                 "tensor \"t\": dtype: expected a string, found \"8\"");
  for (const char* shape : {"4", "[-4]", "[4.0]", "[\"4\"]", "{}", "[18446744073709551616]", "[[4]]", "null"})
    EXPECT_REFUSED(read_object(R"({"dtype":"I8","shape":)" + std::string(shape) + R"(,"data_offsets":[0,4]})"),
                   "m.st: tensor \"t\": shape: expected a list of integers of at least 0, found \"");
  for (const char* offsets : {"[0]", "[0,1,2]", "[4,0]", "[0,5]", "[]", "[0,18446744073709551615]"})
    EXPECT_REFUSED(read_object(R"({"dtype":"I8","shape":[4],"data_offsets":)" + std::string(offsets) + "}"),
                   "m.st: tensor \"t\": data_offsets: expected a beginning and an end in 4 bytes of data, found \"");
  EXPECT_REFUSED(read_object(R"({"dtype":"I8","shape":[4],"data_offsets":[0,-4]})"),
                 "tensor \"t\": data_offsets: expected a list of integers of at least 0, found \"[0,-4]\"");
}

TEST(BadSafetensors, SizesThatAreNotThoseOfTheShape) {
  const auto shape = [](const std::string& dtype, const std::string& dimensions) {
    return read_bytes(safetensors("{" + safetensors_line("t", dtype, dimensions, 0, 4) + "}", "abcd"));
  };
  EXPECT_NO_THROW(shape("I16", "[2]"));
  EXPECT_REFUSED(shape("I16", "[3]"),
                 "m.st: tensor \"t\": data_offsets: expected the bytes of 3 values of I16, found 4");
  EXPECT_REFUSED(shape("F64", "[]"), "expected the bytes of 1 values of F64, found 4");
  EXPECT_REFUSED(shape("F32", "[0]"), "expected the bytes of 0 values of F32, found 4");
  EXPECT_REFUSED(shape("U8", "[3]"), "expected the bytes of 3 values of U8, found 4");  // checked, though not read
  EXPECT_REFUSED(shape("F6_E2M3", "[5]"), "expected the bytes of 5 values of F6_E2M3, found 4");  // 30 bits
  EXPECT_REFUSED(shape("I8", "[4294967296,4294967296]"), "expected the bytes of 4294967296 x 4294967296 values of I8");
  EXPECT_REFUSED(shape("F32", "[4611686018427387905]"), "4611686018427387905");  // 4 bytes, if it went round
  EXPECT_REFUSED(shape("I8", "[4294967296,4294967296,0]"), "found 4");
}

TEST(BadSafetensors, GapsAndOverlaps) {
  const auto two = [](uint64_t begin, uint64_t end, const std::string& data) {
    return read_bytes(safetensors("{" + safetensors_line("a", "I8", "[3]", 0, 3) + "," +
                                      safetensors_line("b", "I8", "[" + std::to_string(end - begin) + "]", begin, end) +
                                      "}",
                                  data));
  };
  EXPECT_NO_THROW(two(3, 5, "abcde"));
  EXPECT_REFUSED(two(4, 6, "abcdef"),
                 "m.st: tensor b: data_offsets: expected to begin at 3, where the data before it end, found 4");
  EXPECT_REFUSED(two(2, 4, "abcd"), "m.st: tensor b: data_offsets: expected to begin at 3", "found 2");
  EXPECT_REFUSED(two(0, 3, "abc"), "data_offsets: expected to begin at 3", "found 0");
  EXPECT_REFUSED(two(3, 4, "abcdef"), "m.st: data: expected 4 bytes, as many as the tensors have, found 6");
}

}  // namespace
}  // namespace heddle::formats
