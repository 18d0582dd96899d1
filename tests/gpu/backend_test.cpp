// Models on a GPU that computes nothing: what the driver is called for and when, and that everything is released.
#include <algorithm>
#include <map>

#include "formats/checkpoint.h"
#include "gpu/gpu.h"
#include "gpu/tuning.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/gpu/small_model.h"
#include "tests/model/fixture.h"
#include "tests/support/folder.h"
#include "tests/support/reference_models.h"
#include "tests/support/sanitized.h"

namespace heddle::gpu {
namespace {

using cuda::expect_says;
using cuda::message;

model::Model weft() {
  return model::load(formats::open_checkpoint(std::string(HEDDLE_SOURCE_DIR) + "/models/weft/weft-q8_0.gguf"),
                     {.context = 256});
}

TEST_F(FakeGpu, LoadsFeedsAndStepsWithoutAllocatingAgain) {
  const model::Model model = weft();
  const model::Limits limits = model::limits_for(model.context, 64);
  uint64_t done = 0, all = 0;
  const auto progress = [&](uint64_t bytes, uint64_t of) {
    done = bytes;
    all = of;
  };
  auto backend = make_gpu(model, limits, {.progress = progress});
  EXPECT_GT(all, 8'000'000u);
  EXPECT_EQ(done, all);
  // every matrix was packed by the device
  for (const std::string& kernel : kernels_since(0)) EXPECT_EQ(kernel, "tile_pack");
  const size_t loaded = calls();

  model::Session session(model, *backend, limits);
  std::vector<uint32_t> prompt(40);
  for (uint32_t i = 0; i < prompt.size(); ++i) prompt[i] = i;
  EXPECT_EQ(session.feed(prompt).size(), model.vocabulary);
  EXPECT_EQ(session.feed(std::vector<uint32_t>{7}).size(), model.vocabulary);
  const size_t fed = calls();

  const model::Batch following{.follows = true};
  model::forward(model, *backend,
                 {.tokens = {3},
                  .positions = {41},
                  .sequences = {0},
                  .blocks = {{0, 1}},
                  .outputs = {0},
                  .picking = {model::Picking()}});
  EXPECT_EQ(backend->result().picked.size(), 1u);
  const size_t first = calls(), launched = launches(), sent = control().bytes_sent;
  const Calls of_first = kernels_since(0);
  constexpr size_t more = 5;
  for (size_t i = 0; i < more; ++i) model::forward(model, *backend, following);
  for (size_t i = 0; i < more; ++i) EXPECT_TRUE(backend->result().picked[0]);
  EXPECT_EQ(control().bytes_sent, sent) << "nothing is sent for a batch that follows";
  Calls expected;
  for (size_t i = 0; i < more; ++i)
    for (const char* call : {"cuGraphLaunch", "cuMemcpyDtoHAsync_v2", "cuEventRecord"}) expected.push_back(call);
  expected.insert(expected.end(), more, "cuEventSynchronize");
  EXPECT_EQ(calls_since(first), expected);
  // all steps are the same kernels
  const Calls later = kernels_since(launched);
  ASSERT_EQ(later.size() % more, 0u);
  const size_t each = later.size() / more;
  EXPECT_EQ(each, 1 + 5 * model.layers.size() + 3);  // token; layers; logits, what is picked, on to the next
  for (size_t i = 0; i < later.size(); ++i) EXPECT_EQ(later[i], later[i % each]) << i;
  EXPECT_TRUE(std::equal(later.begin(), later.begin() + long(each), of_first.end() - long(each)));
  EXPECT_EQ(later[0], "embedding");
  EXPECT_EQ(later[1], "product");
  EXPECT_EQ(later[each - 3], "product");
  EXPECT_EQ(later[each - 1], "step_advance");

  const Calls since = calls_since(loaded);
  EXPECT_EQ(std::count_if(since.begin(), since.end(), is_allocation), 0);
  EXPECT_GT(fed, loaded);
  backend.reset();
}

TEST_F(FakeGpu, StepsOfSeveralRowsAndOptionsAreGraphsOfTheirOwn) {
  SmallModel small(2);
  const model::Limits limits{.rows = 16, .kv_blocks = 8, .block_tokens = 32};
  auto backend = make_gpu(small.model, limits);
  model::Batch batch;
  for (uint32_t i = 0; i < 3; ++i) {
    batch.tokens.push_back(i);
    batch.positions.push_back(5 * i);
    batch.sequences.push_back(i);
    batch.outputs.push_back(i);
    batch.blocks.push_back({2 * i, 2 * i + 1});
  }
  auto graphs = [&] { return control().count("cuGraphInstantiateWithFlags"); };
  const model::Batch following{.follows = true};
  auto step = [&](const model::Picking& picking) {
    batch.picking.assign(batch.tokens.size(), picking);
    model::forward(small.model, *backend, batch);
    for (int i = 0; i < 2; ++i) model::forward(small.model, *backend, following);
    for (int i = 0; i < 3; ++i) {
      const model::Result result = backend->result();
      EXPECT_EQ(result.picked.size(), batch.tokens.size());
      EXPECT_TRUE(result.logits.empty());
    }
    EXPECT_THROW(backend->result(), std::logic_error);  // nothing was launched
  };
  step({});
  EXPECT_EQ(graphs(), 1u);
  step({.temperature = 0.5f, .top_k = 4});  // is in the parameters
  EXPECT_EQ(graphs(), 1u);
  step({.repetition = 1.5f, .text = {1, 2}});
  EXPECT_EQ(graphs(), 2u);
  step({.logprob = true});
  EXPECT_EQ(graphs(), 3u);
  step({.logprob = true, .top = 2});
  EXPECT_EQ(graphs(), 4u);
  step({.logprob = true, .top = 20});
  EXPECT_EQ(graphs(), 4u);
  batch.tokens.pop_back();
  batch.positions.pop_back();
  batch.sequences.pop_back();
  batch.outputs.pop_back();
  step({});
  EXPECT_EQ(graphs(), 5u);
  step({});
  EXPECT_EQ(graphs(), 5u);
}

// A graph for each number of rows, up to a bound; the first step of each is launched kernel by kernel, and its graph
// is made while the device computes it. Which graphs exist changes nothing but how the kernels are launched.
TEST_F(FakeGpu, GraphsAreMadeWhileTheDeviceComputesAndTheirNumberIsBounded) {
  SmallModel small(2);
  auto backend = make_gpu(small.model, {.rows = 256, .kv_blocks = 256, .block_tokens = 32});
  auto step = [&](uint32_t rows) {
    model::Batch batch;
    for (uint32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(i % small.model.vocabulary);
      batch.positions.push_back(3);
      batch.sequences.push_back(i);
      batch.outputs.push_back(i);
      batch.blocks.push_back({i});
    }
    batch.picking.assign(rows, model::Picking());
    const size_t before = calls(), kernels = launches();
    model::forward(small.model, *backend, batch);
    EXPECT_EQ(backend->result().picked.size(), rows);
    Calls since = calls_since(before), work;
    for (const std::string& call : since)
      if (is_work(call) || call == "cuMemcpyDtoHAsync_v2" || call == "cuGraphInstantiateWithFlags")
        if (work.empty() || work.back() != call) work.push_back(call);
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_compiling), 0) << rows;
    return std::pair(work, kernels_since(kernels));
  };
  const Calls replayed{"cuGraphLaunch", "cuMemcpyDtoHAsync_v2"};
  std::map<uint32_t, Calls> kernels;
  for (uint32_t rows = 1; rows <= 256; ++rows) {
    const auto [work, launched] = step(rows);
    ASSERT_GE(work.size(), 3u);
    EXPECT_EQ(work[0], "cuLaunchKernelEx");
    EXPECT_EQ(work[1], "cuMemcpyDtoHAsync_v2") << "the result does not wait for the graph";
    EXPECT_EQ(work.back() == "cuGraphInstantiateWithFlags" || work.back() == "cuLaunchKernelEx", true) << work.back();
    const auto again = step(rows);
    EXPECT_EQ(again.first, replayed) << rows;
    EXPECT_TRUE(std::equal(again.second.begin(), again.second.end(), launched.begin())) << rows;
    kernels[rows] = again.second;
  }
  EXPECT_EQ(step(256).first, replayed);
  EXPECT_EQ(step(129).first, replayed) << "128 of them are kept";
  EXPECT_NE(step(128).first, replayed);
  EXPECT_NE(step(130).first, replayed) << "has made room for the one before";
  EXPECT_EQ(step(129).first, replayed) << "the one unused for longest gives way";
  for (uint32_t rows : {1u, 9u, 64u, 65u, 200u}) {
    step(rows);
    EXPECT_EQ(step(rows), (std::pair(replayed, kernels[rows]))) << rows;
  }
}

