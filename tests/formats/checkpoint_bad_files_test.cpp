// GGUF and safetensors files with one fault each: the message names the file, the field, what was expected and what was
// found, and no count makes heddle allocate more than the file could fill.
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

constexpr uint64_t huge = uint64_t{1} << 63;

Checkpoint read(const std::string& bytes) { return read_gguf(bytes_of(bytes), "m.gguf"); }

// A file with one key, or with one tensor and 64 bytes of data.
std::string with_key(const std::string& encoded) {
  GgufBytes file;
  file.keys = {encoded};
  return file.bytes();
}
std::string with_tensors(const std::vector<std::string>& encoded) {
  GgufBytes file;
  file.tensors = encoded;
  file.data = std::string(64, 'x');
  return file.bytes();
}

TEST(BadGguf, CutAnywhereIsRefused) {
  const std::string whole = small_gguf().bytes();
  ASSERT_NO_THROW(read(whole));
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string message = heddle::test::refusal([&] { read(whole.substr(0, length)); });
    heddle::test::expect_says(message, {"m.gguf: ", "expected ", "found "});
    if (HasFailure()) FAIL() << "cut to " << length << " bytes";
  }
}

// Whatever one byte becomes, the file is read or refused; the data are not looked at here.
TEST(BadGguf, AnyByteChangedIsReadOrRefused) {
  const std::string whole = small_gguf().bytes();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size() - small_gguf().data.size(); ++at)
    for (const int change : {0x01, 0x20, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      try {
        read(changed);
      } catch (const Error& error) {
        ++refused;
        EXPECT_TRUE(std::string_view(error.what()).starts_with("m.gguf: ")) << error.what();
      }
    }
  EXPECT_GT(refused, whole.size());  // more than one in four
}

TEST(BadGguf, MagicAndVersion) {
  GgufBytes file;
  file.magic = "GGML";
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: magic: expected \"GGUF\", found \"GGML\"");
  file.magic = std::string("\0\xff\n\"", 4);
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: magic: expected \"GGUF\", found \"\\x00\\xff\\n\\\"\"");
  file.magic = "GGUF";
  file.version = 0;
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: version: expected 2 or 3, found 0");
  file.version = 1;
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: version: expected 2 or 3, found 1: the first version");
  file.version = 4;
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: version: expected 2 or 3, found 4");
  file.version = 0x03000000;
  EXPECT_REFUSED(read(file.bytes()),
                 "m.gguf: version: expected a little-endian file, found a big-endian one of version 3");
}

