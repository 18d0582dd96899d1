// How a model is split between a GPU and the CPU: by value for any room, and as commands say it on a fake GPU.
#include "main/device/split_choice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <nlohmann/json.hpp>

#include "formats/checkpoint.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/cuda/fake_test.h"
#include "tests/main/heddle_command.h"
#include "tests/model/fixture.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

constexpr SplitRates rates{.gpu = 1e12, .cpu = 5e10};
const cuda::DeviceInfo gpu_info{.name = "Small GPU", .sm = 90, .sms = 132, .shared_per_block_optin = 232448};

SplitChoice choice_of(const model::Model& model, const DeviceOptions& options, uint64_t gpu_bytes,
                      uint64_t cpu_bytes = 0) {
  return choose_split(model, options, {.gpu = gpu_info, .gpu_bytes = gpu_bytes, .cpu_bytes = cpu_bytes}, rates);
}
uint64_t bytes_of(const model::Model& model, const DeviceOptions& options, const SplitCut& cut,
                  const model::Limits& limits) {
  return gpu_memory_of(model, cut, options, limits, gpu_info).total();
}

TEST(SplitChoice, MoreMemoryIsMoreOfTheModel) {
  const model::Model model = model::load(open_model("weft"));
  const auto layers = uint32_t(model.layers.size());
  double last = INFINITY;
  uint32_t chosen = 0;
  for (uint64_t bytes = 1 << 20; bytes < 40 << 20; bytes += 1 << 20) {
    SCOPED_TRACE(bytes);
    std::optional<SplitChoice> choice;
    try {
      choice = choice_of(model, {.threads = 3, .context = 256}, bytes);
    } catch (const DoesNotSplit& error) {
      EXPECT_EQ(chosen, 0u) << "what fits into less fits into more";
      expect_says(error.what(),
                  {"weft: too little memory on cuda:0 Small GPU for ", fmt::format(" of {} layers", layers),
                   "expected ", " to be free (weights ", "KV cache of ", "workspace ", "), found "});
      continue;
    }
    ++chosen;
    EXPECT_EQ(choice->on_gpu.total(), bytes_of(model, {}, choice->cut, choice->limits));
    EXPECT_LE(choice->on_gpu.total(), bytes);
    EXPECT_LE(choice->seconds, last * 1.26);  // a quarter for attention that stays on the GPU
    last = std::min(last, choice->seconds);
  }
  EXPECT_GT(chosen, 10u);
  const SplitChoice all = choice_of(model, {}, uint64_t(1) << 30);
  EXPECT_EQ(all.cut.gpu_layers, layers);
  EXPECT_EQ(all.cut.moved, 0u);
  EXPECT_TRUE(all.cut.head_on_gpu);
}

TEST(SplitChoice, LayersByNumber) {
  const model::Model model = model::load(open_model("weft"));
  const auto layers = uint32_t(model.layers.size());
  for (uint32_t count = 1; count <= layers; ++count) {
    const SplitChoice choice = choice_of(model, {.threads = 3, .gpu_layers = count}, uint64_t(1) << 30);
    EXPECT_EQ(choice.cut.gpu_layers, count);
    EXPECT_EQ(choice.cut.moved, 0u);
    EXPECT_EQ(choice.cut.head_on_gpu, count == layers);
    if (count < layers) {
      expect_says(choice.text,
                  {fmt::format("{} of {} layers on cuda:0, {} on 3 CPU threads, about ", count, layers, layers - count),
                   " tok/s"});
    }
  }
  EXPECT_REFUSED(choice_of(model, {.gpu_layers = layers + 1}, 1 << 30),
                 fmt::format("--gpu-layers: expected up to {}, as many as weft has, found {}", layers, layers + 1));
  EXPECT_REFUSED(choice_of(model, {.cpu_experts = all_layers}, 1 << 30), "--cpu-experts: weft has no experts");
  EXPECT_REFUSED(choice_of(model, {.gpu_layers = 2}, 3 << 20), "too little memory on cuda:0 Small GPU for 2 of ",
                 "found 3.1 MB");
  EXPECT_REFUSED(choice_of(model, {.gpu_layers = 1}, 1 << 30, 1 << 20), "expected ",
                 "to be available on the CPU, found 1.0 MB");
}

