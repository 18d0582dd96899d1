// safetensors: one file and several, the types and shapes there are, and what heddle has no form for.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "tests/formats/built_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;
using namespace test;
using heddle::test::Folder;
using quant::Format;

std::string letters_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(Safetensors, ReadsEveryTypeThatHasAFormat) {
  const struct {
    const char* dtype;
    uint64_t bytes;
    Format format;
  } types[] = {{"F64", 8, Format::f64}, {"F32", 4, Format::f32}, {"F16", 2, Format::f16}, {"BF16", 2, Format::bf16},
               {"I64", 8, Format::i64}, {"I32", 4, Format::i32}, {"I16", 2, Format::i16}, {"I8", 1, Format::i8}};
  for (const auto& type : types) {
    const std::string data(type.bytes * 6, 'x');
    const std::string bytes = safetensors("{" + safetensors_line("t", type.dtype, "[2,3]", 0, data.size()) + "}", data);
    const auto tensors = read_safetensors(bytes_of(bytes), "m.safetensors");
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].name, "t");
    EXPECT_EQ(tensors[0].format, type.format);
    EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{3, 2}));  // a row has 3
    EXPECT_EQ(tensors[0].bytes(), data.size());
    EXPECT_EQ(letters_of(tensors[0].view), data);
  }
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + safetensors_line("a", "I8", "[3]", 5, 8) + "," +
                             safetensors_line("z", "I8", "[]", 0, 1) + "," +
                             safetensors_line("b", "I16", "[1,1,2,1]", 1, 5) + "}   \n ";  // padded with spaces
  const std::string bytes = safetensors(header, "zbbbbaaa");
  const auto tensors = read_safetensors(bytes_of(bytes), "m.safetensors");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "z");
  EXPECT_EQ(tensors[0].shape, std::vector<uint64_t>{1});  // a single value
  EXPECT_EQ(letters_of(tensors[0].view), "z");
  EXPECT_EQ(tensors[1].shape, (std::vector<uint64_t>{1, 2, 1, 1}));
  EXPECT_EQ(letters_of(tensors[1].view), "bbbb");  // on an odd address: nothing is aligned
  EXPECT_EQ(letters_of(tensors[2].view), "aaa");
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(read_safetensors(bytes_of(safetensors("{}", "")), "m").empty());
  EXPECT_TRUE(read_safetensors(bytes_of(safetensors("{\"__metadata__\":{}}", "")), "m").empty());
}

// Such a buffer beside the weights does not keep a model from being opened; asking for it is an Error that says why.
TEST(Safetensors, WhatHasNoFormIsNamedAndRefusedOnlyWhenItIsNeeded) {
  const std::string header =
      "{" + safetensors_line("mask", "BOOL", "[2]", 0, 2) + "," + safetensors_line("f8", "F8_E4M3", "[3]", 2, 5) + "," +
      safetensors_line("nothing", "F32", "[0,7]", 5, 5) + "," + safetensors_line("conv", "I8", "[1,1,1,1,2]", 5, 7) +
      "," + safetensors_line("f4", "F4", "[4]", 7, 9) + "," + safetensors_line("new", "F3_NEW", "[100]", 9, 10) + "," +
      safetensors_line("w", "I8", "[1]", 10, 11) + "}";
  const std::string bytes = safetensors(header, "0123456789w");
  EXPECT_REFUSED(read_safetensors(bytes_of(bytes), "m.safetensors"),
                 "m.safetensors: tensor \"mask\" has the type BOOL, which heddle does not read");
  const Folder folder;
  folder.write("model.safetensors", bytes);
  const Checkpoint checkpoint = read_safetensors_folder(folder.path());
  ASSERT_EQ(checkpoint.tensors.size(), 1u);
  EXPECT_EQ(letters_of(checkpoint.tensor("w").view), "w");
  EXPECT_EQ(checkpoint.unreadable.size(), 6u);
  EXPECT_REFUSED(checkpoint.find("mask"), folder.path().string(), "tensor mask has the type BOOL");
  EXPECT_REFUSED(checkpoint.find("f8"), "tensor f8 has the type F8_E4M3");
  EXPECT_REFUSED(checkpoint.find("nothing"), "tensor nothing has no values");
  EXPECT_REFUSED(checkpoint.find("conv"), "tensor conv has 5 dimensions");
  EXPECT_REFUSED(checkpoint.tensor("f4"), "tensor f4 has the type F4");
  EXPECT_REFUSED(checkpoint.tensor("new"), "tensor new has the type \"F3_NEW\"");
  EXPECT_EQ(checkpoint.find("other"), nullptr);
  EXPECT_REFUSED(checkpoint.tensor("other"), "tensor other: expected, but not among the 1 tensors of the file",
                 "not read: mask has the type BOOL", "and 3 more");
}

// Two tensors in two files, and an index.
struct Sharded {
  Folder folder;
  static std::string shard(const std::string& name) {
    return safetensors("{" + safetensors_line(name, "I8", "[1]", 0, 1) + "}", name);
  }
  static std::string index(const std::string& map) {
    return R"({"metadata":{"total_size":2},"weight_map":{)" + map + "}}";
  }
  Sharded() {
    folder.write("one.safetensors", shard("a"));
    folder.write("two.safetensors", shard("b"));
    write_index(R"("a":"one.safetensors","b":"two.safetensors")");
  }
  void write_index(const std::string& map) const { folder.write("model.safetensors.index.json", index(map)); }
  const fs::path& path() const { return folder.path(); }
};

