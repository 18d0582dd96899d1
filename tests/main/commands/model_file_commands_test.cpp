// heddle convert, quantize and synth, from the command line to the file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "main/device/open_model.h"
#include "tests/main/small_model.h"
#include "tests/model/eight_bits.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle {
namespace {

using test::Folder;
using test::heddle;

// A llama of one layer with rows of 32 values, f32, all weights 1/4; and its config.json.
void write_folder(const Folder& folder, const std::string& config_more = {}) {
  std::string header, data;
  const auto add = [&](const std::string& name, const std::string& shape, size_t values) {
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", header.empty() ? "" : ",",
                          name, shape, data.size(), data.size() + 4 * values);
    const float quarter = 0.25f;
    for (size_t i = 0; i < values; ++i) data.append(reinterpret_cast<const char*>(&quarter), 4);
  };
  add("model.embed_tokens.weight", "8,32", 256);
  add("model.norm.weight", "32", 32);
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    add(fmt::format("model.layers.0.{}.weight", name), "32,32", 1024);
  add("model.layers.0.input_layernorm.weight", "32", 32);
  add("model.layers.0.post_attention_layernorm.weight", "32", 32);
  header = "{" + header + "}";
  const uint64_t size = header.size();
  folder.write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + header + data);
  folder.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 8, "tie_word_embeddings": true)" +
                                  config_more + "}");
}

std::string folder_of(const Folder& folder) { return folder.file(""); }

TEST(ConvertCommand, WritesAFile) {
  Folder folder, out;
  write_folder(folder);
  const auto result = heddle({"convert", folder_of(folder), out.file("m.gguf")});
  EXPECT_EQ(result.status, 0) << result.err;
  test::expect_says(result.err, {"no tokenizer.json: the file will have no tokenizer"});
  test::expect_says(result.out, {"m.gguf: 0.0 M weights", "32.00 bits per weight"});
  const formats::Checkpoint model = formats::open_checkpoint(out.file("m.gguf"));
  EXPECT_EQ(model.metadata.string("tokenizer.ggml.model"), "none");
  EXPECT_EQ(model.metadata.integer("general.file_type"), 0u);
  EXPECT_EQ(model.tensors.size(), 11u);
  EXPECT_FALSE(has_vocabulary(model));
}

TEST(ConvertCommand, TypesAndErrors) {
  Folder folder, out;
  write_folder(folder);
  const std::string path = out.file("m.gguf");
  EXPECT_EQ(heddle({"convert", folder_of(folder), path, "--type", "q8_0"}).status, 0);
  EXPECT_EQ(formats::open_checkpoint(path).tensor("blk.0.attn_q.weight").format, quant::Format::q8_0);
  auto result = heddle({"convert", path, out.file("n.gguf")});
  EXPECT_EQ(result.status, 1);
  test::expect_says(result.err, {"m.gguf: is a GGUF file already; heddle quantize changes its type"});
  result = heddle({"convert", folder_of(folder), path, "--type", "q7"});
  EXPECT_EQ(result.status, 1);
  test::expect_says(result.err, {"there is no file type \"q7\"; there are F32"});
  result = heddle({"convert", folder_of(folder), "/nowhere/at/all.gguf"});
  EXPECT_EQ(result.status, 1);
  test::expect_says(result.err, {"/nowhere/at/all.gguf: cannot be written"});
  Folder bad;
  write_folder(bad, R"(, "hidden_act": "relu")");
  result = heddle({"convert", folder_of(bad), path});
  EXPECT_EQ(result.status, 1);
  test::expect_says(result.err, {"config.json: hidden_act: expected \"silu\", found \"relu\""});
  EXPECT_EQ(heddle({"convert"}).status, 2);
}

TEST(ConvertCommand, SaysWhatBecomesOfQuantisedWeights) {
  const Folder folder, out;
  test::write_eight_bits(test::Fixture("qwen3"), folder);
  auto result = heddle({"convert", folder_of(folder), out.file("auto.gguf")});
  EXPECT_EQ(result.status, 0) << result.err;
  test::expect_says(result.err, {"weights: bitsandbytes int8, converted to bf16\n"});
  result = heddle({"quantize", folder_of(folder), out.file("f32.gguf"), "--type", "F32"});
  EXPECT_EQ(result.status, 0) << result.err;
  test::expect_says(result.err, {"weights: bitsandbytes int8, converted from their exact values\n"});
  test::expect_says(heddle({"inspect", folder_of(folder)}).out, {"quantization   bitsandbytes int8"});
  result = heddle({"logits", folder_of(folder), "--ids", "1,2", "--out", out.file("l.safetensors"), "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  test::expect_says(result.err, {"weights: bitsandbytes int8, converted to bf16\n"});
}

TEST(ConvertCommand, WarnsOnceOfOptionsThatItDoesWithout) {
  Folder folder, out;
  write_folder(folder, R"(, "surprise": 7)");
  const auto result = heddle({"convert", folder_of(folder), out.file("m.gguf")});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string warning = "options that heddle does not know and does without: surprise = 7\n";
  const size_t at = result.err.find(warning);
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, at + 1), std::string::npos);
  const auto run = heddle({"logits", folder_of(folder), "--ids", "1,2", "--device", "cpu", "--out", out.file("l")});
  EXPECT_EQ(run.status, 0) << run.err;
  test::expect_says(run.err, {"warning: ", warning});
  EXPECT_EQ(run.err.find(warning, run.err.find(warning) + 1), std::string::npos);
  test::expect_says(heddle({"inspect", folder_of(folder)}).out, {"warning", "surprise = 7"});
}