// A context that was asked for is kept; another gives way to layers.
TEST(SplitChoice, Contexts) {
  const model::Model model = model::load(open_model("weft"), {.context = 8192});
  const uint64_t room = 24 << 20;
  EXPECT_EQ(choice_of(model, {.context = 8192}, 64 << 20).context, 8192u);
  const SplitChoice cut = choice_of(model, {}, room);
  EXPECT_LT(cut.context, 8192u);
  EXPECT_GE(cut.context, 512u);
  EXPECT_EQ(uint64_t(cut.limits.kv_blocks) * cut.limits.block_tokens, cut.context);
  for (const uint32_t tokens : {1024u, 16384u})
    EXPECT_EQ(choice_of(model, {.context = 8192, .cache_tokens = tokens}, 256 << 20).limits.kv_blocks, tokens / 32);
}

TEST(SplitChoice, ExpertsGoBeforeAttention) {
  const Folder folder;
  const Fixture fixture("qwen3moe");
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = 64});
  const uint32_t mixtures = mixtures_of(model);
  ASSERT_GT(mixtures, 1u);
  const SplitChoice all = choice_of(model, {.threads = 3, .cpu_experts = all_layers}, 1 << 30);
  EXPECT_EQ(all.cut.moved, mixtures);
  EXPECT_EQ(all.cut.gpu_layers, model.layers.size());
  expect_says(all.text, {fmt::format("the experts of {} on 3 CPU threads", mixtures)});
  for (const auto& places : all.placement.sublayers) {
    EXPECT_EQ(std::count(places.begin(), places.end(), model::Place::device), 1) << "attention stays";
    EXPECT_EQ(std::count(places.begin(), places.end(), model::Place::visiting), 1);
  }
  // not more than must be
  const DeviceOptions steady{.deterministic = true};
  const model::Limits limits = model::limits_for(64, 64);
  const SplitCut one{.gpu_layers = uint32_t(model.layers.size()), .moved = 1};
  const SplitRoom room{.gpu = gpu_info, .gpu_bytes = bytes_of(model, steady, one, limits), .rows = 64};
  const SplitChoice found = choose_split(model, steady, room, rates);
  EXPECT_EQ(found.cut.moved, 1u) << found.text;
  EXPECT_FALSE(found.cut.visits) << "results would depend on the rows of a batch";
  EXPECT_EQ(found.on_gpu.total(), room.gpu_bytes);
  EXPECT_REFUSED(choice_of(model, {.cpu_experts = mixtures + 1}, 1 << 30),
                 fmt::format("--cpu-experts: expected up to {}, as many layers of ", mixtures));
}

// Models of real shapes in addresses that nothing is behind: only sizes are looked at, and routers.
class ShapesOnly {
 public:
  ShapesOnly() : base_(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(base_, MAP_FAILED);
  }
  ~ShapesOnly() { munmap(base_, size_); }
  ShapesOnly(const ShapesOnly&) = delete;

  model::Matrix matrix(uint64_t rows, uint64_t cols, quant::Format format = quant::Format::q4_k) {
    const uint64_t bytes = rows * quant::row_bytes(format, cols);
    const auto* data = static_cast<const uint8_t*>(base_) + used_;
    used_ += bytes;
    EXPECT_LE(used_, size_);
    return {format, rows, cols, {data, bytes}};
  }
  // `experts` 0: a feed-forward of `inner`; else a mixture of which 8 are used.
  model::Model model(uint32_t layers, uint32_t width, uint32_t kv_heads, uint32_t inner, uint32_t experts) {
    model::Model m{.name = "shapes", .context = 131072, .width = width, .vocabulary = 128256};
    m.norm = {model::Norm::Kind::rms, model::Vector(width, 1.0f), {}, 1e-5f};
    m.embedding = matrix(m.vocabulary, width);
    m.output = matrix(m.vocabulary, width, quant::Format::q6_k);
    for (uint32_t i = 0; i < layers; ++i) {
      model::Attention a;
      a.norm = m.norm;
      a.heads = 32;
      a.kv_heads = kv_heads;
      a.head = a.value_head = 128;
      a.q = matrix(4096, width);
      a.k = a.v = matrix(kv_heads * 128, width);
      a.v = matrix(kv_heads * 128, width);
      a.output = matrix(width, 4096);
      model::Layer& layer = m.layers.emplace_back(model::Layer{.sublayers = {std::move(a)}});
      if (experts == 0) {
        model::FeedForward f{.norm = m.norm};
        f.gate = matrix(inner, width);
        f.up = matrix(inner, width);
        f.down = matrix(width, inner, quant::Format::q6_k);
        layer.sublayers.push_back(std::move(f));
        continue;
      }
      model::Mixture mixture{.norm = m.norm};
      router_.resize(uint64_t(experts) * width * 4);
      mixture.router = {quant::Format::f32, experts, width, router_};
      mixture.routing.used = 8;
      mixture.gate = {experts, matrix(uint64_t(experts) * inner, width)};
      mixture.up = {experts, matrix(uint64_t(experts) * inner, width)};
      mixture.down = {experts, matrix(uint64_t(experts) * width, inner, quant::Format::q6_k)};
      layer.sublayers.push_back(std::move(mixture));
    }
    return m;
  }

