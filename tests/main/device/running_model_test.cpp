// The files of a model. --device: without a driver, on a GPU that is too old or too small, and on one with kernels that
// compute nothing.
#include "main/device/running_model.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/cuda/fake_test.h"
#include "tests/main/small_model.h"
#include "tests/model/fixture.h"
#include "tests/support/refused.h"
#include "tests/support/sanitized.h"

namespace heddle::test {
namespace {

std::vector<std::string> run(std::initializer_list<std::string> more) {
  std::vector<std::string> arguments{"run", "-p", "Once upon a time", "-n", "5", "--temp", "0"};
  arguments.insert(arguments.end(), more);
  return arguments;
}
void expect_refused_in_a_line(const std::vector<std::string>& arguments,
                              std::initializer_list<std::string_view> parts) {
  const Result result = heddle(arguments);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  expect_says(result.err, parts);
}

// Several requests at once, greedy and sampled, with and without the head: the same tokens.
TEST(ModelsWithAHead, SayTheSameWithIt) {
  for (const char* name : {"qwen3next-mtp", "qwen35-mtp", "qwen35moe-mtp"}) {
    const Folder folder;
    const Fixture fixture(name);
    fixture.write(folder, fixture.config);
    const auto answers = [&](bool mtp, uint64_t& proposed) {
      DeviceOptions device{.cache_tokens = 400};
      device.device = "cpu";
      device.mtp = mtp;
      const auto running = open_running(folder.path().string(), device);
      EXPECT_EQ(running->drafts(), mtp);
      engine::EngineOptions options{.speculation = engine::Speculation::on};
      running->set_draft(options);
      engine::Engine engine(running->model, *running->backend, running->limits, options);
      std::map<std::pair<uint64_t, uint32_t>, std::vector<uint32_t>> tokens;
      for (uint32_t i = 0; i < 5; ++i) {
        engine::Request request{.prompt = {fixture.ids.begin(), fixture.ids.begin() + 4 + i * 5}, .max_tokens = 50};
        request.sampling.temperature = i % 2 ? 0.8f : 0;
        request.sampling.seed = i;
        request.n = i == 3 ? 2 : 1;
        engine.submit(request, [&tokens](const engine::Event& event) {
          EXPECT_NE(event.finish_reason, engine::FinishReason::failed) << event.reason;
          if (event.finish_reason == engine::FinishReason::none)
            tokens[{event.request, event.index}].push_back(event.pick.id);
        });
      }
      while (engine.step()) engine.check_invariants();
      proposed = engine.metrics().draft_proposed;
      return tokens;
    };
    uint64_t without = 0, with = 0;
    const auto expected = answers(false, without);
    EXPECT_EQ(answers(true, with), expected) << name;
    EXPECT_EQ(expected.size(), 6u);
    EXPECT_EQ(without, 0u);
    EXPECT_GT(with, 100u);
  }
}

TEST(ModelsWithAHead, OthersAreRefused) {
  expect_refused_in_a_line(run({"--mtp"}), {"--mtp: expected a model with a head for multi-token prediction", "weft"});
  EXPECT_EQ(heddle(run({"--mtp", "--draft", "weft"})).status, 2);
  expect_refused_in_a_line(run({"--draft-tokens", "3"}), {"--draft-tokens: expected --draft or --mtp with it"});
}

TEST(ModelFiles, AreThoseOfTheModel) {
  const std::filesystem::path path = HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf";
  const ModelFiles files = files_of(open_model(path.string()));
  EXPECT_EQ(files.format, "gguf");
  EXPECT_EQ(files.type, "Q8_0");
  EXPECT_EQ(files.bytes, std::filesystem::file_size(path));
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(files.modified, about.st_mtime);
}

TEST(ModelFiles, OfTheModelInsideTheProgram) {
  const ModelFiles files = files_of(open_model(own_model_name));
  EXPECT_EQ(files.type, "Q8_0");
  EXPECT_EQ(files.modified, 0) << "it has no file of its own";
  EXPECT_GT(files.bytes, own_model().size() * 9 / 10);
  EXPECT_LE(files.bytes, own_model().size());
}

// A file that does not say what it is: the format of most of its values.
TEST(ModelFiles, WithoutANameForItsType) {
  formats::Checkpoint checkpoint;
  checkpoint.metadata.set("general.license", std::string("mit"));
  checkpoint.tensors.push_back({.name = "a", .shape = {256, 4}, .format = quant::Format::q4_k});
  checkpoint.tensors.push_back({.name = "b", .shape = {256, 3}, .format = quant::Format::f32});
  EXPECT_EQ(files_of(checkpoint).type, "Q4_K");
  EXPECT_EQ(files_of(checkpoint).license, "mit");
  checkpoint.metadata.set("general.file_type", uint32_t(15));
  EXPECT_EQ(files_of(checkpoint).type, "Q4_K_M");
  checkpoint.kind = formats::Checkpoint::Kind::safetensors;
  EXPECT_EQ(files_of(checkpoint).type, "Q4_K");
  EXPECT_EQ(files_of(checkpoint).format, "safetensors");
  EXPECT_EQ(files_of({}).type, "");
}

class NoDriver : public testing::Test {
 protected:
  void SetUp() override { setenv("HEDDLE_LIBCUDA", "/nowhere/libcuda.so", 1); }
  void TearDown() override { unsetenv("HEDDLE_LIBCUDA"); }
};

TEST_F(NoDriver, AutoIsTheCpuAndSaysWhy) {
  const Result found = heddle(run({})), cpu = heddle(run({"--device", "cpu"}));
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, cpu.out);
  EXPECT_EQ(found.err.rfind("device: cpu (no NVIDIA driver library)\n", 0), 0u) << found.err;
  EXPECT_EQ(cpu.err.find("device:"), std::string::npos) << cpu.err;
  EXPECT_EQ(heddle(run({"--backend", "reference"})).err.find("device:"), std::string::npos);
}

TEST_F(NoDriver, AGpuThatWasAskedForIsNotReplaced) {
  const Folder folder;
  const std::string text = folder.write("t.txt", "once"), out = folder.file("l.safetensors");
  const std::string own = HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf";
  for (std::vector<std::string> arguments : {run({}),
                                             {"chat"},
                                             {"bench", "-p", "8", "-n", "1"},
                                             {"plan"},
                                             {"perplexity", own, text},
                                             {"logits", own, "--ids", "1", "--out", out},
                                             {"selftest", "weft"}}) {
    arguments.insert(arguments.end(), {"--device", "cuda:1"});
    expect_refused_in_a_line(arguments, {"heddle: no NVIDIA driver library"});
  }
}

TEST_F(NoDriver, NamesThatThereAreNot) {
  for (const char* name : {"gpu", "cuda", "cuda:", "cuda:x", "cuda:0x", "cuda:-1", "cuda:99999999999", ""})
    expect_refused_in_a_line(run({"--device", name}),
                             {"--device: expected auto, cpu or cuda:N", std::string("\"") + name + "\""});
  expect_refused_in_a_line(run({"--device", "cuda:0", "--backend", "reference"}),
                           {"--backend reference runs on the CPU", "cuda:0"});
  const Folder folder;
  expect_refused_in_a_line(run({"--device", "cpu", "--trace", folder.file("t.json")}), {"--trace is for GPUs"});
  EXPECT_FALSE(std::filesystem::exists(folder.file("t.json")));
}

TEST_F(NoDriver, ANumberIsANameOfAGpu) {
  EXPECT_EQ(cuda_number("cuda:0"), 0u);
  EXPECT_EQ(cuda_number("cuda:17"), 17u);
  EXPECT_EQ(cuda_number("17"), std::nullopt);
  expect_says(heddle({"selftest", "--device", "cuda:3"}).err, {"no NVIDIA driver library"});
  expect_says(heddle({"bench", "kernels", "--device", "cuda:3"}).err, {"no NVIDIA driver library"});
}

// See gpu_command_test.cpp.
class OnFakeGpu : public cuda::Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    use_driver(11080);
    control().free_bytes = size_t(512) << 20;
    setenv("HEDDLE_CACHE_DIR", "off", 1);
  }
  void TearDown() override {
    unsetenv("HEDDLE_CACHE_DIR");
    Fake::TearDown();
  }
};