TEST(ConvertCommand, TheClassIsLookedAtBeforeTheTokenizer) {
  Folder folder, out;
  write_folder(folder);
  folder.write("config.json", R"({"architectures": ["MambaForCausalLM"]})");
  folder.write("tokenizer.json", "{}");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"convert", folder_of(folder), out.file("m.gguf")},
        {"quantize", folder_of(folder), out.file("m.gguf"), "--type", "q8_0"},
        {"run", folder_of(folder), "-p", "x", "--device", "cpu"}}) {
    const auto result = heddle(command);
    EXPECT_EQ(result.status, 1);
    test::expect_says(result.err, {"heddle does not know the model class \"MambaForCausalLM\", which needs recurrent "
                                   "states (Mamba); it knows LlamaForCausalLM, "});
  }
  test::expect_says(heddle({"inspect", folder_of(folder)}).out, {"MambaForCausalLM", "which needs recurrent states"});
}

TEST(ConvertCommand, LeavesNothingThatHeddleWouldNotRun) {
  Folder folder, out;
  write_folder(folder, R"(, "num_key_value_heads": 2, "max_position_embeddings": 1073741824)");
  EXPECT_EQ(heddle({"convert", folder_of(folder), out.file("m.gguf")}).status, 0);
  // A bound that the loader has and the converter has not.
  write_folder(folder, R"(, "rms_norm_eps": -1.0)");
  const auto result = heddle({"convert", folder_of(folder), out.file("n.gguf")});
  EXPECT_EQ(result.status, 1);
  test::expect_says(result.err, {"heddle would not run the file that it wrote, which was removed: ", "rms_epsilon"});
  EXPECT_FALSE(std::filesystem::exists(out.file("n.gguf")));
}