TEST(SafetensorsFolder, TheIndexNamesTheParts) {
  const Sharded sharded;
  for (const fs::path& path : {sharded.path(), sharded.path() / "two.safetensors"}) {  // one file stands for all
    const Checkpoint checkpoint = read_safetensors_folder(path);
    EXPECT_EQ(checkpoint.kind, Checkpoint::Kind::safetensors);
    EXPECT_EQ(checkpoint.path, path);
    EXPECT_EQ(checkpoint.files.size(), 2u);
    ASSERT_EQ(checkpoint.tensors.size(), 2u);
    EXPECT_EQ(letters_of(checkpoint.tensor("a").view), "a");
    EXPECT_EQ(letters_of(checkpoint.tensor("b").view), "b");
    EXPECT_TRUE(checkpoint.metadata.all().empty());
  }
  sharded.folder.write("other.safetensors", Sharded::shard("x"));  // the index does not speak of it
  EXPECT_EQ(read_safetensors_folder(sharded.path() / "other.safetensors").tensors.at(0).name, "x");
  sharded.folder.write("model.safetensors", Sharded::shard("x"));
  EXPECT_REFUSED(read_safetensors_folder(sharded.path()), sharded.path().string(), "expected one model in the folder",
                 "found model.safetensors and model.safetensors.index.json of other files");
}

TEST(SafetensorsFolder, IndexAndPartsMustAgree) {
  const Sharded sharded;
  const std::string index = "model.safetensors.index.json";
  const auto refused = [&](const std::string& map) {
    sharded.write_index(map);
    return heddle::test::refusal([&] { read_safetensors_folder(sharded.path()); });
  };
  using heddle::test::expect_says;
  expect_says(refused(R"("a":"one.safetensors","b":"three.safetensors")"),
              {index, "expected the file three.safetensors", "not there"});
  expect_says(refused(R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")"),
              {"two.safetensors: tensor \"c\": expected, as " + index + " says, but not there"});
  expect_says(refused(R"("a":"one.safetensors","c":"two.safetensors")"),
              {"two.safetensors: tensor b: expected only tensors that " + index + " names, found one more"});
  for (const char* name : {"../one.safetensors", "/etc/passwd", "a/b", "a\\\\b", "..", ".", "", "a\\u0000b"})
    expect_says(refused(R"("a":")" + std::string(name) + "\""),
                {index, "weight_map: tensor \"a\": expected the name of a file beside it, found \""});
  expect_says(refused(R"("a":7)"), {index, "weight_map: tensor \"a\": expected the name of a file", "found \"7\""});
  expect_says(refused(R"("a":"one.safetensors","a":"two.safetensors")"), {index, "the key \"a\" is there twice"});
  expect_says(refused(""), {index, "weight_map: expected tensors, found none"});
  for (const char* text : {"[]", "{}", "7", R"({"weight_map":[]})"}) {
    sharded.folder.write(index, text);
    EXPECT_REFUSED(read_safetensors_folder(sharded.path()), index, "weight_map: expected an object, found ");
  }
  sharded.folder.write(index, "{");
  EXPECT_REFUSED(read_safetensors_folder(sharded.path()), index, "no valid JSON");
}

TEST(SafetensorsFolder, ReadsTheTextsBesideTheWeights) {
  const Folder folder;
  folder.write("model.safetensors", safetensors("{}", ""));
  EXPECT_EQ(read_safetensors_folder(folder.path()).text.tokenizer, "");
  folder.write("tokenizer.json", "1");
  folder.write("tokenizer_config.json", "2");
  folder.write("special_tokens_map.json", "3");
  folder.write("generation_config.json", "4");
  folder.write("chat_template.jinja", "sch\xc3\xb6n");
  for (const fs::path& path : {folder.path(), folder.path() / "model.safetensors"}) {
    const TextFiles text = read_safetensors_folder(path).text;
    EXPECT_EQ(text.tokenizer, "1");
    EXPECT_EQ(text.tokenizer_config, "2");
    EXPECT_EQ(text.special_tokens, "3");
    EXPECT_EQ(text.generation, "4");
    EXPECT_EQ(text.chat_template, "sch\xc3\xb6n");
  }
  folder.write("chat_template.jinja", "abc\xff");
  EXPECT_REFUSED(read_safetensors_folder(folder.path()),
                 "chat_template.jinja: expected UTF-8, found the byte 0xff at byte 3");
}

TEST(SafetensorsFolder, WithoutAModelIsRefused) {
  const Folder folder;
  EXPECT_REFUSED(read_safetensors_folder(folder.path()), folder.path().string(), "expected model.safetensors or ",
                 "found neither");
  EXPECT_REFUSED(read_safetensors_folder(folder.path() / "x"), "x: cannot be read: No such file");
}

TEST(SafetensorsFolder, TheShardsOfOthersAreTheWholeModel) {
  SHARED_DATA(whole, "weights/stories260K-hf-f32");
  SHARED_DATA(shards, "weights/stories260K-hf-f32-sharded");
  const Checkpoint a = read_safetensors_folder(whole), b = read_safetensors_folder(shards);
  EXPECT_EQ(b.files.size(), 4u);
  EXPECT_GT(a.tensors.size(), 40u);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const Tensor& t : a.tensors) {
    const Tensor& other = b.tensor(t.name);
    EXPECT_EQ(t.shape, other.shape);
    EXPECT_EQ(t.format, other.format);
    EXPECT_TRUE(std::ranges::equal(t.view, other.view)) << t.name;
  }
  EXPECT_EQ(a.text.tokenizer, b.text.tokenizer);
  EXPECT_GT(a.text.tokenizer.size(), 10000u);
}

}  // namespace
}  // namespace heddle::formats
