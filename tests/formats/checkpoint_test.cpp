// Opening whatever lies at a path, and what every checkpoint can be asked.
#include "formats/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/formats/built_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;
using namespace test;
using heddle::test::Folder;

const std::string gguf = small_gguf().bytes();
const std::string one_tensor = safetensors("{" + safetensors_line("a", "I8", "[1]", 0, 1) + "}", "a");

TEST(OpenCheckpoint, KnowsAFileByItsBytes) {
  const Folder folder;
  const Checkpoint a = open_checkpoint(folder.write("model.bin", gguf));
  EXPECT_EQ(a.kind, Checkpoint::Kind::gguf);
  EXPECT_EQ(a.path, folder.path() / "model.bin");
  EXPECT_EQ(a.tensors.size(), 2u);
  EXPECT_EQ(a.file_bytes(), gguf.size());
  const Checkpoint b = open_checkpoint(folder.write("x.gguf", one_tensor));
  EXPECT_EQ(b.kind, Checkpoint::Kind::safetensors);
  EXPECT_EQ(b.tensor("a").view.size(), 1u);
  EXPECT_REFUSED(b.architecture(), "x.gguf: expected a config.json beside the weights, found none");
}

TEST(OpenCheckpoint, SaysWhatItFoundInstead) {
  const Folder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  EXPECT_REFUSED(open_checkpoint(at("no")), at("no") + ": there is no such file or folder");
  EXPECT_REFUSED(open_checkpoint(""), "there is no such file");
  EXPECT_REFUSED(open_checkpoint(folder.write("empty", "")),
                 at("empty") + ": expected a GGUF or safetensors file, found an empty one");
  EXPECT_REFUSED(open_checkpoint(folder.write("text", "Once upon a time\n")),
                 at("text") + ": expected a GGUF or safetensors file",
                 "found one that begins with \"Once upon a time\\n\"");
  EXPECT_REFUSED(open_checkpoint(folder.write("short", "GG")), "begins with \"GG\"");
  EXPECT_REFUSED(open_checkpoint(folder.write("json", "{\"a\": 1, \"b\": 2}")), "begins with");
  EXPECT_REFUSED(open_checkpoint(folder.write("torch", "PK\x03\x04zip")), "a zip archive, as PyTorch saves");
  EXPECT_REFUSED(open_checkpoint(folder.write("pickle", "\x80\x02}q")), "a pickle");
  EXPECT_REFUSED(open_checkpoint(folder.write("old", "tjgg....")), "a format before GGUF");
  EXPECT_REFUSED(open_checkpoint(folder.write("lfs", "version https://git-lfs.github.com/spec/v1\n")),
                 "Git LFS pointer");
  EXPECT_REFUSED(open_checkpoint(folder.write("cut", gguf.substr(0, 100))), at("cut") + ": ", "expected", "found");
  EXPECT_REFUSED(open_checkpoint("/dev/null"), "/dev/null: expected a file, found a device or pipe");
  EXPECT_REFUSED(open_checkpoint(std::string(5000, 'x')), "cannot be read: File name too long");
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_REFUSED(open_checkpoint(at("loop")), at("loop") + ": cannot be read: ");
}

TEST(OpenCheckpoint, AFileThatMayNotBeReadIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const Folder folder;
  const fs::path path = folder.write("m.gguf", gguf);
  fs::permissions(path, fs::perms::none);
  EXPECT_REFUSED(open_checkpoint(path), path.string() + ": cannot be read: Permission denied");
}

TEST(OpenCheckpoint, AFolderHoldsOneModel) {
  const Folder folder;
  EXPECT_REFUSED(open_checkpoint(folder.path()),
                 folder.path().string() + ": expected a GGUF file or model.safetensors");
  folder.write("README", "a model");
  fs::create_directory(folder.path() / "more.gguf");
  fs::create_symlink("loop", folder.path() / "loop");
  folder.write("m.data", gguf);  // by its bytes
  EXPECT_EQ(open_checkpoint(folder.path()).tensors.size(), 2u);
  folder.write("n.gguf", gguf);
  EXPECT_REFUSED(open_checkpoint(folder.path()),
                 folder.path().string() + ": expected one model in the folder, found 2: m.data, n.gguf");
  fs::remove(folder.path() / "n.gguf");
  folder.write("model.safetensors", one_tensor);
  EXPECT_REFUSED(open_checkpoint(folder.path()), "expected one model in the folder, found 2: safetensors, m.data");
  fs::remove(folder.path() / "m.data");
  EXPECT_EQ(open_checkpoint(folder.path()).tensors.size(), 1u);
}