TEST_F(FakeGpu, NotEveryBatchCanBeFollowed) {
  SmallModel small(2);
  auto backend = make_gpu(small.model, {.rows = 300, .kv_blocks = 600, .block_tokens = 32});
  const model::Batch following{.follows = true};
  EXPECT_EQ(backend->max_followed_rows(), 256u);
  EXPECT_EQ(backend->max_in_flight(), 8u);
  auto batch_of = [&](uint32_t rows) {
    model::Batch batch;
    for (uint32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(i % small.model.vocabulary);
      batch.positions.push_back(5);
      batch.sequences.push_back(i);
      batch.outputs.push_back(i);
      batch.blocks.push_back({2 * i, 2 * i + 1});
      batch.picking.emplace_back(model::Picking());
    }
    return batch;
  };
  auto expect_followed = [&](const model::Batch& batch, bool can) {
    model::forward(small.model, *backend, batch);
    if (can)
      model::forward(small.model, *backend, following);
    else
      EXPECT_THROW(backend->begin(following), std::logic_error);
  };
  EXPECT_THROW(backend->begin(following), std::logic_error);
  for (uint32_t rows : {8u, 9u, 64u, 65u, 255u, 256u}) expect_followed(batch_of(rows), true);
  expect_followed(batch_of(257), false);
  model::Batch batch = batch_of(2);
  batch.picking[1].reset();  // the host picks
  expect_followed(batch, false);
  batch = batch_of(2);
  batch.sequences = {0, 0};
  batch.positions = {5, 6};
  expect_followed(batch, false);
  batch = batch_of(2);
  batch.states = {0};
  expect_followed(batch, false);
  // as far as there are blocks, and no more than are kept for the host at a time
  batch = batch_of(1);
  batch.positions = {60};
  model::forward(small.model, *backend, batch);
  for (uint32_t i = 61; i < 64; ++i) model::forward(small.model, *backend, following);
  EXPECT_THROW(backend->begin(following), std::logic_error);
  model::forward(small.model, *backend, batch_of(1));
  for (uint32_t i = 1; i < backend->max_in_flight(); ++i) model::forward(small.model, *backend, following);
  EXPECT_THROW(backend->begin(following), std::logic_error);
  backend->result();
  model::forward(small.model, *backend, following);
  // another batch drops what was not taken
  model::forward(small.model, *backend, batch_of(2));
  EXPECT_EQ(backend->result().picked.size(), 2u);
  EXPECT_THROW(backend->result(), std::logic_error);
}