// Counts that no file of this size can hold, among them some whose products overflow. Quick means: nothing was
// reserved.
TEST(BadGguf, AbsurdCountsAreRefusedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  for (const uint64_t count : {uint64_t{100}, uint64_t{1} << 32, huge - 1, huge, ~uint64_t{0}, ~uint64_t{0} / 8 + 1}) {
    const std::string found = "found " + std::to_string(count);
    GgufBytes file;
    file.key_count = count;
    EXPECT_REFUSED(read(file.bytes()), "m.gguf: metadata count: expected at most 0", found);
    file.key_count.reset();
    file.tensor_count = count;
    EXPECT_REFUSED(read(file.bytes()), "m.gguf: tensor count: expected at most 0", found);
    for (const uint32_t type : {0u, 3u, 5u, 7u, 8u, 12u})
      EXPECT_REFUSED(read(with_key(array_key("a", type, count, ""))), "m.gguf: metadata a: expected at most 0", found);
    EXPECT_REFUSED(read(with_key(key("a", 8, raw(count)))), "m.gguf: metadata a: expected " + std::to_string(count),
                   "bytes for the value", "found 0");
    EXPECT_REFUSED(read(with_key(array_key("a", 8, 1, raw(count)))), "m.gguf: metadata a: expected ",
                   "bytes for a string of the array");
    EXPECT_REFUSED(read(with_key(raw(count) + std::string(6, 'x'))), "m.gguf: metadata key 1 of 1: expected",
                   "bytes for the key");
    EXPECT_REFUSED(read(with_tensors({raw(count) + std::string(17, 'x')})), "m.gguf: tensor 1 of 1");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(BadGguf, KeysAndValues) {
  EXPECT_REFUSED(read(with_key(key("a", 13, raw(uint64_t{0})))),
                 "m.gguf: metadata a: expected a type of value from 0 to 12, found 13");
  EXPECT_REFUSED(read(with_key(key("a", ~0u, raw(uint64_t{0})))), "found 4294967295");
  EXPECT_REFUSED(read(with_key(array_key("a", 9, 1, raw(uint32_t{0}) + raw(uint64_t{0})))),
                 "m.gguf: metadata a: expected an array of values, found an array of arrays");
  EXPECT_REFUSED(read(with_key(array_key("a", 77, 1, "x"))), "expected a type of value from 0 to 12, found 77");
  EXPECT_REFUSED(read(with_key(key("a", 7, "\x02"))), "m.gguf: metadata a: expected a bool, 0 or 1, found 2");
  EXPECT_REFUSED(read(with_key(array_key("a", 7, 2, "\x01\xff"))), "metadata a: expected a bool, 0 or 1, found 255");
  EXPECT_REFUSED(read(with_key(u32_key("", 1))), "m.gguf: metadata key 1 of 1: expected a name, found an empty one");
  GgufBytes file;
  file.keys = {u32_key("a", 1), u32_key("b", 1), u32_key("a", 2)};
  EXPECT_REFUSED(read(file.bytes()), "m.gguf: metadata a: expected every key once, found it twice");
}

TEST(BadGguf, NamesAreUtf8WithoutControlCharacters) {
  for (const std::string_view name : {std::string_view("a\xff"), std::string_view("a\0b", 3), std::string_view("a\nb"),
                                      std::string_view("\xc2\x85"), std::string_view("\xed\xa0\x80")}) {
    EXPECT_REFUSED(read(with_key(u32_key(name, 1))),
                   "m.gguf: metadata key 1 of 1: expected a name in UTF-8 without control characters, found \"");
    EXPECT_REFUSED(read(with_tensors({tensor(name, {1}, 24, 0)})),
                   "m.gguf: tensor 1 of 1: expected a name in UTF-8 without control characters, found \"");
  }
  EXPECT_NO_THROW(read(with_key(u32_key(std::string(65535, 'a'), 1))));
  EXPECT_REFUSED(read(with_key(u32_key(std::string(65536, 'a'), 1))),
                 "m.gguf: metadata key 1 of 1: expected at most 65535 bytes of name, found 65536");
  EXPECT_NO_THROW(read(with_key(u32_key("sch\xc3\xb6n", 1))));
  EXPECT_NO_THROW(read(with_key(string_key("a", "\xff\n"))));  // a value may be any bytes: tokens are
}

TEST(BadGguf, Alignment) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 1u << 21, ~0u})
    EXPECT_REFUSED(
        read(with_key(u32_key("general.alignment", alignment))),
        "m.gguf: general.alignment: expected a power of two from 8 to 1048576, found " + std::to_string(alignment));
  EXPECT_REFUSED(read(with_key(string_key("general.alignment", "32"))),
                 "m.gguf: general.alignment: expected an integer", "found the string \"32\"");
}