TEST(OpenCheckpoint, ThePartsOfASplitModelAreOneModel) {
  const Folder folder;
  for (uint16_t i = 0; i < 2; ++i) {
    GgufBytes file;
    file.keys = {key("split.no", 2, raw(i)), key("split.count", 2, raw(uint16_t{2})),
                 key("split.tensors.count", 5, raw(int32_t{2}))};
    file.tensors = {tensor("t" + std::to_string(i), {1}, 24, 0)};
    file.data = "x";
    folder.write("m-0000" + std::to_string(i + 1) + "-of-00002.gguf", file.bytes());
  }
  EXPECT_EQ(open_checkpoint(folder.path()).tensors.size(), 2u);
  EXPECT_EQ(open_checkpoint(folder.path() / "m-00002-of-00002.gguf").tensors.size(), 2u);
  folder.write("m-0001-of-00002.gguf", gguf);  // not such a name
  EXPECT_REFUSED(open_checkpoint(folder.path()), "found 2: m, m-0001-of-00002.gguf");
}

TEST(OpenCheckpoint, TheConfigSaysWhatTheTensorsAre) {
  const Folder folder;
  folder.write("model.safetensors", one_tensor);
  folder.write("config.json", R"({"architectures": ["NobodyKnowsModel"]})");
  for (const fs::path& path : {folder.path(), folder.path() / "model.safetensors"}) {
    const Checkpoint checkpoint = open_checkpoint(path);
    EXPECT_EQ(checkpoint.unknown_class, "NobodyKnowsModel");
    EXPECT_NE(checkpoint.find("a"), nullptr);
    EXPECT_REFUSED(checkpoint.architecture(), path.string(),
                   "heddle does not know the model class \"NobodyKnowsModel\"");
  }
  folder.write("config.json", "{");
  EXPECT_REFUSED(open_checkpoint(folder.path()), "config.json: no valid JSON");
}

TEST(OpenCheckpoint, OpensAModelOfOthersInBothFormats) {
  SHARED_DATA(folder, "weights/stories260K-hf-f32-sharded");
  SHARED_DATA(file, "weights/stories260K-f32.gguf");
  const Checkpoint a = open_checkpoint(folder), b = open_checkpoint(file);
  EXPECT_EQ(a.architecture(), b.architecture());
  std::vector<uint8_t> scratch;
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.4.ffn_down.weight", "blk.2.attn_q.weight"}) {
    const auto x = a.tensor(name).data(scratch);
    EXPECT_TRUE(std::ranges::equal(x, b.tensor(name).view)) << name;
  }
}

TEST(Checkpoint, IsCalledByItsFile) {
  const auto name = [](const char* path, Checkpoint::Kind kind = Checkpoint::Kind::gguf) {
    Checkpoint checkpoint;
    checkpoint.path = path;
    checkpoint.kind = kind;
    return checkpoint.name();
  };
  EXPECT_EQ(name("weft"), "weft");
  EXPECT_EQ(name("/m/llama-3.1-8B-Q4_K_M.gguf"), "llama-3.1-8B-Q4_K_M");
  EXPECT_EQ(name("../m/big-00002-of-00005.gguf"), "big");
  EXPECT_EQ(name("one-of-these.gguf"), "one-of-these");
  EXPECT_EQ(name("/m/of my own.gguf"), "of my own");
  EXPECT_EQ(name("."), std::filesystem::current_path().filename().string());
  constexpr auto folder = Checkpoint::Kind::safetensors;
  EXPECT_EQ(name("/m/Qwen3-0.6B", folder), "Qwen3-0.6B");
  EXPECT_EQ(name("/m/Qwen3-0.6B/", folder), "Qwen3-0.6B");
  EXPECT_EQ(name("/m/Qwen3-0.6B/.", folder), "Qwen3-0.6B");
  EXPECT_EQ(name("/m/Qwen3-0.6B/model.safetensors", folder), "Qwen3-0.6B");
  EXPECT_EQ(name("/m/Qwen3-0.6B/model-00001-of-00002.safetensors", folder), "Qwen3-0.6B");
}