 private:
  static constexpr uint64_t size_ = uint64_t(24) << 30;
  void* base_;
  uint64_t used_ = 0;
  std::vector<uint8_t> router_;
};

TEST(SplitChoice, OfAnEightBillionModelInThreeGigabytes) {
  ShapesOnly shapes;
  const model::Model model = shapes.model(32, 4096, 8, 14336, 0);
  const uint64_t room = usable_memory(3'000'000'000);
  const SplitChoice choice = choice_of(model, {.threads = 16}, room);
  EXPECT_EQ(choice.cut.gpu_layers, 32u) << choice.text;
  EXPECT_TRUE(choice.cut.visits);
  EXPECT_GE(choice.cut.moved, 12u);
  EXPECT_LE(choice.cut.moved, 22u);
  EXPECT_GE(choice.limits.rows, 256u);
  EXPECT_GE(choice.context, 2048u);
  EXPECT_GT(choice.on_gpu.total(), room - 250'000'000) << "nothing is left that a further feed-forward would fit into";
  const SplitChoice more = choice_of(model, {.threads = 16}, room + 1'000'000'000);
  EXPECT_LE(more.cut.moved + 6, choice.cut.moved) << more.text;
}

TEST(SplitChoice, SlowOfAMixtureInTenGigabytes) {
  ShapesOnly shapes;
  const model::Model model = shapes.model(48, 2048, 4, 768, 128);
  const SplitChoice choice = choice_of(model, {.threads = 16}, usable_memory(10'000'000'000));
  EXPECT_EQ(choice.cut.gpu_layers, 48u) << choice.text;
  EXPECT_TRUE(choice.cut.head_on_gpu) << "every token reads all of it";
  EXPECT_GE(choice.cut.moved, 20u);
  EXPECT_LE(choice.cut.moved, 34u);
  EXPECT_EQ(choice.limits.rows, 2048u);
  const SplitChoice small = choice_of(model, {.threads = 16}, 2'000'000'000);
  EXPECT_EQ(small.cut.moved, small.cut.gpu_layers) << small.text;
}

// On the fake GPU of running_model_test.cpp, which computes nothing.
class OnSmallFakeGpu : public cuda::Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    use_driver(11080);
    setenv("HEDDLE_CACHE_DIR", "off", 1);
    control().free_bytes = size_t(64) << 20;
  }
  void TearDown() override {
    unsetenv("HEDDLE_CACHE_DIR");
    Fake::TearDown();
  }
};

Result run_split(std::initializer_list<std::string> more) {
  std::vector<std::string> arguments{"run", "-p", "Once upon a time", "-n", "3", "--temp", "0", "--no-selftest"};
  arguments.insert(arguments.end(), more);
  return heddle(arguments);
}

TEST_F(OnSmallFakeGpu, WhatDoesNotFitIsSplit) {
  for (const char* device : {"auto", "cuda:0"}) {
    const Result result = run_split({"--device", device, "--gpu-memory", "10MB", "--threads", "2"});
    EXPECT_EQ(result.status, 0) << result.err;
    expect_says(result.err, {"device: ", " layers on cuda:0, ", " on 2 CPU threads, about ", " tok/s\n"});
  }
  const Result plan = heddle({"plan", "--gpu-memory", "10MB", "--threads", "2"});
  EXPECT_EQ(plan.status, 0);
  expect_says(plan.out,
              {"does not fit", "split: ", " layers on cuda:0, ", " on 2 CPU threads, about ", " of cuda:0, "});
  const auto json = nlohmann::json::parse(heddle({"plan", "--gpu-layers", "2", "--json"}).out);
  const auto& split = json.at("devices")[1].at("split");
  EXPECT_EQ(split.at("gpu_layers"), 2);
  EXPECT_EQ(split.at("head"), "cpu");
  EXPECT_LE(split.at("gpu_bytes"), 64 << 20);
  EXPECT_GT(split.at("tokens_per_second"), 0);
}

TEST_F(OnSmallFakeGpu, NumbersAreTakenOrRefused) {
  const Result two = run_split({"--gpu-layers", "2", "--threads", "2"});
  EXPECT_EQ(two.status, 0) << two.err;
  expect_says(two.err, {"device: 2 of ", " layers on cuda:0, ", "on 2 CPU threads"});
  const Result none = run_split({"--gpu-layers", "0"}), cpu = run_split({"--device", "cpu"});
  EXPECT_EQ(none.out, cpu.out);
  expect_says(none.err, {"device: cpu (--gpu-layers 0)\n"});
  EXPECT_EQ(run_split({"--gpu-layers", "auto"}).err.rfind("device: cuda:0 Fake GPU 0, ", 0), 0u);

  const auto refused = [](std::initializer_list<std::string> more, std::initializer_list<std::string_view> says) {
    const Result result = run_split(more);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    expect_says(result.err, says);
  };
  refused({"--gpu-layers", "99"}, {"--gpu-layers: expected up to ", "as many as weft has, found 99"});
  refused({"--gpu-layers", "x"}, {"--gpu-layers: expected a number of layers or auto, found \"x\""});
  refused({"--gpu-layers", "1", "--device", "cpu"}, {"--gpu-layers is for GPUs: expected --device auto or cuda:N"});
  refused({"--gpu-memory", "1GB", "--backend", "reference"}, {"--gpu-memory is for GPUs", "--backend reference"});
  refused({"--cpu-experts", "--device", "cpu"}, {"--cpu-experts is for GPUs"});
  refused({"--cpu-experts"}, {"--cpu-experts: weft has no experts"});
  refused({"--cpu-experts", "2"}, {"--cpu-experts: weft has no experts"});
  refused({"--gpu-memory", "lots"}, {"--gpu-memory: expected a size such as 8GB", "\"lots\""});
  refused({"--gpu-memory", "1MB", "--device", "cuda:0"},
          {"weft: too little memory on cuda:0 Fake GPU 0: expected ", "nor does a part of it fit: ", " layers"});
  refused({"--gpu-memory", "1MB", "--gpu-layers", "2"}, {"too little memory on cuda:0 Fake GPU 0 for 2 of "});
  refused({"--gpu-layers", "2", "--device", "cuda:3"}, {"there is no GPU 3"});
}

// Nothing is loaded where it was not asked for: a GPU that cannot even take a layer is passed over.
TEST_F(OnSmallFakeGpu, WhereNoLayerFitsTheCpuRunsIt) {
  const Result result = run_split({"--gpu-memory", "1MB"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, run_split({"--device", "cpu"}).out);
  expect_says(result.err, {"device: cpu (cuda:0: the model needs ", " are free)\n"});
}

TEST_F(OnSmallFakeGpu, BenchAndSelftestRunSplits) {
  const Result bench = heddle({"bench", "--no-selftest", "--gpu-layers", "2", "-p", "16", "-n", "4", "-b", "1,3", "-r",
                               "1", "-t", "1,2", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  const auto json = nlohmann::json::parse(bench.out);
  EXPECT_EQ(json.at("results").size(), 2u * 3);
  EXPECT_EQ(json.at("results")[0].at("threads"), 1);
  for (const auto& result : json.at("results")) {
    const auto& step = result.at("split_step");
    // one row: to the GPU, and back for the other layers; of more rows, feed-forwards of these may visit the GPU
    const bool one_row = result.at("test") == "decode" && result.at("batch") == 1;
    EXPECT_GE(step.at("crossings"), 2) << result;
    EXPECT_TRUE(!one_row || step.at("crossings") == 2) << result;
    for (const char* part : {"cpu_seconds", "launch_seconds", "wait_seconds"}) EXPECT_GT(step.at(part), 0) << result;
  }
  const Result text = heddle({"bench", "--no-selftest", "--gpu-layers", "2", "-p", "0", "-n", "4", "-r", "1"});
  ASSERT_EQ(text.status, 0) << text.err;
  expect_says(text.out, {"\n  a step: ", " ms on the CPU, ", " launching, ", " waiting for the GPU; 2 crossings\n"});
  EXPECT_LT(json.at("device_memory_bytes"), 64 << 20);
  const Result test = heddle({"selftest", "weft", "--sweep", "quick", "--gpu-layers", "2"});
  EXPECT_EQ(test.status, 1);
  expect_says(test.out, {"cuda:0 Fake GPU 0", ", with CPU (", "FAILED"});
  expect_says(heddle({"selftest", "--gpu-layers", "2"}).err, {"--gpu-layers: expected a MODEL with it, found none"});
}

}  // namespace
}  // namespace heddle::test
