// Picking on the device for whole batches, copies of blocks, and faults: what the driver is asked for, and what comes
// back from kernels that a test does in their place.
#include <cstring>
#include <numeric>

#include "cuda/error.h"
#include "gpu/gpu.h"
#include "gpu/work.h"
#include "kernels/sample/sample.h"
#include "model/forward.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

using kernels::Sample;
using kernels::Sampled;
using kernels::SampleRow;
using model::Picking;

// `rows` sequences of one token each, all of them outputs.
model::Batch decode(uint32_t rows) {
  model::Batch batch;
  for (uint32_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(i % 100), batch.positions.push_back(3), batch.sequences.push_back(i),
        batch.outputs.push_back(i);
    batch.blocks.push_back({i});
  }
  return batch;
}

class Picks : public FakeGpu {
 protected:
  struct Launched {
    uint32_t rows;
    std::vector<SampleRow> params;
    std::vector<std::vector<uint32_t>> texts;  // where there are any
    bool biases, changed;
  };
  // Picks token 7 * seed of every row, with its temperature as log-probability.
  void SetUp() override {
    FakeGpu::SetUp();
    control().on_launch = [this](const fake::LaunchRecord& launch) {
      if (launch.kernel != "sample") return;
      Sample::Args args;
      ASSERT_EQ(launch.args.size(), sizeof args);
      std::memcpy(&args, launch.args.data(), sizeof args);
      Launched& seen = launched_.emplace_back();
      seen.rows = args.rows, seen.biases = args.biases.address, seen.changed = args.changed.address;
      seen.params.resize(args.rows);
      std::memcpy(seen.params.data(), reinterpret_cast<const void*>(args.params.address),
                  args.rows * sizeof(SampleRow));
      const auto* texts = reinterpret_cast<const uint32_t*>(args.texts.address);
      for (uint32_t i = 0; i < args.rows; ++i) {
        const Sampled picked{uint32_t(7 * seen.params[i].seed), seen.params[i].temperature};
        std::memcpy(reinterpret_cast<Sampled*>(args.out.address) + i, &picked, sizeof picked);
        if (args.capacity)
          seen.texts.emplace_back(texts + i * args.capacity, texts + i * args.capacity + seen.params[i].length);
      }
    };
  }
  static std::vector<Picking> pickings(uint32_t rows) {
    std::vector<Picking> all(rows);
    for (uint32_t i = 0; i < rows; ++i) all[i].seed = i + 1, all[i].temperature = 0.5f * float(i);
    return all;
  }
  static void expect_picked(std::span<const model::Picked> got, uint32_t rows) {
    ASSERT_EQ(got.size(), rows);
    for (uint32_t i = 0; i < rows; ++i) {
      EXPECT_EQ(got[i].id, 7 * (i + 1)) << i;
      EXPECT_EQ(got[i].log_probability, 0.5f * float(i)) << i;
    }
  }

  SmallModel small_{2};
  const model::Limits limits_{.rows = 150, .kv_blocks = 150, .block_tokens = 32};
  std::vector<Launched> launched_;
};

TEST_F(Picks, EveryOutputOfABatchHasOne) {
  auto backend = make_gpu(small_.model, limits_);
  auto deterministic = make_gpu(small_.model, limits_, {.deterministic = true});
  for (uint32_t rows : {1u, 2u, 64u, 65u, 150u}) {  // no more at once than there is room for
    launched_.clear();
    model::forward(small_.model, *deterministic, decode(rows));
    expect_picked(deterministic->pick(pickings(rows)), rows);
    for (const Launched& one : launched_) EXPECT_LE(one.rows, logit_rows);
    EXPECT_EQ(deterministic->result().size(), size_t(rows) * small_.model.vocabulary);
  }
  for (uint32_t rows : {1u, 2u, 8u, 9u, 64u, 65u, 150u}) {
    launched_.clear();
    const model::Batch batch = decode(rows);
    model::forward(small_.model, *backend, batch);
    const size_t before = calls();
    expect_picked(backend->pick(pickings(rows)), rows);
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count(since.begin(), since.end(), "cuMemcpyDtoHAsync_v2"), 1) << rows;  // no logits
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_allocation), 0) << rows;
    uint32_t all = 0;
    for (const Launched& one : launched_) {
      all += one.rows;
      EXPECT_LE(one.rows, logit_rows);
      EXPECT_FALSE(one.biases || one.changed || !one.texts.empty());
    }
    EXPECT_EQ(all, rows);
    // both ways of asking go together, in any order and number
    EXPECT_EQ(backend->result().size(), size_t(rows) * small_.model.vocabulary);
    expect_picked(backend->pick(pickings(rows)), rows);
    EXPECT_EQ(backend->result().size(), size_t(rows) * small_.model.vocabulary);
  }
  model::forward(small_.model, *backend, {});
  EXPECT_TRUE(backend->pick({}).empty());
  model::Batch some = decode(5);
  some.outputs = {1, 4};
  model::forward(small_.model, *backend, some);
  expect_picked(backend->pick(pickings(2)), 2);
  EXPECT_THROW(backend->pick(pickings(3)), std::logic_error);
}