TEST(QuantizeCommand, FromAFileOrAFolder) {
  Folder folder, out;
  write_folder(folder);
  const std::string half = out.file("f16.gguf"), small = out.file("q4.gguf");
  EXPECT_EQ(heddle({"quantize", folder_of(folder), half, "--type", "F16"}).status, 0);
  const auto result = heddle({"quantize", half, small, "--type", "Q4_0", "--threads", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  const formats::Checkpoint model = formats::open_checkpoint(small);
  EXPECT_EQ(model.tensor("blk.0.ffn_up.weight").format, quant::Format::q4_0);
  EXPECT_EQ(model.tensor("token_embd.weight").format, quant::Format::q8_0);  // tied, and Q6_K does not fit 32
  std::vector<float> values(1024);
  quant::decode(quant::Format::q4_0, model.tensor("blk.0.ffn_up.weight").view.data(), 1024, values.data());
  EXPECT_EQ(values, std::vector<float>(1024, 0.25f));

  const auto again = heddle({"quantize", small, out.file("q5.gguf"), "--type", "Q5_0"});
  EXPECT_EQ(again.status, 1);
  test::expect_says(again.err, {"blk.0.attn_q.weight is q4_0 already", "--allow-requantize"});
  EXPECT_EQ(heddle({"quantize", small, out.file("q5.gguf"), "--type", "Q5_0", "--allow-requantize"}).status, 0);
  const auto dense = heddle({"quantize", half, out.file("mxfp4.gguf"), "--type", "MXFP4"});
  test::expect_says(dense.err, {"a dense model: all its matrices are MXFP4"});
  EXPECT_EQ(heddle({"quantize", half, small}).status, 2);
}

TEST(QuantizeCommand, ReplacesAFileOnlyByForce) {
  Folder folder, out;
  write_folder(folder);
  const std::string path = out.write("m.gguf", "old").string();
  const auto expect_stays = [&](const std::vector<std::string>& words) {
    const auto result = heddle(words);
    EXPECT_EQ(result.status, 1);
    test::expect_says(result.err, {path, "there is such a file already; --force replaces it"});
    EXPECT_EQ(test::contents(path), "old");
    EXPECT_EQ(out.files(), 1u);
  };
  expect_stays({"convert", folder_of(folder), path});
  expect_stays({"quantize", folder_of(folder), path, "--type", "F16"});
  expect_stays({"synth", "--shape", "gpt2", path});
  EXPECT_EQ(heddle({"convert", folder_of(folder), path, "--force"}).status, 0);
  EXPECT_EQ(formats::open_checkpoint(path).tensor("blk.0.attn_q.weight").format, quant::Format::f32);
  EXPECT_EQ(heddle({"quantize", folder_of(folder), path, "--type", "F16", "--force"}).status, 0);
  EXPECT_EQ(formats::open_checkpoint(path).tensor("blk.0.attn_q.weight").format, quant::Format::f16);
  EXPECT_EQ(out.files(), 1u);
}

TEST(QuantizeCommand, NeverReplacesItsInput) {
  Folder folder, out;
  write_folder(folder);
  const std::string path = out.file("m.gguf");
  ASSERT_EQ(heddle({"convert", folder_of(folder), path}).status, 0);
  const std::string before = test::contents(path);
  std::filesystem::create_symlink(path, out.file("link.gguf"));
  std::filesystem::create_hard_link(path, out.file("hard.gguf"));
  std::filesystem::create_directory(out.file("sub"));
  for (const std::string name : {"m.gguf", "link.gguf", "hard.gguf", "sub/../m.gguf"}) {
    for (const std::string force : {"--force", "--allow-requantize"}) {
      const auto result = heddle({"quantize", path, out.file(name), "--type", "Q8_0", force});
      EXPECT_EQ(result.status, 1) << name;
      test::expect_says(result.err, {name, "expected another file than those of the model, found", "m.gguf"});
    }
    const auto from = heddle({"quantize", out.file(name), path, "--type", "Q8_0", "--force"});
    test::expect_says(from.err, {"expected another file than those of the model"});
  }
  EXPECT_EQ(test::contents(path), before);
  for (const std::string name : {"config.json", "model.safetensors"}) {
    const std::string text = test::contents(folder.file(name));
    const auto result = heddle({"convert", folder_of(folder), folder.file(name), "--force"});
    EXPECT_EQ(result.status, 1) << name;
    test::expect_says(result.err, {name, "expected another file than those of the model"});
    EXPECT_EQ(test::contents(folder.file(name)), text);
  }
}

// In a process of its own, which the signal ends while it writes.
TEST(SynthCommand, ASignalLeavesNothingBehindSlow) {
  Folder out;
  const pid_t child = ::fork();
  if (child == 0) {
    heddle({"synth", "--shape", "llama-3.2-1b", "--type", "Q8_0", out.file("m.gguf")});
    _exit(0);
  }
  const auto written = [&] {
    uint64_t bytes = 0;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(out.path()))
      if (const uint64_t size = entry.file_size(gone); !gone) bytes += size;
    return bytes;
  };
  while (written() < 1'000'000 && ::waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_EQ(out.files(), 0u);
}

TEST(SynthCommand, ListAndErrors) {
  const auto list = heddle({"synth", "--list"});
  EXPECT_EQ(list.status, 0);
  test::expect_says(list.out, {"llama-3.1-8b\n", "granite-3.1-2b\n"});
  EXPECT_EQ(heddle({"synth"}).status, 1);
  const auto unknown = heddle({"synth", "--shape", "x", "/nowhere/x.gguf"});
  test::expect_says(unknown.err, {"there is no shape \"x\""});
}

TEST(SynthCommand, TokenizesAnyTextSlow) {
  Folder out;
  const std::string path = out.file("gpt2.gguf");
  ASSERT_EQ(heddle({"synth", "--shape", "gpt2", "--type", "Q4_0", path}).status, 0);
  const text::Tokenizer tokenizer = open_tokenizer(formats::open_checkpoint(path));
  const std::string text = "Any text: \xc3\xa4, \xe2\x82\xac,\n\t0123 and \xff.";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.encode("abcd").size(), 3u);  // BOS, and a token of three letters
}

// Every model of the reference data goes through, whatever its architecture.
TEST(ConvertCommand, AllReferenceModels) {
  SHARED_DATA(path, "hf-arch");
  Folder out;
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename().string(), file = out.file(name + ".gguf");
    const auto result = heddle({"convert", entry.path().string(), file});
    EXPECT_EQ(result.status, 0) << name << ": " << result.err;
    const formats::Checkpoint before = formats::open_checkpoint(entry.path()), after = formats::open_checkpoint(file);
    ASSERT_EQ(after.tensors.size(), before.tensors.size()) << name;
    std::vector<uint8_t> scratch;
    for (const formats::Tensor& tensor : before.tensors) {
      const auto expected = tensor.data(scratch), found = after.tensor(tensor.name).view;
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end())) << name << tensor.name;
    }
    ++models;
  }
  EXPECT_EQ(models, 9u);
}

}  // namespace
}  // namespace heddle
