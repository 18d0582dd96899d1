// heddle inspect as text and as JSON.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/main/small_model.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

TEST(Inspect, SaysWhatAModelIsAndNeeds) {
  const Folder folder;
  const Result result = heddle({"inspect", write_small_model(folder, "small.gguf", true)});
  EXPECT_EQ(result.status, 0) << result.err;
  // 265 * 64 + 64 values, and 30 848 in each layer; 2 layers x 2 kv heads x (16 + 16) values x 2 bytes x 128 tokens
  for (const char* part :
       {"GGUF", "small", "llama", "78.7 K in 20 tensors", "2, width 64, 4 heads", "265 tokens", "128 tokens",
        "KV cache of 128 tokens in f16 32.8 KB", "Q8_0", "F32", "tokenizer.ggml.tokens"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_EQ(result.out.find("output_norm.weight"), std::string::npos);
  EXPECT_NE(heddle({"inspect", folder.file("small.gguf"), "--tensors"}).out.find("output_norm.weight"),
            std::string::npos);
}

TEST(Inspect, SaysWhyAModelCannotBeRun) {
  const Folder folder;
  const std::string path = write_small_model(folder);  // which has no layers
  const Result result = heddle({"inspect", path});
  EXPECT_EQ(result.status, 0) << result.err;
  // 265 * 64 * 34 / 32 + 256 bytes
  EXPECT_NE(result.out.find("18.3 KB of tensors; heddle cannot run it: "), std::string::npos) << result.out;
  const auto json = nlohmann::json::parse(heddle({"inspect", path, "--json"}).out);
  EXPECT_EQ(json["tensor_bytes"], 265 * 64 / 32 * 34 + 256);
  EXPECT_TRUE(json.contains("problem") && !json.contains("memory"));
}

TEST(Inspect, KnowsTheSizeOfTheModelInTheProgram) {
  const Result result = heddle({"inspect"});
  EXPECT_NE(result.out.find("weft (GGUF in the program, 8."), std::string::npos) << result.out;
  EXPECT_EQ(nlohmann::json::parse(heddle({"inspect", "--json"}).out)["file_bytes"], std::filesystem::file_size(weft));
}

TEST(Inspect, CountsAsPlanDoes) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--ctx", "1000"}, {"--kv", "q8"}}) {
    std::vector<std::string> inspect{"inspect", weft, "--json"}, plan{"plan", weft, "--json", "--device", "cpu"};
    inspect.insert(inspect.end(), more.begin(), more.end());
    plan.insert(plan.end(), more.begin(), more.end());
    const auto one = nlohmann::json::parse(heddle(inspect).out)["memory"];
    const auto other = nlohmann::json::parse(heddle(plan).out)["devices"][0];
    for (const char* field : {"weights_bytes", "kv_bytes", "workspace_bytes", "needed_bytes"})
      EXPECT_EQ(one[field], other[field]) << field;
    plan.push_back("--no-repack");
    const auto in_file = nlohmann::json::parse(heddle(plan).out)["devices"][0];
    EXPECT_EQ(one["needed_bytes_without_repacking"], in_file["needed_bytes"]);
    EXPECT_EQ(in_file["needed_bytes"].get<uint64_t>(),
              other["needed_bytes"].get<uint64_t>() - other["weights_bytes"].get<uint64_t>());
    EXPECT_EQ(in_file["weights_bytes"], 0);
    EXPECT_GT(in_file["in_file_bytes"], 1'000'000);
  }
}

TEST(Inspect, AsJson) {
  const Folder folder;
  const Result result = heddle({"inspect", write_small_model(folder, "small.gguf", true), "--json", "--ctx", "1000"});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["parameters"], 265 * 64 + 64 + 2 * 30848);
  EXPECT_EQ(json["context_length"], 128);
  EXPECT_EQ(json["memory"]["kv_tokens"], 1000);
  EXPECT_EQ(json["memory"]["kv_bytes"], 2 * 2 * 32 * 2 * 1024);  // in blocks of 32 tokens
  EXPECT_EQ(json["types"]["Q8_0"]["tensors"], 15);
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