TEST_F(OnFakeGpu, AGpuThatIsTooOldIsSaid) {
  control().sm = 70;
  control().devices = 2;
  const Result found = heddle(run({}));
  EXPECT_EQ(found.status, 0) << found.err;
  expect_says(found.err, {"device: cpu (cuda:0: cuda:0 Fake GPU 0", "7.0", "; cuda:1: ", ")\n"});
  expect_refused_in_a_line(run({"--device", "cuda:0"}), {"heddle: cuda:0 Fake GPU 0", "7.0"});
  expect_refused_in_a_line(run({"--device", "cuda:2"}), {"there is no GPU 2"});
  expect_says(heddle({"plan"}).out, {"cpu ", "fits", "cuda:0    cannot run it: ", "7.0"});
}

TEST_F(OnFakeGpu, WhatDoesNotFitIsSaidWithWhatWould) {
  control().free_bytes = size_t(1) << 20;
  const Result found = heddle(run({}));
  EXPECT_EQ(found.status, 0) << found.err;
  expect_says(found.err, {"device: cpu (cuda:0: the model needs ", " MB, 983.0 KB are free)\n"});
  expect_refused_in_a_line(run({"--device", "cuda:0"}),
                           {"weft: too little memory on cuda:0 Fake GPU 0: expected ", "(weights ", "KV cache of 512",
                            "found 983.0 KB", "too little; ", "; nor does a part of it fit: "});
  expect_says(heddle({"plan", "--device", "cuda:0"}).out, {"cuda:0 ", "does not fit", "no split: "});
}

