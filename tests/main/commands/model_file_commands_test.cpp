// heddle convert, quantize and synth, from the command line to the file.
#include "main/commands/model_file_commands.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "main/commands/vocabulary_keys.h"
#include "main/device/open_model.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle {
namespace {

using test::Folder;
using test::heddle;
using text::TokenType;

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

TEST(VocabularyKeys, ThereAndBack) {
  text::Vocabulary vocabulary;
  vocabulary.source = "here";
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  vocabulary.tokens = {"<unk>", "<s>", "\xe2\x96\x81", "a"};
  vocabulary.scores = {0, 0, -1.5, -2};
  vocabulary.types = {TokenType::unknown, TokenType::control, TokenType::normal, TokenType::user_defined};
  vocabulary.merges = {"a b"};
  vocabulary.bos = 1;
  vocabulary.eos = 0;
  vocabulary.eot = 2;
  vocabulary.eom = 3;
  vocabulary.unknown = 0;
  vocabulary.separator = 1;
  vocabulary.padding = 2;
  vocabulary.mask = 3;
  vocabulary.add_bos = true;
  vocabulary.add_eos = false;
  vocabulary.add_space_prefix = false;
  vocabulary.remove_extra_whitespaces = true;
  vocabulary.precompiled_charsmap = std::string("\x00\xff\x01", 3);
  formats::Checkpoint checkpoint;
  checkpoint.path = "here";
  put_vocabulary(checkpoint.metadata, vocabulary);
  EXPECT_TRUE(has_vocabulary(checkpoint));
  const text::Vocabulary back = vocabulary_of(checkpoint);
  EXPECT_EQ(back.source, "here");
  EXPECT_EQ(back.model, vocabulary.model);
  EXPECT_EQ(back.pre, vocabulary.pre);
  EXPECT_EQ(back.tokens, vocabulary.tokens);
  EXPECT_EQ(back.scores, vocabulary.scores);
  EXPECT_EQ(back.types, vocabulary.types);
  EXPECT_EQ(back.merges, vocabulary.merges);
  EXPECT_EQ(back.bos, vocabulary.bos);
  EXPECT_EQ(back.eos, vocabulary.eos);
  EXPECT_EQ(back.eot, vocabulary.eot);
  EXPECT_EQ(back.eom, vocabulary.eom);
  EXPECT_EQ(back.unknown, vocabulary.unknown);
  EXPECT_EQ(back.separator, vocabulary.separator);
  EXPECT_EQ(back.padding, vocabulary.padding);
  EXPECT_EQ(back.mask, vocabulary.mask);
  EXPECT_EQ(back.add_bos, vocabulary.add_bos);
  EXPECT_EQ(back.add_eos, vocabulary.add_eos);
  EXPECT_EQ(back.add_sep, std::nullopt);
  EXPECT_EQ(back.add_space_prefix, vocabulary.add_space_prefix);
  EXPECT_TRUE(back.remove_extra_whitespaces);
  EXPECT_EQ(back.precompiled_charsmap, vocabulary.precompiled_charsmap);
}

TEST(VocabularyKeys, WhatDoesNotFitIsRefused) {
  const auto with = [](const char* key, formats::Value value) {
    formats::Checkpoint checkpoint;
    checkpoint.path = "here";
    checkpoint.metadata.set("tokenizer.ggml.model", std::string("llama"));
    checkpoint.metadata.set("tokenizer.ggml.tokens", formats::Array::of(std::vector<std::string>{"a", "b"}));
    checkpoint.metadata.set(key, std::move(value));
    return vocabulary_of(checkpoint);
  };
  using formats::Array;
  EXPECT_REFUSED(with("tokenizer.ggml.scores", Array::of(std::vector<float>{1})),
                 "here: tokenizer.ggml.scores: expected 2 entries, one per token, found 1");
  EXPECT_REFUSED(with("tokenizer.ggml.token_type", Array::of(std::vector<int32_t>{1, 7})),
                 "here: tokenizer.ggml.token_type: expected types from 1 to 6, found 7 for token 1");
  EXPECT_REFUSED(with("tokenizer.ggml.bos_token_id", uint32_t{2}),
                 "here: tokenizer.ggml.bos_token_id: expected an id below 2, found 2");
  EXPECT_EQ(with("tokenizer.ggml.padding_token_id", uint32_t{0xffffffff}).padding, std::nullopt);  // written for none
  formats::Checkpoint none;
  none.path = "here";
  EXPECT_REFUSED(vocabulary_of(none), "here: there is no tokenizer in it");
}

TEST(VocabularyKeys, PaddedToTheEmbedding) {
  text::Vocabulary vocabulary;
  vocabulary.source = "here";
  vocabulary.tokens = {"a", "b"};
  vocabulary.scores = {1, 2};
  const text::Vocabulary four = padded(vocabulary, 4);
  EXPECT_EQ(four.tokens, (std::vector<std::string>{"a", "b", "[PAD2]", "[PAD3]"}));
  EXPECT_EQ(four.types,
            (std::vector<TokenType>{TokenType::normal, TokenType::normal, TokenType::unused, TokenType::unused}));
  EXPECT_EQ(four.scores.size(), 4u);
  EXPECT_EQ(padded(vocabulary, 2).tokens.size(), 2u);
  EXPECT_REFUSED(padded(vocabulary, 1), "here: the tokenizer has 2 tokens, but the embedding only 1 rows");
}

TEST(VocabularyKeys, EndsOfTheGenerationConfig) {
  SHARED_DATA(path, "weights/stories260K-hf-f32");
  formats::Checkpoint checkpoint = formats::open_checkpoint(path);
  EXPECT_EQ(vocabulary_of(checkpoint).tokens.size(), 512u);
  const text::Vocabulary plain = vocabulary_of(checkpoint);
  checkpoint.text.generation = R"({"eos_token_id": [5, 7]})";
  const text::Vocabulary several = vocabulary_of(checkpoint);
  EXPECT_EQ(several.eos, plain.eos);
  EXPECT_TRUE(several.eot && several.eom);
  checkpoint.text.generation = R"({"eos_token_id": [2, 5, 7, 9]})";
  EXPECT_REFUSED(vocabulary_of(checkpoint),
                 "eos_token_id: expected at most 3 tokens that end an answer, found [2,5,7,9]");
  checkpoint.text.generation = R"({"eos_token_id": 600})";
  EXPECT_REFUSED(vocabulary_of(checkpoint), "generation_config.json: eos_token_id: expected ids below 512, found 600");
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