TEST_F(FakeGpu, ATraceHasEveryKernelOfEveryLayer) {
  SmallModel small(2);
  const model::Limits limits = model::limits_for(96, 16);
  auto backend = make_gpu(small.model, limits, {.trace = true});
  model::Session session(small.model, *backend, limits);
  session.feed(std::vector<uint32_t>{1});
  Calls phases;
  double last = 0;
  for (const model::KernelTime& time : backend->kernel_times()) {
    phases.push_back(time.layer < 0 ? time.phase : fmt::format("{} {}", time.phase, time.layer));
    EXPECT_GE(time.start, last);
    last = time.start;
    EXPECT_GE(time.bytes, time.kernel == "product" ? 4 * 16384u : 0u) << time.phase;  // the tiles of 64 rows
  }
  EXPECT_EQ(phases, (Calls{"embed", "qkv 0", "attend 0", "output 0", "ffn_in 0", "ffn_out 0", "qkv 1", "attend 1",
                           "output 1", "ffn_in 1", "ffn_out 1", "head"}));
  EXPECT_TRUE(backend->kernel_times().empty());
  EXPECT_EQ(backend->max_followed_rows(), 0u);
  EXPECT_EQ(backend->max_in_flight(), 1u);
  EXPECT_EQ(control().count("cuGraphLaunch"), 0u);
}