TEST_F(Picks, BiasesAndPenaltiesComeWithWhatTheyNeed) {
  auto backend = make_gpu(small_.model, limits_);
  constexpr uint32_t rows = 20;
  model::forward(small_.model, *backend, decode(rows));
  std::vector<Picking> all = pickings(rows);
  all[3].biases = {{5, 1.0f}, {6, 2.0f}}, all[12].biases = {{1, -1.0f}};
  expect_picked(backend->pick(all), rows);
  uint32_t row = 0;
  for (const Launched& one : launched_) {
    EXPECT_LE(one.rows, few_rows);  // that many have room to change
    EXPECT_TRUE(one.biases && one.changed && one.texts.empty());
    for (const SampleRow& p : one.params) {
      EXPECT_EQ(p.seed, row + 1);
      EXPECT_EQ(p.biases, row == 3 ? 2u : row == 12 ? 1u : 0u) << row;
      ++row;
    }
  }
  EXPECT_EQ(row, rows);

  launched_.clear();
  all[17].repetition = 1.5f, all[17].text = {4, 5, 6}, all[17].prompt = 2;
  expect_picked(backend->pick(all), rows);
  row = 0;
  for (const Launched& one : launched_)
    for (size_t i = 0; i < one.rows; ++i, ++row) {
      EXPECT_EQ(one.texts.at(i), all[row].text) << row;
      EXPECT_EQ(one.params[i].prompt, all[row].prompt);
    }
  EXPECT_EQ(row, rows);
}

TEST_F(Picks, WhatCannotBeDoneIsLeftToTheHost) {
  auto backend = make_gpu(small_.model, limits_);
  model::forward(small_.model, *backend, decode(2));
  auto refused = [&](auto&& change) {
    std::vector<Picking> both = pickings(2);
    change(both[1]);
    const size_t before = launches();
    EXPECT_TRUE(backend->pick(both).empty());
    EXPECT_EQ(launches(), before);
    EXPECT_EQ(backend->result().size(), 2u * small_.model.vocabulary);
  };
  refused([](Picking& p) { p.presence = 1; });  // without its text
  refused([](Picking& p) { p.frequency = 1; });
  refused([](Picking& p) { p.repetition = 2; });
  refused([](Picking& p) { p.text.assign(150 * 32 + 2, 1); });
  refused([](Picking& p) {
    for (uint32_t i = 0; i <= most_biases; ++i) p.biases.emplace_back(i, 1.0f);
  });
}

TEST_F(Picks, ATraceHasThemToo) {
  auto backend = make_gpu(small_.model, limits_, {.trace = true});
  model::forward(small_.model, *backend, decode(3));
  backend->kernel_times();
  expect_picked(backend->pick(pickings(3)), 3);
  const auto times = backend->kernel_times();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].kernel, "sample");
  EXPECT_EQ(times[0].phase, "pick");
}

TEST_F(FakeGpu, AFaultIsTheEnd) {
  SmallModel small;
  auto backend = make_gpu(small.model, {.rows = 8, .kv_blocks = 8});
  EXPECT_TRUE(backend->usable());
  model::forward(small.model, *backend, decode(1));
  control().fail["cuStreamSynchronize"] = 2, control().fail_at["cuStreamSynchronize"] = 1;  // not of that kind
  EXPECT_THROW(backend->result(), cuda::DriverError);
  EXPECT_TRUE(backend->usable());
  EXPECT_EQ(backend->result().size(), small.model.vocabulary);
  model::forward(small.model, *backend, decode(1));
  control().fail["cuStreamSynchronize"] = 700, control().fail_at["cuStreamSynchronize"] = 1;
  EXPECT_THROW(backend->result(), cuda::DriverError);
  EXPECT_FALSE(backend->usable());
  EXPECT_THROW(model::forward(small.model, *backend, decode(1)), cuda::DriverError);
  EXPECT_FALSE(backend->usable());
}

}  // namespace
}  // namespace heddle::gpu
