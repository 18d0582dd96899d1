// heddle plan by value, what too little memory says, and contexts beyond the trained one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "main/device/device_memory.h"
#include "main/device/running_model.h"
#include "model/session.h"
#include "tests/main/heddle_command.h"
#include "tests/model/encoder_fixture.h"
#include "tests/text/letters_tokenizer.h"

namespace heddle::test {
namespace {

using nlohmann::json;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Plan, AddsUpAndFits) {
  const json plan = json::parse(heddle({"plan", "--ctx", "256", "--json"}).out);
  EXPECT_EQ(plan["context"], 256);
  const json& cpu = plan["devices"][0];
  EXPECT_EQ(cpu["device"], "cpu");
  EXPECT_TRUE(cpu["fits"]);
  EXPECT_EQ(cpu["needed_bytes"], cpu["weights_bytes"].get<uint64_t>() + cpu["kv_bytes"].get<uint64_t>() +
                                     cpu["workspace_bytes"].get<uint64_t>());
  const json twice = json::parse(heddle({"plan", "--ctx", "512", "--json"}).out);
  EXPECT_EQ(twice["devices"][0]["kv_bytes"], 2 * cpu["kv_bytes"].get<uint64_t>());
  EXPECT_EQ(twice["devices"][0]["weights_bytes"], cpu["weights_bytes"]);
  EXPECT_TRUE(has(heddle({"plan"}).out, "fits"));
  const json bytes = json::parse(heddle({"plan", "--ctx", "512", "--kv", "q8", "--json"}).out);
  EXPECT_EQ(bytes["kv"], "q8");
  EXPECT_EQ(bytes["devices"][0]["kv_bytes"].get<uint64_t>() * 64, twice["devices"][0]["kv_bytes"].get<uint64_t>() * 34);
  EXPECT_TRUE(has(heddle({"plan", "--kv", "q8"}).out, "KV cache in q8"));
  EXPECT_TRUE(has(heddle({"plan", "--kv", "q4"}).err, "--kv: expected f16 or q8, found \"q4\""));
}

// A latent of 48 values and 8 rotated ones in each of three layers, and nothing else.
TEST(Plan, ALatentCacheHasNoValues) {
  const test::Folder folder;
  const test::Fixture fixture("deepseek2");
  fixture.write(folder, fixture.config);
  EXPECT_TRUE(has(heddle({"plan", folder.path().string()}).out, ", KV cache in f16, 336 bytes a token\n"));
  EXPECT_EQ(json::parse(heddle({"plan", folder.path().string(), "--json"}).out)["kv_bytes_per_token"],
            3 * (48 + 8) * 2);
}

// One of three layers has attention, and so has the head.
TEST(Plan, CountsTheHeadOfTheModel) {
  const test::Folder folder;
  const test::Fixture fixture("qwen35-mtp");
  fixture.write(folder, fixture.config);
  const std::string path = folder.path().string();
  const json without = json::parse(heddle({"plan", path, "--device", "cpu", "--json"}).out),
             with = json::parse(heddle({"plan", path, "--device", "cpu", "--mtp", "--json"}).out);
  const uint64_t token = without["kv_bytes_per_token"];
  EXPECT_EQ(with["kv_bytes_per_token"], 2 * token);
  const auto bytes = [](const json& plan, const char* what) { return plan["devices"][0][what].get<uint64_t>(); };
  EXPECT_GT(bytes(with, "weights_bytes"), bytes(without, "weights_bytes"));
  EXPECT_GT(bytes(with, "states_bytes"), bytes(without, "states_bytes"));
  EXPECT_TRUE(has(heddle({"plan", "--mtp"}).err, "--mtp: expected a model with a head for multi-token prediction"));
}

// Keys and values of one layer for a batch of 512 tokens.
TEST(Plan, TheLayersOfAnEncoderShareOneCache) {
  const test::Folder folder;
  const test::EncoderFixture fixture("bert");
  const std::string path = fixture.write_in(folder).string();
  folder.write("bert/tokenizer.json", letters_json());
  const json plan = json::parse(heddle({"plan", path, "--json"}).out);
  const uint64_t width = fixture.config.at("hidden_size"), layers = fixture.config.at("num_hidden_layers");
  EXPECT_GT(layers, 1u);
  EXPECT_EQ(plan["kv_bytes_per_token"], 2 * width * 2);
  const uint64_t tokens = plan["devices"][0]["kv_bytes"].get<uint64_t>() / (2 * width * 2);
  EXPECT_GE(tokens, 512u);
  EXPECT_LE(tokens, 4096u);
  EXPECT_TRUE(has(heddle({"plan", path}).out, fmt::format("KV cache in f16, {} bytes a token", 2 * width * 2)));
}

TEST(Plan, SaysWhatFitsAndWhatTheModelWasTrainedFor) {
  for (const char* context : {"256", "512", "8192"}) {
    const std::string text = heddle({"plan", "--ctx", context}).out;
    // 9 layers with keys and values of 2 heads of 64, 2 bytes each
    EXPECT_TRUE(has(
        text,
        fmt::format("weft: context of {} tokens (trained for 512), KV cache in f16, 4608 bytes a token\n", context)))
        << text;
    const json plan = json::parse(heddle({"plan", "--ctx", context, "--json"}).out);
    EXPECT_EQ(plan["trained_context"], 512);
    EXPECT_GT(plan["devices"][0]["largest_context"], 10'000);  // of memory, not of the context asked for
  }
}

TEST(Plan, AContextBeyondTheTrainedOneIsWarnedOf) {
  const std::string warning =
      "warning: a context of 8192 tokens, but weft was trained for 512: expect worse text beyond that\n";
  EXPECT_TRUE(has(heddle({"run", "-p", "x", "-n", "1", "--ctx", "8192"}).err, warning));
  EXPECT_TRUE(has(heddle({"chat", "--ctx", "8192"}).err, warning));
  EXPECT_FALSE(has(heddle({"run", "-p", "x", "-n", "1", "--ctx", "512"}).err, "warning"));
  EXPECT_FALSE(has(heddle({"run", "-p", "x", "-n", "1"}).err, "warning"));
  EXPECT_FALSE(has(heddle({"bench", "-p", "600", "-n", "0", "-r", "1"}).err, "warning"));
}

TEST(Plan, WhatDoesNotFitIsStatusOneAndSaysByHowMuch) {
  const Result result = heddle({"plan", "--ctx", "4000000000"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.out, "does not fit")) << result.out;
  EXPECT_TRUE(has(result.out, "too little")) << result.out;
  const Result run = heddle({"run", "--ctx", "4000000000", "-p", "x", "--device", "cpu"});
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(has(run.err, "too little memory")) << run.err;
  EXPECT_TRUE(has(run.err, "would fit")) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST(Plan, WeightsInTheFileNeedNoMemory) {
  const std::vector<std::string> little{"plan", weft,        "--ctx", "512",          "--rows",
                                        "16",   "--threads", "1",     "--cpu-memory", "8MB"};
  std::vector<std::string> in_file = little;
  in_file.push_back("--no-repack");
  EXPECT_EQ(heddle(little).status, 1);
  const Result result = heddle(in_file);
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_TRUE(has(result.out, "of weights stay in the file; fits")) << result.out;
  const Result run =
      heddle({"run", weft, "-p", "x", "--cpu-memory", "20MB", "--device", "cpu", "--threads", "1", "--ctx", "512"});
  EXPECT_TRUE(has(run.err, "--no-repack leaves the weights in the file")) << run.err;
}

TEST(Plan, TheLargestContextIsTheLargest) {
  const auto running = open_running("weft", {.device = "cpu"});
  const auto bytes = [&](uint32_t context) {
    return memory_for(running->model, {}, model::limits_for(context, 512)).total();
  };
  EXPECT_EQ(largest_context(running->model, {}, 512, 512, bytes(512)), 512u);
  EXPECT_EQ(largest_context(running->model, {}, 511, 512, bytes(511)), 511u);
  EXPECT_EQ(largest_context(running->model, {}, 512, 512, bytes(512) - 1), 480u);
  EXPECT_EQ(largest_context(running->model, {}, 512, 512, bytes(32)), 32u);
  EXPECT_EQ(largest_context(running->model, {}, 512, 512, bytes(32) - 1), 0u);
}

}  // namespace
}  // namespace heddle::test