TEST_F(FakeGpu, WithoutGraphsTheSameKernelsAreLaunched) {
  SmallModel small(2);
  const model::Limits limits = model::limits_for(96, 16);
  std::vector<Calls> kernels;
  for (bool graphs : {true, false}) {
    auto backend = make_gpu(small.model, limits, {.graphs = graphs});
    model::Session session(small.model, *backend, limits);
    const size_t before = launches(), graphs_before = control().count("cuGraphLaunch");
    for (uint32_t i = 0; i < 3; ++i) session.feed(std::vector<uint32_t>{i});
    model::Batch batch{.tokens = {1}, .positions = {3}, .sequences = {0}, .blocks = {{0}}, .outputs = {0}};
    batch.picking = {model::Picking()};
    for (uint32_t i = 0; i < 3; ++i) {
      model::forward(small.model, *backend, i == 0 ? batch : model::Batch{.follows = true});
      backend->result();
    }
    kernels.push_back(kernels_since(before));
    EXPECT_EQ(control().count("cuGraphLaunch") - graphs_before, graphs ? 4u : 0u);  // not the first of each kind
  }
  EXPECT_EQ(kernels[0], kernels[1]);
}

TEST_F(FakeGpu, TooLittleMemoryIsSaidBeforeAnythingIsMade) {
  SmallModel small;
  const model::Limits limits{.rows = 16, .kv_blocks = 8, .block_tokens = 32};
  const model::Memory needed = memory_needed(small.model, limits, cuda::devices()[0]);
  EXPECT_EQ(needed.kv, 8u * 32 * 2 * (16 + 16) * 2);
  control().free_bytes = needed.total() - 1;
  expect_says(message<Error>([&] { make_gpu(small.model, limits); }),
              {"small: too little memory on cuda:0 Fake GPU 0 (sm_90, 132 SMs): expected ", "weights ", "KV cache 32",
               "workspace ", "found "});
  EXPECT_EQ(control().count("cuMemAlloc_v2"), 0u);
  control().free_bytes = needed.total();
  EXPECT_NO_THROW(make_gpu(small.model, limits));
}

// A failure at any call while loading leaves nothing allocated, which the fixture checks too.
TEST_F(FakeGpu, WhatFailsWhileLoadingIsGivenBack) {
  SmallModel small;
  const model::Limits limits{.rows = 16, .kv_blocks = 8, .block_tokens = 32};
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuEventCreate", "cuLinkComplete", "cuModuleLoadData"}) {
    const size_t before = control().count(call);
    make_gpu(small.model, limits);
    const size_t needed = control().count(call) - before;
    EXPECT_GT(needed, 0u) << call;
    const size_t step = test::sanitized ? 9 : 1;  // loading a hundred times takes minutes
    for (size_t at = 1; at <= needed; at += step) {
      control().fail[call] = 2;
      control().fail_at[call] = at;
      EXPECT_THROW(make_gpu(small.model, limits), Error) << call << " " << at;
      EXPECT_TRUE(control().live.empty()) << call << " " << at;
    }
  }
  EXPECT_NO_THROW(make_gpu(small.model, limits));
}