TEST(Checkpoint, FindsTensorsByName) {
  Checkpoint checkpoint;
  checkpoint.path = "m";
  for (const char* name : {"a", "b", "c"}) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = {4, 3, 2};
    checkpoint.tensors.push_back(tensor);
  }
  checkpoint.index();
  const Checkpoint moved = std::move(checkpoint);
  const Checkpoint copy = moved;
  EXPECT_EQ(copy.find("b"), &copy.tensors[1]);
  EXPECT_EQ(copy.find("d"), nullptr);
  EXPECT_REFUSED(copy.tensor("d"), "m: tensor d: expected, but not among the 3 tensors of the file");
  EXPECT_EQ(copy.tensor("c").values(), 24u);
  EXPECT_EQ(copy.tensor("c").rows(), 6u);
  EXPECT_EQ(copy.tensor("c").bytes(), 96u);

  Checkpoint twice = copy;
  twice.tensors[2].name = "a";
  EXPECT_REFUSED(twice.index(), "m: tensor \"a\": expected every name once, found it twice");
  twice = copy;
  twice.unreadable.push_back({"a", "has the type U8"});
  EXPECT_REFUSED(twice.index(), "m: tensor \"a\": expected every name once, found it twice");
}

TEST(Checkpoint, DataAreTheViewOrWhatIsProduced) {
  const std::string bytes = "abcdefgh";
  Tensor tensor;
  tensor.shape = {2};
  tensor.view = bytes_of(bytes);
  std::vector<uint8_t> scratch;
  EXPECT_EQ(tensor.data(scratch).data(), tensor.view.data());
  EXPECT_TRUE(scratch.empty());
  tensor.view = {};
  EXPECT_THROW(tensor.data(scratch), std::logic_error);
  tensor.produce = [](std::span<uint8_t> out) { std::ranges::fill(out, uint8_t{7}); };
  EXPECT_TRUE(std::ranges::equal(tensor.data(scratch), std::vector<uint8_t>(8, 7)));
}

TEST(ChatTemplate, OfAGguf) {
  Checkpoint checkpoint;
  EXPECT_EQ(checkpoint.chat_template(), "");
  checkpoint.metadata.set("tokenizer.chat_template", std::string("plain"));
  checkpoint.metadata.set("tokenizer.chat_template.tool_use", std::string("tools"));
  EXPECT_EQ(checkpoint.chat_template(), "plain");
  EXPECT_EQ(checkpoint.chat_template("default"), "plain");
  EXPECT_EQ(checkpoint.chat_template("tool_use"), "tools");
  EXPECT_EQ(checkpoint.chat_template("rag"), "");
  checkpoint.metadata.set("tokenizer.chat_template", uint32_t{1});
  EXPECT_REFUSED(checkpoint.chat_template(), "tokenizer.chat_template: expected a string, found the u32 1");
}

TEST(ChatTemplate, OfASafetensorsModel) {
  Checkpoint checkpoint;
  checkpoint.path = "m";
  checkpoint.kind = Checkpoint::Kind::safetensors;
  const auto with = [&](const char* config) -> Checkpoint& {
    checkpoint.text.tokenizer_config = config;
    return checkpoint;
  };
  EXPECT_EQ(checkpoint.chat_template(), "");
  EXPECT_EQ(with("{}").chat_template(), "");
  EXPECT_EQ(with(R"({"chat_template": null})").chat_template(), "");
  EXPECT_EQ(with(R"({"chat_template": "plain"})").chat_template(), "plain");
  EXPECT_EQ(checkpoint.chat_template("tool_use"), "");
  with(R"({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(checkpoint.chat_template(), "plain");
  EXPECT_EQ(checkpoint.chat_template("default"), "plain");
  EXPECT_EQ(checkpoint.chat_template("tool_use"), "tools");
  EXPECT_EQ(checkpoint.chat_template("rag"), "");
  checkpoint.text.chat_template = "from the file";  // which counts more
  EXPECT_EQ(checkpoint.chat_template(), "from the file");
  EXPECT_EQ(checkpoint.chat_template("tool_use"), "tools");
  checkpoint.text.chat_template.clear();
  for (const char* config :
       {R"({"chat_template": 7})", R"({"chat_template": {"default": "x"}})", R"({"chat_template": [7]})",
        R"({"chat_template": [{"name": "default"}]})", R"({"chat_template": [{"template": "x"}]})"})
    EXPECT_REFUSED(with(config).chat_template(),
                   "m: tokenizer_config.json: chat_template: expected a string, or a list");
  EXPECT_REFUSED(with("[]").chat_template(), "m: tokenizer_config.json: expected an object, found array");
  EXPECT_REFUSED(with("{").chat_template(), "m: tokenizer_config.json: no valid JSON");
}

}  // namespace
}  // namespace heddle::formats