TEST_F(OnFakeGpu, PlanCountsForEveryGpu) {
  const auto plan = nlohmann::json::parse(heddle({"plan", "--json"}).out);
  ASSERT_EQ(plan.at("devices").size(), 2u);
  const auto& gpu = plan.at("devices")[1];
  EXPECT_EQ(gpu.at("device"), "cuda:0");
  EXPECT_TRUE(gpu.at("fits"));
  EXPECT_EQ(gpu.at("needed_bytes"), gpu.at("weights_bytes").get<uint64_t>() + gpu.at("kv_bytes").get<uint64_t>() +
                                        gpu.at("workspace_bytes").get<uint64_t>());
  EXPECT_GT(gpu.at("weights_bytes"), 8'000'000);
}

TEST_F(OnFakeGpu, AGpuThatComputesWrongIsRefused) {
  for (const auto& arguments : {run({"--device", "cuda:0"}), run({})}) {
    const Result result = heddle(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    expect_says(result.err, {"heddle: weft: cuda:0 Fake GPU 0", "is wrong", "16 tokens at once", "FAILED", "one by one",
                             "FAILED", "--no-selftest"});
  }
  const Result whole = heddle({"selftest", "weft", "--sweep", "quick"});
  EXPECT_EQ(whole.status, 1);
  expect_says(whole.out, {"cuda:0 Fake GPU 0", "graphs: prompt at once", "FAILED", " failed, "});
}

// Without the selftest, a GPU that computes nothing is used like any other.
TEST_F(OnFakeGpu, CommandsRunOnIt) {
  const Result found = heddle(run({"--no-selftest"}));
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.err.rfind("device: cuda:0 Fake GPU 0, ", 0), 0u) << found.err;
  expect_says(found.err, {" free\n", "prompt 5 tokens"});
  const Result asked = heddle(run({"--no-selftest", "--device", "cuda:0"}));
  EXPECT_EQ(asked.out, found.out);
  EXPECT_EQ(asked.err.find("device:"), std::string::npos) << asked.err;

  const Result bench = heddle({"bench", "--no-selftest", "--device", "cuda:0", "-p", "16", "-n", "4", "-b", "1,3,9",
                               "-d", "0,40", "-r", "2", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  const auto json = nlohmann::json::parse(bench.out);
  EXPECT_EQ(json.at("results").size(), 2u * (1 + 3));
  EXPECT_FALSE(json.contains("memory_bytes_per_second")) << "weft fits into the cache of the GPU";
  EXPECT_GT(json.at("device_memory_bytes"), 8'000'000);
  for (const auto& row : json.at("results")) EXPECT_EQ(row.at("threads"), 0);

  const Folder folder;
  const std::string file = folder.file("t.json");
  const Result traced = heddle(run({"--no-selftest", "--trace", file}));
  EXPECT_EQ(traced.status, 0) << traced.err;
  expect_says(traced.err, {"phase", "GB/s", "all"});
  const MappedFile mapped(file);
  EXPECT_GT(nlohmann::json::parse(mapped.text()).at("traceEvents").size(), 20u);
}

// Its batches follow one another there, beside those of the model.
TEST_F(OnFakeGpu, ADraftRunsOnTheSameGpu) {
  const Result plain = heddle(run({"--no-selftest"})), drafted = heddle(run({"--no-selftest", "--draft", "weft"}));
  EXPECT_EQ(drafted.status, 0) << drafted.err;
  EXPECT_EQ(drafted.out, plain.out);

  std::vector<std::string> bench{"bench", "--no-selftest", "--device", "cuda:0", "-p",      "0",    "-n",    "60",
                                 "-b",    "1,3,9",         "-r",       "1",      "--draft", "weft", "--json"};
  uint64_t memory = 0;
  const std::vector<std::string> shares = sanitized ? std::vector<std::string>{"0.7"}  // each loads two models
                                                    : std::vector<std::string>{"0", "0.7", "1"};
  for (const std::string& share : shares) {
    std::vector<std::string> forced = bench;
    forced.insert(forced.end(), {"--draft-accept", share, "--draft-tokens", "11"});
    const Result result = heddle(forced);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    const double proposed = json["draft"]["proposed"], accepted = json["draft"]["accepted"];
    EXPECT_GT(proposed, 200);
    EXPECT_NEAR(accepted / proposed, std::stod(share), 0.1);
    memory = json["device_memory_bytes"];
  }
  bench.erase(bench.end() - 3, bench.end() - 1);
  const auto alone = nlohmann::json::parse(heddle(bench).out);
  EXPECT_GT(memory, 2 * alone["device_memory_bytes"].get<uint64_t>() - 1'000'000);

  // with time for all proposals, however slow the machine is
  const Result sim = heddle({"bench", "serve-sim", "--no-selftest", "--device", "cuda:0", "--draft", "weft", "-n", "9",
                             "--speculate", "on", "-g", "60", "--max-stall-ms", "60000"});
  EXPECT_EQ(sim.status, 0) << sim.err;
  expect_says(sim.out, {" 0 failed", "draft ", " accepted (100 %)"});

  control().free_bytes = size_t(60) << 20;
  expect_refused_in_a_line(run({"--device", "cuda:0", "--draft", "weft"}),
                           {"weft: too little memory on cuda:0 Fake GPU 0: expected ", "; draft weft: weights ",
                            "found ", "; without --draft the model fits"});
}

// A model of 8e9 weights that no file has.
TEST(FittingType, TheLargestThatFits) {
  static const uint8_t byte = 0;
  model::Model model{.name = "large", .context = 4096};
  model.output = {quant::Format::f16, 1'000'000, 8'000, {&byte, 1}};
  Fit fit{.needed = {.weights = 16'000'000'000, .kv = 512 << 20, .workspace = 100'000'000}};
  const auto type = [&](uint64_t available) {
    fit.available = available;
    return fitting_type(model, fit);
  };
  expect_says(type(10'000'000'000), {"Q8_0 (8.50 GB)"});
  expect_says(type(8'000'000'000), {"Q6_K (6.57 GB)"});
  expect_says(type(5'100'000'000), {"Q4_K_M"});
  EXPECT_EQ(type(2'000'000'000), "");
  fit.needed.weights = 5'000'000'000;  // what is no smaller does not help
  expect_says(type(10'000'000'000), {"Q3_K_M"});
  fit.available = 4'500'000'000;
  expect_says(does_not_fit(model, fit, " on cuda:0 X"),
              {"large: too little memory on cuda:0 X: expected ", "found 4.50 GB", "a shorter context does not help",
               "weights as Q3_K_M (3.95 GB) would fit"});
}

TEST(FittingType, AContextThatWouldFit) {
  const model::Model model = model::load(open_model("weft"));
  const uint64_t all = memory_for(model, {}, model::limits_for(512)).total();
  const Fit fits = fit(model, {}, 512, all), cut = fit(model, {}, 512, all - 1);
  EXPECT_EQ(fits.context, 512u);
  EXPECT_EQ(cut.context, 0u);  // below the least that is chosen by itself
  EXPECT_EQ(cut.largest, 480u);
  expect_says(does_not_fit(model, cut, ""), {"weft: too little memory: ", "1 B too little; --ctx 480 would fit"});
  EXPECT_EQ(fit(model, {}, 512, 0).context, 512u);  // not known
  EXPECT_EQ(usable_memory(0), 0u);
  EXPECT_EQ(usable_memory(uint64_t(100) << 30), (uint64_t(100) << 30) - (256 << 20));
}

TEST(FittingType, ADraftNeedsMemoryToo) {
  const model::Model model = model::load(open_model("weft"));
  const uint64_t one = memory_for(model, {}, model::limits_for(512)).total();
  EXPECT_EQ(fit(model, {}, 512, 2 * one, nullptr, &model).context, 512u);
  const Fit cut = fit(model, {}, 512, 2 * one - 1, nullptr, &model);
  EXPECT_EQ(cut.context, 0u);
  EXPECT_EQ(cut.draft.total(), one);
  expect_says(does_not_fit(model, cut, "", &model),
              {"weft: too little memory: ", "; draft weft: weights ", "1 B too little; --ctx 480 would fit",
               "; without --draft the model fits"});
  DeviceOptions many{.cache_tokens = 64 * 512};
  const uint64_t some = memory_for(model, many, {.rows = 512, .kv_blocks = 100}).total();
  EXPECT_EQ(fit(model, many, 512, 2 * some, nullptr, &model).limits.kv_blocks, 100u);
}

}  // namespace
}  // namespace heddle::test