TEST_F(FakeGpu, ASearchGoesThroughAllKernelsAndIsKeptOnDisk) {
  const test::Folder folder;
  setenv("HEDDLE_CACHE_DIR", folder.path().c_str(), 1);
  SmallModel small;
  std::vector<std::string> said;
  auto tune_for = [&](const std::vector<uint32_t>& batches) {
    return tune(small.model, {}, batches, [&](const std::string& line) { said.push_back(line); });
  };
  EXPECT_EQ(message<Error>([&] { tune_for({}); }), "expected a batch to tune for");
  EXPECT_EQ(message<Error>([&] { tune_for({1, 257}); }), "a batch of 257 rows, expected 1 to 256");
  EXPECT_EQ(message<Error>([&] { tune_for({0}); }), "a batch of 0 rows, expected 1 to 256");
  EXPECT_EQ(control().count("cuMemAlloc_v2"), 0u);
  const Tuned tuned = tune_for({1});
  EXPECT_EQ(said.size(), tuned.kernels);
  EXPECT_EQ(tuned.kernels, 5u);  // qkv, output, gate, down, head; attention to such small heads has one shape
  EXPECT_GT(tuned.tried, 2 * tuned.kernels);
  EXPECT_GT(tuned.before, 0);
  EXPECT_GT(tuned.after, 0);
  EXPECT_EQ(tuned.file, folder.path() / "tuning" / "Fake-GPU-0-sm90-132.txt");
  EXPECT_EQ(Tuning(tuned.file).known(), 5u);
  for (const std::string& line : said) expect_says(line, {"format=f32", " of ", "% of the step saved"});
  EXPECT_GT(tune_for({2}).kernels, 0u);
  EXPECT_EQ(tune_for({8}).kernels, 0u);  // products of more rows, and attention to such small heads, have one shape
}

// Int8 and exact products of two formats, for every number of rows of the few-rows path, and for more.
TEST_F(FakeGpu, BatchesOfAnyShapeRun) {
  using quant::Format;
  SmallModel small;
  model::Model& m = small.model;
  m.width = 1024;
  m.embedding = small.matrix(100, 1024, Format::q6_k);
  m.output = m.embedding;
  m.norm = small.norm(1024);
  model::Attention& a = small.attention();
  a.heads = 16;
  a.kv_heads = 4;
  a.head = a.value_head = 64;
  a.norm = small.norm(1024);
  a.q = small.matrix(1024, 1024, Format::q4_k);
  a.k = small.matrix(256, 1024, Format::q4_k);
  a.v = small.matrix(256, 1024, Format::q6_k);
  a.output = small.matrix(1024, 1024, Format::q4_k);
  a.q_bias.assign(1024, 1.0f);
  SmallModel::set_rope(a, model::Rope::Style::halves, 64);
  model::FeedForward& f = small.ffn();
  f.norm = small.norm(1024);
  f.gate = f.up = small.matrix(2816, 1024, Format::q4_k);
  f.down = small.matrix(1024, 2816, Format::q6_k);
  const model::Limits limits{.rows = 24, .kv_blocks = 48, .block_tokens = 32};
  for (bool exact : {false, true}) {
    auto backend = make_gpu(m, limits, {.exact = exact});
    auto run = [&](const std::vector<uint32_t>& rows_of) {  // of each sequence
      model::Batch batch;
      for (uint32_t s = 0; s < rows_of.size(); ++s) {
        for (uint32_t i = 0; i < rows_of[s]; ++i) {
          batch.tokens.push_back(i);
          batch.sequences.push_back(s);
          batch.positions.push_back(31 * s % 50 + i);
          batch.outputs.push_back(uint32_t(batch.outputs.size()));
        }
        batch.blocks.push_back({2 * s, 2 * s + 1});
      }
      const size_t before = launches();
      model::forward(m, *backend, batch);
      EXPECT_EQ(backend->result().logits.size(), batch.outputs.size() * m.vocabulary);
      EXPECT_GT(launches(), before);
    };
    for (uint32_t rows = 1; rows <= 8; ++rows) {
      run(std::vector<uint32_t>(rows, 1));
      run({rows});
    }
    run({1, 3, 2});
    run({1, 20, 1});
    run({24});
    run(std::vector<uint32_t>(12, 1));
    run({9, 0, 9});
  }
}

