// What works without a model's name: run, inspect, plan, bench, and the program alone; and what too little memory says.
#include "main/device/own_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "main/device/device_memory.h"
#include "main/device/running_model.h"
#include "tests/main/small_model.h"

namespace heddle::test {
namespace {

using nlohmann::json;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(OwnModel, IsTheFileInTheRepository) {
  const MappedFile file(HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf");
  EXPECT_TRUE(std::ranges::equal(file.bytes(), own_model()));
}

TEST(OwnModel, RunsWhereNoneIsNamed) {
  const std::vector<std::string> arguments{"-p", "Once upon a time", "-n", "40", "--temp", "0"};
  std::vector<std::string> own{"run"}, named{"run", HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf"};
  own.insert(own.end(), arguments.begin(), arguments.end());
  named.insert(named.end(), arguments.begin(), arguments.end());
  const Result result = heddle(own);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(result.out.size(), 80u);
  EXPECT_EQ(result.out, heddle(named).out);
}

TEST(OwnModel, KnowsWhatHeddleIs) {
  const Result result = heddle({"run", "--chat", "-p", "What is heddle?", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "heddle is a program that runs language models")) << result.out;
}

TEST(OwnModel, TheProgramAloneTellsAStory) {
  const Result result = heddle({});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("> Tell me a story about ")) << result.out;
  EXPECT_GT(result.out.find("Try next:"), 200u) << result.out;
  EXPECT_TRUE(has(result.out, "heddle chat")) << result.out;
  EXPECT_TRUE(has(result.err, "tok/s")) << result.err;
}

TEST(OwnModel, CanBeLookedAt) {
  const Result result = heddle({"inspect"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "weft")) << result.out;
}

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

TEST(Plan, TheLargestContextIsTheLargest) {
  const auto running = open_running("", {.device = "cpu"});
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