TEST(BadGguf, ShapesAndTypesOfTensors) {
  const auto one = [](const std::vector<uint64_t>& shape, uint32_t type) {
    return with_tensors({tensor("t", shape, type, 0)});
  };
  EXPECT_REFUSED(read(one({1, 1, 1, 1, 1}, 0)), "m.gguf: tensor t: expected at most 4 dimensions, found 5");
  EXPECT_REFUSED(read(with_tensors({text("t") + raw(~0u) + std::string(12, '\0')})), "found 4294967295");
  EXPECT_REFUSED(read(one({0}, 0)), "m.gguf: tensor t: expected dimensions of at least 1, found 0");
  EXPECT_REFUSED(read(one({2, 0, 3}, 0)), "m.gguf: tensor t: expected dimensions of at least 1, found 2 x 0 x 3");
  for (const uint32_t type : {4u, 5u, 31u, 36u, 1000u, ~0u})
    EXPECT_REFUSED(
        read(one({32}, type)),
        "m.gguf: tensor t: expected a type of tensor that heddle knows, found number " + std::to_string(type));
  EXPECT_REFUSED(read(one({33}, 2)),
                 "m.gguf: tensor t: expected rows of a multiple of 32 values, the block of q4_0, found 33");
  EXPECT_REFUSED(read(one({32, 8}, 12)),
                 "tensor t: expected rows of a multiple of 256 values, the block of q4_k, found 32");
  const uint64_t half = uint64_t{1} << 32;
  EXPECT_REFUSED(read(one({half, half}, 0)),
                 "m.gguf: tensor t: expected a size below 2^64 bytes, found 4294967296 x 4294967296 values of f32");
  EXPECT_REFUSED(read(one({half, half, half, half}, 24)), "expected a size below 2^64 bytes");
  EXPECT_REFUSED(read(one({huge, 2}, 24)), "expected a size below 2^64 bytes");
  EXPECT_REFUSED(read(one({huge, 2, 2, 2}, 0)), "expected a size below 2^64 bytes");  // the product is 0 again
  EXPECT_REFUSED(read(one({~uint64_t{0}}, 24)), "m.gguf: tensor t: expected 18446744073709551615 bytes at offset 0",
                 "found only 64 bytes of data");
}

TEST(BadGguf, OffsetsOfTensors) {
  const auto at = [](uint64_t offset) { return with_tensors({tensor("t", {16}, 0, offset)}); };
  EXPECT_NO_THROW(read(at(0)));
  EXPECT_REFUSED(read(at(32)), "m.gguf: tensor t: expected 64 bytes at offset 32 of the data, found only 64 bytes");
  EXPECT_REFUSED(read(at(uint64_t{0} - 32)), "tensor t: expected 64 bytes at offset 18446744073709551584 of the data");
  EXPECT_REFUSED(read(at(huge)), "tensor t: expected 64 bytes at offset");
  EXPECT_REFUSED(read(at(16)), "m.gguf: tensor t: expected an offset that is a multiple of 32, found 16");
  EXPECT_REFUSED(read(with_tensors({tensor("a", {1}, 24, 32), tensor("b", {33}, 24, 0)})),
                 "m.gguf: tensor a: expected an offset of at least 33, the end of tensor b, found 32");
  EXPECT_REFUSED(read(with_tensors({tensor("a", {1}, 24, 0), tensor("b", {1}, 24, 0)})), "m.gguf: tensor ",
                 "expected an offset of at least 1", "found 0");
  EXPECT_REFUSED(read(with_tensors({tensor("a", {1}, 24, 0), tensor("a", {1}, 24, 32)})),
                 "m.gguf: tensor \"a\": expected every name once, found it twice");
}

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

// The seeds of the fuzz targets are what their names say: good ones are read, bad ones refused.
template <class Read>
void try_seeds(const char* name, Read read) {
  size_t good = 0, bad = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/fuzz/corpus" / name)) {
    const std::string bytes = heddle::test::contents(entry.path());
    const bool is_good = entry.path().filename().string().starts_with("good");
    ++(is_good ? good : bad);
    if (is_good)
      EXPECT_NO_THROW(read(test::bytes_of(bytes))) << entry.path();
    else
      EXPECT_THROW(read(test::bytes_of(bytes)), Error) << entry.path();
  }
  EXPECT_GE(good, 3u);
  EXPECT_GE(bad, 3u);
}

TEST(FuzzSeeds, OfGguf) {
  try_seeds("gguf", [](std::span<const uint8_t> bytes) { read_gguf(bytes, "seed"); });
}
TEST(FuzzSeeds, OfSafetensors) {
  std::vector<Unreadable> unreadable;
  try_seeds("safetensors", [&](std::span<const uint8_t> bytes) { read_safetensors(bytes, "seed", &unreadable); });
  EXPECT_EQ(unreadable.size(), 5u);
}

}  // namespace
}  // namespace heddle::formats