// The norm of all rows, then the wanted rows to the host, one copy for each range of consecutive rows.
TEST_F(FakeGpu, StatesComeBesideLogits) {
  SmallModel small;
  const model::Limits limits{.rows = 16, .kv_blocks = 8, .block_tokens = 32};
  for (const auto& [kind, kernel] :
       {std::pair(model::Norm::Kind::rms, "rms_norm"), std::pair(model::Norm::Kind::layer, "layer_norm")}) {
    small.model.norm.kind = kind;
    auto backend = make_gpu(small.model, limits);
    model::Batch batch{.tokens = {1, 2, 3, 4}, .positions = {0, 1, 2, 0}, .sequences = {0, 0, 0, 1}};
    batch.blocks = {{0}, {1}};
    auto run = [&, kernel = kernel](std::vector<uint32_t> outputs, std::vector<uint32_t> states) {
      batch.outputs = std::move(outputs);
      batch.states = std::move(states);
      const size_t launched = launches(), called = calls();
      model::forward(small.model, *backend, batch);
      const model::Result result = backend->result();
      EXPECT_EQ(result.states.size(), batch.states.size() * small.model.width);
      EXPECT_EQ(result.logits.size(), batch.outputs.size() * small.model.vocabulary);
      const Calls done = calls_since(called), launched_kernels = kernels_since(launched);
      EXPECT_EQ(std::count_if(done.begin(), done.end(), is_allocation), 0);
      EXPECT_EQ(std::count_if(done.begin(), done.end(), is_compiling), 0);
      EXPECT_EQ(std::count(done.begin(), done.end(), "cuGraphLaunch"), 0);
      EXPECT_EQ(std::count(launched_kernels.begin(), launched_kernels.end(), kernel), batch.states.empty() ? 0 : 1);
      return size_t(std::count(done.begin(), done.end(), "cuMemcpyDtoHAsync_v2"));
    };
    const size_t of_logits = run({3}, {});
    EXPECT_EQ(run({}, {0, 1, 2, 3}), 1u);
    EXPECT_EQ(run({}, {0, 2, 3}), 2u);
    EXPECT_EQ(run({3}, {0, 1, 2}), of_logits + 1);
    batch.tokens = {1};
    batch.positions = {0};
    batch.sequences = {0};
    EXPECT_EQ(run({0}, {0}), 2u);  // no graph of a step is made of it
  }
}

// Every architecture: prompts, few rows and steps, where the arguments of every launch suit its kernel.
class FakeGpuArchitectures : public FakeGpu, public testing::WithParamInterface<std::string> {};
TEST_P(FakeGpuArchitectures, Run) {
  const test::Fixture fixture(GetParam());
  const test::Folder folder;
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  const model::Limits limits = model::limits_for(std::min(model.context, 128u), 32);
  auto backend = make_gpu(model, limits);
  model::Session session(model, *backend, limits);
  for (size_t rows : {13u, 3u, 1u}) {
    const std::vector<uint32_t> tokens(rows, 1);
    EXPECT_EQ(session.feed(tokens).size(), model.vocabulary);
  }
  model::forward(model, *backend,
                 {.tokens = {2},
                  .positions = {17},
                  .sequences = {0},
                  .blocks = {{0}},
                  .slots = {0},
                  .outputs = {0},
                  .picking = {model::Picking()}});
  model::forward(model, *backend, {.follows = true});
  EXPECT_EQ(backend->result().picked.size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(All, FakeGpuArchitectures, testing::ValuesIn(test::Fixture::names_of_text_models()),
                         [](const auto& one) { return test::as_test_name(one.param); });

}  // namespace
}  // namespace heddle::gpu
