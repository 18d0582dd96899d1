// GGUF read and written: every type of value, alignment, split files, and real files written again byte by byte.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/formats/built_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;
using namespace test;
using heddle::test::contents;
using heddle::test::Folder;

std::string text_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(Gguf, ReadsEveryTypeOfValue) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBytes file = small_gguf();
    file.version = version;
    const std::string bytes = file.bytes();
    const Checkpoint checkpoint = read_gguf(bytes_of(bytes), "m.gguf");
    const Metadata& m = checkpoint.metadata;
    ASSERT_EQ(m.all().size(), 16u);
    EXPECT_EQ(checkpoint.architecture(), "llama");
    EXPECT_EQ(*m.find("u8"), Value(uint8_t{200}));
    EXPECT_EQ(*m.find("i8"), Value(int8_t{-100}));
    EXPECT_EQ(*m.find("u16"), Value(uint16_t{60000}));
    EXPECT_EQ(*m.find("i16"), Value(int16_t{-30000}));
    EXPECT_EQ(*m.find("u32"), Value(uint32_t{4'000'000'000}));
    EXPECT_EQ(*m.find("i32"), Value(int32_t{-2'000'000'000}));
    EXPECT_EQ(*m.find("f32"), Value(1.5f));
    EXPECT_EQ(*m.find("bool"), Value(true));
    EXPECT_EQ(*m.find("u64"), Value(uint64_t{1} << 63));
    EXPECT_EQ(*m.find("i64"), Value(int64_t{-1} << 62));
    EXPECT_EQ(*m.find("f64"), Value(0.1));
    EXPECT_EQ(m.array("tokens").strings(), (std::vector<std::string_view>{"a", "", {"\xff\0z", 3}}));
    EXPECT_EQ(m.array("scores").numbers(), (std::vector<double>{0.5, -0.5}));
    EXPECT_EQ(m.array("flags").integers(), (std::vector<int64_t>{1, 0}));
    EXPECT_EQ(m.array("none").size(), 0u);

    ASSERT_EQ(checkpoint.tensors.size(), 2u);
    const Tensor& norm = checkpoint.tensor("norm.weight");
    EXPECT_EQ(norm.shape, std::vector<uint64_t>{3});
    EXPECT_EQ(norm.format, quant::Format::f32);
    EXPECT_EQ(text_of(norm.view), file.data.substr(0, 12));
    const Tensor& q = checkpoint.tensor("q.weight");
    EXPECT_EQ(q.shape, (std::vector<uint64_t>{32, 2}));
    EXPECT_EQ(q.format, quant::Format::q4_0);
    EXPECT_EQ(text_of(q.view), file.data.substr(32, 36));
    EXPECT_EQ(q.view.data(), bytes_of(bytes).data() + bytes.size() - 36);  // nothing was copied
  }
}

TEST(Gguf, HonoursTheAlignment) {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u, 1u << 20}) {
    GgufBytes file;
    file.alignment = alignment;
    file.keys = {u32_key("general.alignment", alignment)};
    file.tensors = {tensor("b", {1}, 24, alignment), tensor("a", {2}, 24, 0)};  // i8, the later one first
    file.data = "xy" + std::string(alignment - 2, '\0') + "z";
    const std::string bytes = file.bytes();
    const Checkpoint checkpoint = read_gguf(bytes_of(bytes), "m.gguf");
    EXPECT_EQ(text_of(checkpoint.tensor("a").view), "xy");
    EXPECT_EQ(text_of(checkpoint.tensor("b").view), "z");
  }
}

TEST(Gguf, ReadsAFileWithoutTensorsOrKeys) {
  const std::string bytes = GgufBytes{}.bytes();
  EXPECT_EQ(bytes.size(), 24u);
  const Checkpoint checkpoint = read_gguf(bytes_of(bytes), "m.gguf");
  EXPECT_TRUE(checkpoint.tensors.empty());
  EXPECT_REFUSED(checkpoint.architecture(), "m.gguf", "general.architecture");
}

TEST(Gguf, ReadsASingleValueWithoutDimensions) {
  GgufBytes file;
  file.tensors = {tensor("scale", {}, 0, 0)};
  file.data = raw(2.f);
  const std::string bytes = file.bytes();
  EXPECT_EQ(read_gguf(bytes_of(bytes), "m.gguf").tensor("scale").shape, std::vector<uint64_t>{1});
}

// Writes a checkpoint again, the last tensor in pieces.
void write_again(const Checkpoint& checkpoint, const fs::path& path) {
  std::vector<GgufWriter::Announced> announced;
  for (const Tensor& t : checkpoint.tensors) announced.push_back({t.name, t.shape, t.format});
  GgufWriter writer(path, checkpoint.metadata, announced);
  for (const Tensor& t : checkpoint.tensors) {
    if (&t != &checkpoint.tensors.back()) {
      writer.write(t.view);
    } else {
      writer.write_slice(t.view.first(t.view.size() / 3));
      writer.write_slice({});
      writer.write_slice(t.view.subspan(t.view.size() / 3));
    }
  }
  EXPECT_FALSE(fs::exists(path));
  writer.commit();
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.metadata.all().size(), b.metadata.all().size());
  for (size_t i = 0; i < a.metadata.all().size(); ++i) {
    EXPECT_EQ(a.metadata.all()[i].first, b.metadata.all()[i].first);
    EXPECT_TRUE(a.metadata.all()[i].second == b.metadata.all()[i].second) << a.metadata.all()[i].first;
  }
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor &x = a.tensors[i], &y = b.tensors[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_EQ(x.format, y.format);
    EXPECT_TRUE(std::ranges::equal(x.view, y.view)) << x.name;
  }
}

TEST(GgufWriter, WritesWhatWasReadByteForByte) {
  const Folder folder;
  GgufBytes file = small_gguf();
  file.data.resize(32 + 64);  // the last tensor padded, too
  const std::string bytes = file.bytes();
  write_again(read_gguf(bytes_of(bytes), "m.gguf"), folder.path() / "again.gguf");
  EXPECT_EQ(contents(folder.path() / "again.gguf"), bytes);
  EXPECT_EQ(folder.files(), 1u);

  file.keys.push_back(u32_key("general.alignment", 128));
  file.alignment = 128;
  file.tensors[1] = tensor("q.weight", {32, 2}, 2, 128);
  file.data = file.data.substr(0, 12) + std::string(116, '\0') + file.data.substr(32, 36) + std::string(92, '\0');
  const std::string wide = file.bytes();
  write_again(read_gguf(bytes_of(wide), "m.gguf"), folder.path() / "wide.gguf");
  EXPECT_EQ(contents(folder.path() / "wide.gguf"), wide);
}

TEST(GgufWriter, LeavesNothingBehindWhenItIsNotFinished) {
  const Folder folder;
  const fs::path path = folder.path() / "m.gguf";
  {
    GgufWriter writer(path, Metadata(), {{"a", {4}, quant::Format::i8}});
    writer.write_slice(bytes_of("xy"));
  }
  EXPECT_EQ(folder.files(), 0u);
}

TEST(GgufWriter, RefusesDataThatWereNotAnnounced) {
  const Folder folder;
  const fs::path path = folder.path() / "m.gguf";
  GgufWriter writer(path, Metadata(), {{"a", {4}, quant::Format::i8}, {"b", {1}, quant::Format::i8}});
  EXPECT_THROW(writer.write(bytes_of("xyz")), std::logic_error);
  EXPECT_THROW(writer.write(bytes_of("uvxyz")), std::logic_error);
  EXPECT_THROW(writer.write_slice(bytes_of("uvxyz")), std::logic_error);
  writer.write_slice(bytes_of("u"));
  EXPECT_THROW(writer.write(bytes_of("vxy")), std::logic_error);
  writer.write_slice(bytes_of("vxy"));
  EXPECT_THROW(writer.commit(), std::logic_error);
  writer.write(bytes_of("z"));
  EXPECT_THROW(writer.write(bytes_of("z")), std::logic_error);
  writer.commit();
  const Checkpoint checkpoint = read_gguf(path);
  EXPECT_EQ(text_of(checkpoint.tensor("a").view), "uvxy");
  EXPECT_EQ(text_of(checkpoint.tensor("b").view), "z");

  using Announced = std::vector<GgufWriter::Announced>;
  const auto announce = [&](const Announced& tensors) { GgufWriter(folder.path() / "n.gguf", Metadata(), tensors); };
  EXPECT_THROW(announce({{"a", {}, quant::Format::i8}}), std::logic_error);
  EXPECT_THROW(announce({{"a", {1, 0}, quant::Format::i8}}), std::logic_error);
  EXPECT_THROW(announce({{"a", {1, 1, 1, 1, 1}, quant::Format::i8}}), std::logic_error);
  EXPECT_THROW(announce({{"a", {1}, quant::Format::i8}, {"a", {1}, quant::Format::i8}}), std::logic_error);
  EXPECT_THROW(announce({{"a", {33}, quant::Format::q4_0}}), Error);
  Metadata odd("m.gguf");
  odd.set("general.alignment", uint32_t{48});
  EXPECT_REFUSED(GgufWriter(folder.path() / "n.gguf", odd, {}), "general.alignment", "power of two", "found 48");
  EXPECT_EQ(folder.files(), 1u);
}

// NAME-00001-of-00003.gguf and so on, a tensor in each.
struct Split {
  Folder folder;
  static GgufBytes file_of(uint16_t number, uint16_t count = 3, int32_t tensors = 3) {
    GgufBytes file;
    file.keys = {key("split.no", 2, raw(number)), key("split.count", 2, raw(count)),
                 key("split.tensors.count", 5, raw(tensors))};
    if (number == 0) file.keys.insert(file.keys.begin(), string_key("general.architecture", "llama"));
    file.tensors = {tensor("t" + std::to_string(number), {1}, 24, 0)};
    file.data = std::string(1, static_cast<char>('a' + number));
    return file;
  }
  fs::path path(int number) const { return folder.path() / ("m-0000" + std::to_string(number + 1) + "-of-00003.gguf"); }
  void write(int number, const GgufBytes& file) const { folder.write(path(number).filename().string(), file.bytes()); }
  Split() {
    for (uint16_t i = 0; i < 3; ++i) write(i, file_of(i));
  }
};

TEST(GgufSplit, AnyPartOpensAll) {
  const Split split;
  for (int i = 0; i < 3; ++i) {
    const Checkpoint checkpoint = read_gguf(split.path(i));
    EXPECT_EQ(checkpoint.path, split.path(i));
    EXPECT_EQ(checkpoint.architecture(), "llama");
    EXPECT_EQ(checkpoint.metadata.all().size(), 1u);  // it is whole: no split.* any more
    EXPECT_EQ(checkpoint.files.size(), 3u);
    EXPECT_EQ(checkpoint.file_bytes(),
              fs::file_size(split.path(0)) + fs::file_size(split.path(1)) + fs::file_size(split.path(2)));
    ASSERT_EQ(checkpoint.tensors.size(), 3u);
    for (int t = 0; t < 3; ++t)
      EXPECT_EQ(text_of(checkpoint.tensor("t" + std::to_string(t)).view), std::string(1, static_cast<char>('a' + t)));
  }
}

TEST(GgufSplit, FilesThatDoNotFitAreNamed) {
  const std::string second = "m-00002-of-00003.gguf";
  {
    const Split split;
    fs::remove(split.path(1));
    EXPECT_REFUSED(read_gguf(split.path(0)), second, "cannot be read", "No such file");
  }
  const auto with_second = [&](const GgufBytes& file) {
    const Split split;
    split.write(1, file);
    return heddle::test::refusal([&] { read_gguf(split.path(0)); });
  };
  heddle::test::expect_says(with_second(Split::file_of(2)), {second, "split.no: expected 1, found 2"});
  heddle::test::expect_says(with_second(Split::file_of(1, 4)), {second, "split.count: expected 3, found 4"});
  heddle::test::expect_says(with_second(Split::file_of(1, 3, 4)), {second, "split.tensors.count: expected 3, found 4"});
  GgufBytes without = Split::file_of(1);
  without.keys.erase(without.keys.begin());
  heddle::test::expect_says(with_second(without), {second, "split.no: expected an integer", "found no such key"});
  GgufBytes more = Split::file_of(1);
  more.tensors.push_back(tensor("more", {1}, 24, 32));
  more.data.resize(33);
  heddle::test::expect_says(with_second(more), {"split.tensors.count: expected 3 tensors in 3 files, found 4"});
  GgufBytes twice = Split::file_of(1);
  twice.tensors = {tensor("t0", {1}, 24, 0)};
  heddle::test::expect_says(with_second(twice), {"tensor \"t0\": expected every name once, found it twice"});
}

TEST(GgufSplit, NamesAndNumbersMustAgree) {
  const Folder folder;
  EXPECT_REFUSED(read_gguf(folder.write("renamed.gguf", Split::file_of(0).bytes())), "renamed.gguf: name: expected",
                 "-00001-of-00003.gguf");
  EXPECT_REFUSED(read_gguf(folder.write("m-00002-of-00003.gguf", Split::file_of(0).bytes())), "-00001-of-00003.gguf");
  EXPECT_REFUSED(read_gguf(folder.write("m-00004-of-00003.gguf", Split::file_of(3).bytes())), "split.no",
                 "expected a number below 3, found 3");
  const std::string bytes = Split::file_of(0).bytes();
  EXPECT_REFUSED(read_gguf(bytes_of(bytes), "m.gguf"),
                 "m.gguf: split.count: expected a model in one file, found one in 3");
}

// Files of other programs: read, written again, and compared byte by byte.
class GgufByOthers : public testing::TestWithParam<const char*> {};

TEST_P(GgufByOthers, IsWrittenAgainByteForByte) {
  SHARED_DATA(path, GetParam());
  const Folder folder;
  const fs::path again = folder.path() / "again.gguf";
  const Checkpoint checkpoint = read_gguf(path);
  write_again(checkpoint, again);
  expect_equal(checkpoint, read_gguf(again));
  EXPECT_TRUE(contents(again) == contents(path)) << "the bytes differ";
}
INSTANTIATE_TEST_SUITE_P(, GgufByOthers,
                         testing::Values("vocab/ggml-vocab-gpt-2.gguf", "vocab/ggml-vocab-llama-bpe.gguf",
                                         "vocab/ggml-vocab-llama-spm.gguf", "vocab/ggml-vocab-phi-3.gguf",
                                         "vocab/ggml-vocab-qwen2.gguf", "quant/ggml-quant-vectors.gguf",
                                         "weights/stories260K-f32.gguf", "weights/stories15M-Q4_0.gguf"));

TEST(Gguf, OpensALargeVocabularyWithoutCopyingIt) {
  SHARED_DATA(path, "vocab/ggml-vocab-llama-bpe.gguf");
  const auto begin = std::chrono::steady_clock::now();
  const Checkpoint checkpoint = read_gguf(path);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", std::to_string(took.count()));
  const Array& tokens = checkpoint.metadata.array("tokenizer.ggml.tokens");
  const auto file = checkpoint.files.at(0)->bytes();
  EXPECT_TRUE(tokens.encoded().data() > file.data() && tokens.encoded().data() < file.data() + file.size());
  const auto strings = tokens.strings();
  ASSERT_EQ(strings.size(), 128256u);
  EXPECT_EQ(strings[0], "!");
  EXPECT_EQ(strings[128000], "<|begin_of_text|>");
  EXPECT_EQ(checkpoint.metadata.array("tokenizer.ggml.merges").strings().size(), 280147u);
}

}  // namespace
}  // namespace heddle::formats
