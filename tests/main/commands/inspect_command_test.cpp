// inspect by its words, and by value through --json.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/main/small_model.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

TEST(Inspect, SaysWhatAModelIsAndNeeds) {
  const Folder folder;
  const Result result = heddle({"inspect", write_small_model(folder)});
  EXPECT_EQ(result.status, 0) << result.err;
  // 17 024 values; 265 * 64 * 34 / 32 + 256 bytes; 2 layers x 2 kv heads x (16 + 16) values x 2 bytes x 128 tokens
  for (const char* part :
       {"GGUF", "small", "llama", "17.0 K in 2 tensors", "2, width 64, 4 heads", "265 tokens", "128 tokens",
        "18.3 KB weights + 32.8 KB KV cache of 128 tokens", "Q8_0", "F32", "tokenizer.ggml.tokens"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_EQ(result.out.find("output_norm.weight"), std::string::npos);
  EXPECT_NE(heddle({"inspect", folder.file("small.gguf"), "--tensors"}).out.find("output_norm.weight"),
            std::string::npos);
}

TEST(Inspect, AsJson) {
  const Folder folder;
  const Result result = heddle({"inspect", write_small_model(folder), "--json", "--ctx", "1000"});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["parameters"], 265 * 64 + 64);
  EXPECT_EQ(json["context_length"], 128);
  EXPECT_EQ(json["memory"]["kv_bytes"], 2 * 2 * 32 * 2 * 1000);
  EXPECT_EQ(json["memory"]["weights_bytes"], 265 * 64 / 32 * 34 + 256);
  EXPECT_EQ(json["types"]["Q8_0"]["tensors"], 1);
  EXPECT_EQ(json["tensors"][0]["shape"], (std::vector<int>{64, 265}));
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"]["count"], 265);
  EXPECT_EQ(json["metadata"]["general.name"], "small");
  const auto full = nlohmann::json::parse(heddle({"inspect", folder.file("small.gguf"), "--json", "--full"}).out);
  EXPECT_EQ(full["metadata"]["tokenizer.ggml.tokens"][1], "<s>");
  EXPECT_EQ(full["metadata"]["tokenizer.ggml.scores"].size(), 265u);
}

TEST(Inspect, WhatIsNoModelIsOneClearLine) {
  const Folder folder;
  for (const std::string path : {folder.write("text.gguf", "hello, this is no model"), folder.write("empty.gguf", ""),
                                 folder.file("none"), folder.file("")}) {
    const Result result = heddle({"inspect", path});
    EXPECT_EQ(result.status, 1) << path;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(path), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(Inspect, FoldersOfSafetensors) {
  SHARED_DATA(folder, "hf-arch");
  for (const auto& [name, architecture] :
       std::vector<std::pair<std::string, std::string>>{{"gemma2", "gemma2"},
                                                        {"gemma3", "gemma3"},
                                                        {"gpt2", "gpt2"},
                                                        {"llama3-ropescaled", "llama"},
                                                        {"mistral-swa", "llama"},
                                                        {"mixtral", "llama"},
                                                        {"phi3", "phi3"},
                                                        {"qwen2", "qwen2"},
                                                        {"qwen3", "qwen3"}}) {
    const Result result = heddle({"inspect", (folder / name).string(), "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["architecture"], architecture) << name;
    EXPECT_EQ(json["vocabulary"], 512) << name;
    EXPECT_EQ(json["layers"], 2) << name;
    EXPECT_GT(json["memory"]["kv_bytes"], 0) << name;
  }
}

}  // namespace
}  // namespace heddle::test
