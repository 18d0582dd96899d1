// Structs of this version, of older and newer programs, and what is refused in them.
#include "library/options.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/request.h"
#include "main/commands/sampling_options.h"
#include "tests/library/open_library.h"

namespace heddle::test {
namespace {

using library::read_options;
using library::read_request;

TEST(LibraryOptions, DefaultsAreThoseOfTheProgram) {
  const DeviceOptions expected, found = read_options(nullptr).device;
  heddle_model_options options;
  heddle_model_options_init(&options, sizeof options);
  for (const DeviceOptions& device : {found, read_options(&options).device}) {
    EXPECT_EQ(device.device, expected.device);
    EXPECT_EQ(device.kv, expected.kv);
    EXPECT_EQ(device.draft, expected.draft);
    EXPECT_EQ(device.draft_tokens, expected.draft_tokens);
    EXPECT_EQ(device.gpu_layers, expected.gpu_layers);
    EXPECT_EQ(device.cpu_experts, expected.cpu_experts);
    EXPECT_EQ(device.context, expected.context);
    EXPECT_FALSE(device.exact || device.deterministic || device.no_selftest);
  }
  heddle_request request;
  heddle_request_init(&request, sizeof request);
  request.prompt = "a";
  const engine::Sampling sampling = read_request(&request).sampling, chain = SamplingOptions().chain;
  EXPECT_EQ(sampling.temperature, chain.temperature);
  EXPECT_EQ(sampling.top_k, chain.top_k);
  EXPECT_EQ(sampling.top_p, chain.top_p);
  EXPECT_EQ(sampling.min_p, chain.min_p);
  EXPECT_EQ(sampling.repetition_penalty, chain.repetition_penalty);
  EXPECT_EQ(sampling.repetition_last_n, chain.repetition_last_n);
  EXPECT_FALSE(sampling.seed);
  EXPECT_EQ(read_request(&request).max_tokens, engine::no_limit);
}

TEST(LibraryOptions, EveryFieldArrives) {
  heddle_model_options options = cpu_options();
  options.device = "cuda:3";
  options.kv = "q8";
  options.draft = "small";
  options.draft_tokens = 5;
  options.gpu_memory = 1ull << 40;
  options.threads = 3;
  options.context = 512;
  options.cache_tokens = 2048;
  options.gpu_layers = 0;
  options.cpu_experts = HEDDLE_ALL_LAYERS;
  options.exact = options.deterministic = options.no_selftest = 1;
  const DeviceOptions device = read_options(&options).device;
  EXPECT_EQ(device.device, "cuda:3");
  EXPECT_EQ(device.kv, model::KvFormat::q8);
  EXPECT_EQ(device.draft, "small");
  EXPECT_EQ(device.draft_tokens, 5u);
  EXPECT_EQ(device.gpu_memory, 1ull << 40);
  EXPECT_EQ(device.threads, 3u);
  EXPECT_EQ(device.context, 512u);
  EXPECT_EQ(device.cache_tokens, 2048u);
  EXPECT_EQ(device.gpu_layers, 0u);
  EXPECT_EQ(device.cpu_experts, all_layers);
  EXPECT_TRUE(device.exact && device.deterministic && device.no_selftest);
}

TEST(LibraryOptions, WhatIsWrongIsNamed) {
  const auto refused_with = [](auto&& change) {
    heddle_model_options options = cpu_options();
    change(options);
    return refusal([&] { read_options(&options); });
  };
  expect_says(refused_with([](auto& o) { o.device = "tpu"; }), {"device: expected auto, cpu or cuda:N", "\"tpu\""});
  expect_says(refused_with([](auto& o) { o.device = nullptr; }), {"device: expected a pointer, found NULL"});
  expect_says(refused_with([](auto& o) { o.kv = "q4"; }), {"kv: expected f16 or q8, found \"q4\""});
  expect_says(refused_with([](auto& o) { o.gpu_layers = -2; }), {"gpu_layers: expected a number of layers", "-2"});
  expect_says(refused_with([](auto& o) { o.gpu_layers = 2; }), {"gpu-layers is for GPUs"});
  expect_says(refused_with([](auto& o) { o.draft = ""; }), {"draft: expected a model or NULL"});
  expect_says(refused_with([](auto& o) { o.reserved = 1; }), {"reserved: expected 0, found 1"});
  expect_says(refused_with([](auto& o) { o.size = 0; }), {"heddle_model_options: expected a size of", "found 0"});
  expect_says(refused_with([](auto& o) { o.size = SIZE_MAX; }), {"heddle_model_options: expected a size of"});
  heddle_model* model = nullptr;
  heddle_error error{};
  heddle_model_options options = cpu_options();
  options.device = "tpu";
  EXPECT_EQ(heddle_model_open("weft", &options, &model, &error), HEDDLE_INVALID) << "before anything is opened";
}

// A program that was compiled for a later version, with a longer struct.
TEST(LibraryOptions, OfALaterVersion) {
  struct Longer {
    heddle_request known;
    uint64_t more;
  } request;
  std::memset(static_cast<void*>(&request), 0xff, sizeof request);
  heddle_request_init(&request.known, sizeof request);
  EXPECT_EQ(request.known.size, sizeof request);
  EXPECT_EQ(request.more, 0u) << "what this version does not know is 0";
  request.known.prompt = "a";
  EXPECT_EQ(*read_request(&request.known).prompt, "a");
  request.more = 1;
  expect_says(refusal([&] { read_request(&request.known); }), {"heddle_request", "a later version"});
  // and of an earlier one: no byte beyond its size is written
  std::memset(static_cast<void*>(&request), 0x55, sizeof request);
  heddle_request_init(&request.known, offsetof(heddle_request, seed));
  EXPECT_EQ(request.known.regex, nullptr);
  EXPECT_EQ(request.known.max_tokens, 0x55555555u);
}

TEST(LibraryOptions, LinesAboutOpeningAreGivenToTheProgram) {
  heddle_model_options options = cpu_options();
  std::vector<std::string> lines;
  options.log = [](void* data, const char* line) { static_cast<std::vector<std::string>*>(data)->push_back(line); };
  options.log_data = &lines;
  options.context = 1u << 20;
  heddle_model* model = nullptr;
  heddle_error error{};
  const heddle_status status = heddle_model_open("weft", &options, &model, &error);
  const ModelHandle owner(model);
  EXPECT_EQ(status, HEDDLE_OK) << error.message;
  ASSERT_FALSE(lines.empty());
  expect_says(lines[0], {"warning: a context of 1048576 tokens"});
}

}  // namespace
}  // namespace heddle::test
