// Picking on the device for whole batches, and faults: what the driver is asked for, and what comes back when a test
// stands in for the kernels that pick.
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
using kernels::StepAdvance;
using model::Picking;

// `rows` sequences of one token each, all of them outputs.
model::Batch decode(uint32_t rows) {
  model::Batch batch;
  for (uint32_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(i % 100);
    batch.positions.push_back(3);
    batch.sequences.push_back(i);
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
    std::vector<std::vector<uint32_t>> texts;  // of the rows that have a place; else empty
    bool biases, changed;
    std::vector<std::vector<uint32_t>> masks;  // of the rows that have one; else empty
  };
  // Picks token 7 * seed of every row, with its temperature as log-probability.
  void SetUp() override {
    FakeGpu::SetUp();
    control().on_launch = [this](const fake::LaunchRecord& launch) {
      if (launch.kernel == "step_advance") return advance(launch);
      if (launch.kernel != "sample") return;
      Sample::Args args;
      ASSERT_EQ(launch.args.size(), sizeof args);
      std::memcpy(&args, launch.args.data(), sizeof args);
      Launched& seen = launched_.emplace_back();
      seen.rows = args.rows;
      seen.biases = args.biases.address;
      seen.changed = args.changed.address;
      seen.params.resize(args.rows);
      std::memcpy(seen.params.data(), reinterpret_cast<const void*>(args.params.address),
                  args.rows * sizeof(SampleRow));
      const auto* texts = reinterpret_cast<const uint32_t*>(args.texts.address);
      const auto* masks = reinterpret_cast<const uint32_t*>(args.masks.address);
      const size_t mask_words = (args.vocab + 31) / 32;
      for (const SampleRow& row : seen.params) {
        seen.masks.emplace_back();
        if (row.mask != SampleRow::no_mask)
          seen.masks.back().assign(masks + row.mask * mask_words, masks + (row.mask + 1) * mask_words);
      }
      for (uint32_t i = 0; i < args.rows; ++i) {
        const Sampled picked{uint32_t(7 * seen.params[i].seed), seen.params[i].temperature};
        std::memcpy(reinterpret_cast<Sampled*>(args.out.address) + i, &picked, sizeof picked);
        const uint32_t place = seen.params[i].place;
        seen.texts.emplace_back();
        if (place == SampleRow::no_place) continue;
        EXPECT_LT(place, max_changed_rows);
        const uint32_t* text = texts + size_t(place) * args.capacity;
        seen.texts.back().assign(text, text + seen.params[i].length);
      }
    };
  }
  // As the kernel does.
  static void advance(const fake::LaunchRecord& launch) {
    StepAdvance::Args args;
    std::memcpy(&args, launch.args.data(), sizeof args);
    auto& step = *reinterpret_cast<uint64_t*>(args.step.address);
    const auto* picked = reinterpret_cast<const Sampled*>(args.picked.address);
    for (uint32_t i = 0; i < args.rows; ++i) {
      reinterpret_cast<Sampled*>(args.history.address)[step % args.ring * args.rows + i] = picked[i];
      reinterpret_cast<uint32_t*>(args.tokens.address)[i] = picked[i].id;
      ++reinterpret_cast<uint32_t*>(args.positions.address)[i];
      ++reinterpret_cast<uint32_t*>(args.lengths.address)[i];
      ++reinterpret_cast<SampleRow*>(args.params.address)[i].step;
    }
    ++step;
  }
  static std::vector<std::optional<Picking>> pickings(uint32_t rows) {
    std::vector<std::optional<Picking>> all(rows);
    for (uint32_t i = 0; i < rows; ++i) all[i] = Picking{.temperature = 0.5f * float(i), .seed = i + 1};
    return all;
  }
  // Computes the batch with these, and compares what was picked.
  void expect_picked(model::Backend& backend, model::Batch batch, std::vector<std::optional<Picking>> picking) {
    launched_.clear();
    batch.picking = std::move(picking);
    model::forward(small_.model, backend, batch);
    const model::Result result = backend.result();
    ASSERT_EQ(result.picked.size(), batch.outputs.size());
    size_t unpicked = 0;
    for (uint32_t i = 0; i < batch.outputs.size(); ++i) {
      ASSERT_EQ(result.picked[i].has_value(), batch.picking[i].has_value()) << i;
      unpicked += !result.picked[i];
      if (!result.picked[i]) continue;
      EXPECT_EQ(result.picked[i]->id, 7 * (i + 1)) << i;
      EXPECT_EQ(result.picked[i]->log_probability, 0.5f * float(i)) << i;
    }
    EXPECT_EQ(result.logits.size(), unpicked * small_.model.vocabulary);
  }

  SmallModel small_{2};
  const model::Limits limits_{.rows = 300, .kv_blocks = 300, .block_tokens = 32};
  std::vector<Launched> launched_;
};

TEST_F(Picks, EveryOutputOfABatchHasOne) {
  auto backend = make_gpu(small_.model, limits_);
  auto deterministic = make_gpu(small_.model, limits_, {.deterministic = true});
  for (uint32_t rows : {1u, 2u, 64u, 65u, 256u, 257u, 300u}) {  // no more at once than there is room for
    expect_picked(*deterministic, decode(rows), pickings(rows));
    for (const Launched& one : launched_) EXPECT_LE(one.rows, max_logit_rows);
  }
  for (uint32_t rows : {1u, 2u, 8u, 9u, 64u, 65u, 150u, 256u, 257u, 300u}) {
    const size_t before = calls(), fetched = control().bytes_fetched;
    expect_picked(*backend, decode(rows), pickings(rows));
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count(since.begin(), since.end(), "cuMemcpyDtoHAsync_v2"), 1) << rows;  // no logits
    EXPECT_EQ(control().bytes_fetched - fetched, rows * sizeof(Sampled));
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_allocation), 0) << rows;
    uint32_t all = 0;
    for (const Launched& one : launched_) {
      all += one.rows;
      EXPECT_LE(one.rows, max_logit_rows);
      EXPECT_FALSE(one.biases || one.changed);
    }
    EXPECT_EQ(all, rows);
  }
  model::forward(small_.model, *backend, {});
  EXPECT_TRUE(backend->result().picked.empty());
  model::Batch some = decode(5);
  some.outputs = {1, 4};
  expect_picked(*backend, some, pickings(2));
  some.picking = pickings(3);
  EXPECT_THROW(backend->begin(some), std::logic_error);
}

// Ten batches of three rows, of which the last follow: what each of them picked, in order.
TEST_F(Picks, BatchesThatFollowAreTakenInOrder) {
  auto backend = make_gpu(small_.model, limits_);
  const auto sample = control().on_launch;
  control().on_launch = [&](const fake::LaunchRecord& launch) {
    sample(launch);
    if (launch.kernel != "sample") return;
    Sample::Args args;
    std::memcpy(&args, launch.args.data(), sizeof args);
    for (uint32_t i = 0; i < args.rows; ++i)  // the row's seed, and how many picks came before
      reinterpret_cast<Sampled*>(args.out.address)[i].id =
          uint32_t(100 * launched_.back().params[i].seed + launched_.back().params[i].step);
  };
  for (uint32_t rows : {3u, 2u, 256u, 70u}) {  // the second time from the beginning of the ring
    model::Batch batch = decode(rows);
    batch.picking = pickings(rows);
    for (auto& picking : batch.picking) picking->picks = 5;
    uint64_t launched = 0;
    auto launch = [&] { model::forward(small_.model, *backend, launched++ ? model::Batch{.follows = true} : batch); };
    launch();
    for (uint32_t taken = 0; taken < 20; ++taken) {
      while (launched < taken + 1 + taken % backend->max_in_flight()) launch();
      const model::Result result = backend->result();
      for (uint32_t i = 0; i < rows; ++i) EXPECT_EQ(result.picked[i]->id, 100 * (i + 1) + 5 + taken) << taken;
    }
  }
}

// The rows that the host picks from send their logits, and no others do.
TEST_F(Picks, OnlyLogitsThatAreAskedForComeBack) {
  auto backend = make_gpu(small_.model, limits_);
  const size_t row = small_.model.vocabulary * sizeof(float);
  for (uint32_t rows : {1u, 2u, 8u, 9u, 64u, 65u, 150u, 257u, 300u})
    for (const std::vector<uint32_t>& hosts : {std::vector<uint32_t>{0}, {rows - 1}, {rows / 2, rows - 1}}) {
      auto picking = pickings(rows);
      for (uint32_t host : hosts) picking[host].reset();
      const auto picked = size_t(std::count_if(picking.begin(), picking.end(), [](auto& p) { return p.has_value(); }));
      const size_t before = calls(), fetched = control().bytes_fetched;
      expect_picked(*backend, decode(rows), picking);
      EXPECT_EQ(control().bytes_fetched - fetched, rows * sizeof(Sampled) + (rows - picked) * row) << rows;
      const Calls since = calls_since(before);
      EXPECT_EQ(std::count_if(since.begin(), since.end(), is_allocation), 0);
      EXPECT_EQ(launched_.empty(), picked == 0);
    }
  // each row's own, also where there are more than the device has room for at once: row i has logits of i
  uint64_t first_out = 0;
  control().on_launch = [&](const fake::LaunchRecord& launch) {
    if (launch.kernel != "sample") return;
    Sample::Args args;
    std::memcpy(&args, launch.args.data(), sizeof args);
    if (first_out == 0) first_out = args.out.address;
    const uint64_t first = (args.out.address - first_out) / sizeof(Sampled);
    auto* logits = reinterpret_cast<float*>(args.logits.address);
    for (uint32_t i = 0; i < args.rows; ++i) std::fill_n(logits + size_t(i) * args.vocab, args.vocab, float(first + i));
  };
  model::Batch batch = decode(300);
  batch.picking = pickings(300);
  for (uint32_t i = 1; i < 300; i += 2) batch.picking[i].reset();
  model::forward(small_.model, *backend, batch);
  const std::span<const float> logits = backend->result().logits;
  ASSERT_EQ(logits.size(), 150u * small_.model.vocabulary);
  for (size_t i = 0; i < logits.size(); ++i)
    ASSERT_EQ(logits[i], float(2 * (i / small_.model.vocabulary) + 1)) << i / small_.model.vocabulary;
}

TEST_F(Picks, BiasesAndPenaltiesComeWithWhatTheyNeed) {
  auto backend = make_gpu(small_.model, limits_);
  for (const uint32_t rows : {20u, 200u}) {
    SCOPED_TRACE(rows);
    auto all = pickings(rows);
    all[3]->biases = {{5, 1.0f}, {6, 2.0f}};
    all[12]->biases = {{1, -1.0f}};
    expect_picked(*backend, decode(rows), all);
    ASSERT_EQ(launched_.size(), 1u);
    EXPECT_TRUE(launched_[0].biases && launched_[0].changed);
    for (uint32_t row = 0; row < rows; ++row) {
      const SampleRow& p = launched_[0].params[row];
      EXPECT_EQ(p.seed, row + 1);
      EXPECT_EQ(p.biases, row == 3 ? 2u : row == 12 ? 1u : 0u) << row;
      EXPECT_EQ(p.place, row == 3 ? 0 : row == 12 ? 1 : SampleRow::no_place) << row;
    }

    all[17]->repetition = 1.5f;
    all[17]->repetition_last = ~0u;
    all[17]->text = {4, 5, 6};
    all[17]->prompt = 2;
    const size_t sent = control().bytes_sent;
    expect_picked(*backend, decode(rows), all);
    const size_t with_whole_text = control().bytes_sent - sent;
    ASSERT_EQ(launched_.size(), 1u);
    EXPECT_EQ(launched_[0].params[17].place, 2u);
    EXPECT_EQ(launched_[0].params[17].prompt, 2u);
    EXPECT_EQ(launched_[0].texts[17], all[17]->text);
    all[17]->repetition_last = 2;  // the rest is not sent
    expect_picked(*backend, decode(rows), all);
    EXPECT_EQ(launched_[0].params[17].length, 3u);
    EXPECT_EQ(control().bytes_sent - sent - with_whole_text, with_whole_text - 4);
    EXPECT_EQ(std::vector(launched_[0].texts[17].begin() + 1, launched_[0].texts[17].end()),
              (std::vector<uint32_t>{5, 6}));
    all[17]->repetition = 1;
    all[17]->presence = 0.5f;  // looks at what was generated
    expect_picked(*backend, decode(rows), all);
    EXPECT_EQ(launched_[0].texts[17].back(), 6u);
  }
}

// Where more rows have penalties than there are places, they are picked by several launches, each of its own rows.
TEST_F(Picks, PenaltiesOfManyRowsTakeTurns) {
  auto backend = make_gpu(small_.model, limits_);
  EXPECT_EQ(backend->max_followed_changes(), 64u);
  for (const uint32_t penalised : {64u, 65u, 200u}) {
    SCOPED_TRACE(penalised);
    auto all = pickings(200);
    for (uint32_t i = 0; i < penalised; ++i) {
      all[i]->frequency = 1;
      all[i]->text = {i % 100, 7};
      all[i]->prompt = 0;
    }
    expect_picked(*backend, decode(200), all);
    EXPECT_EQ(launched_.size(), (penalised + 63) / 64);
    uint32_t row = 0;
    for (const Launched& one : launched_)
      for (uint32_t i = 0; i < one.rows; ++i, ++row) {
        EXPECT_EQ(one.params[i].seed, row + 1);
        EXPECT_EQ(one.texts[i], row < penalised ? all[row]->text : std::vector<uint32_t>()) << row;
      }
    EXPECT_EQ(row, 200u);
    // as many as have a place can be followed
    if (penalised == 64)
      EXPECT_NO_THROW(model::forward(small_.model, *backend, {.follows = true}));
    else
      EXPECT_THROW(backend->begin({.follows = true}), std::logic_error);
  }
}

// The most likely tokens come with the picks of their row, in single batches and in those that follow one another.
TEST_F(Picks, TheMostLikelyTokensComeBack) {
  auto backend = make_gpu(small_.model, limits_);
  const auto sample = control().on_launch;
  uint32_t turn = 0;
  control().on_launch = [&](const fake::LaunchRecord& launch) {
    sample(launch);
    if (launch.kernel != "top_tokens") return;
    const auto args = args_of<kernels::TopTokens::Args>(launch);
    const auto* params = reinterpret_cast<const SampleRow*>(args.params.address);
    for (uint32_t r = 0; r < args.rows; ++r)  // of the last token that was asked for there is none
      for (uint32_t i = 0; i < params[r].top; ++i)
        reinterpret_cast<Sampled*>(args.out.address)[r * args.most + i] = {
            i + 1 < params[r].top ? uint32_t(params[r].seed + i + turn) : kernels::no_token, -float(i)};
  };
  auto expect_tops = [&](const model::Result& result, const std::vector<std::optional<Picking>>& picking) {
    for (uint32_t row = 0; row < picking.size(); ++row) {
      const auto& top = result.picked[row]->top;
      ASSERT_EQ(top.size(), picking[row]->top ? picking[row]->top - 1 : 0) << row;
      for (uint32_t i = 0; i < top.size(); ++i) EXPECT_EQ(top[i], std::pair(row + 1 + i + turn, -float(i))) << row;
    }
  };
  for (uint32_t rows : {1u, 70u, 256u, 300u}) {
    SCOPED_TRACE(rows);
    model::Batch batch = decode(rows);
    batch.picking = pickings(rows);
    for (uint32_t i = 0; i < rows; i += 3) {
      batch.picking[i]->logprob = true;
      batch.picking[i]->top = 1 + i % 20;
    }
    turn = 10;
    model::forward(small_.model, *backend, batch);
    if (rows <= max_step_rows) {
      turn = 20;
      model::forward(small_.model, *backend, {.follows = true});
    }
    turn = 10;
    expect_tops(backend->result(), batch.picking);
    if (rows > max_step_rows) continue;
    turn = 20;
    expect_tops(backend->result(), batch.picking);
  }
}

// A batch with constrained rows picks when the masks come, and only then can it be followed.
TEST_F(Picks, MasksComeAfterTheRestOfABatch) {
  auto backend = make_gpu(small_.model, limits_);
  const auto mask_of = [&](uint32_t row, uint32_t step) {  // of every seventh row that is constrained: empty
    return row % 21 == 3 ? std::vector<uint32_t>() : std::vector<uint32_t>(4, 1000 * step + row);
  };
  for (const uint32_t rows : {1u, 2u, 64u, 200u, 256u, 300u}) {
    SCOPED_TRACE(rows);
    model::Batch batch = decode(rows);
    batch.picking = pickings(rows);
    for (uint32_t row = 0; row < rows; row += 3) batch.picking[row]->constrained = true;
    const auto allow = [&](uint32_t step) {
      std::vector<std::vector<uint32_t>> masks;
      for (uint32_t row = 0; row < rows; row += 3) masks.push_back(mask_of(row, step));
      backend->allow(std::vector<std::span<const uint32_t>>(masks.begin(), masks.end()));
    };
    const auto expect_masks = [&](uint32_t step) {
      uint32_t row = 0;
      for (const Launched& one : launched_)
        for (const std::vector<uint32_t>& found : one.masks) {
          std::vector<uint32_t> want = row % 3 ? std::vector<uint32_t>() : mask_of(row, step);
          if (row % 3 == 0 && want.empty()) want.assign(4, ~0u);
          EXPECT_EQ(found, want) << row;
          ++row;
        }
      EXPECT_EQ(row, rows);
      launched_.clear();
    };
    launched_.clear();
    model::forward(small_.model, *backend, batch);
    EXPECT_TRUE(launched_.empty());
    EXPECT_THROW(backend->result(), std::logic_error);
    EXPECT_THROW(backend->begin({.follows = true}), std::logic_error);
    model::forward(small_.model, *backend, batch);  // drops the one that has not picked
    const size_t before = calls();
    allow(0);
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_allocation), 0);
    EXPECT_THROW(allow(0), std::logic_error);
    expect_masks(0);
    if (rows <= max_step_rows) {
      model::forward(small_.model, *backend, {.follows = true});
      EXPECT_TRUE(launched_.empty());
    }
    const model::Result first = backend->result();
    for (uint32_t row = 0; row < rows; ++row) EXPECT_EQ(first.picked[row]->id, 7 * (row + 1));
    if (rows > max_step_rows) continue;
    EXPECT_THROW(backend->result(), std::logic_error);
    allow(1);
    expect_masks(1);
    model::forward(small_.model, *backend, {.follows = true});
    EXPECT_EQ(backend->result().picked.size(), rows);
    allow(2);
    expect_masks(2);
    EXPECT_EQ(backend->result().picked.size(), rows);
  }
  model::Batch batch = decode(2);
  batch.picking = pickings(2);
  batch.picking[1]->constrained = true;
  model::forward(small_.model, *backend, batch);
  EXPECT_THROW(backend->allow({}), std::logic_error);
  const std::vector<uint32_t> too_short(3);
  EXPECT_THROW(backend->allow(std::vector<std::span<const uint32_t>>{too_short}), std::logic_error);
}

TEST_F(Picks, WhatCannotBeDoneIsRefused) {
  auto backend = make_gpu(small_.model, limits_);
  auto refused = [&](auto&& change) {
    model::Batch batch = decode(2);
    batch.picking = pickings(2);
    change(*batch.picking[1]);
    EXPECT_THROW(backend->begin(batch), std::logic_error);
    return backend->can_pick(*batch.picking[1]);
  };
  EXPECT_TRUE(refused([](Picking& p) { p.presence = 1; }));  // with its text it could be
  EXPECT_TRUE(refused([](Picking& p) { p.frequency = 1; }));
  EXPECT_TRUE(refused([](Picking& p) { p.repetition = 2; }));
  EXPECT_FALSE(refused([](Picking& p) { p.top = max_top_tokens + 1; }));
  EXPECT_FALSE(refused([](Picking& p) { p.text.assign(300 * 32 + 2, 1); }));
  EXPECT_FALSE(refused([](Picking& p) {
    for (uint32_t i = 0; i <= max_biases; ++i) p.biases.emplace_back(i, 1.0f);
  }));
  expect_picked(*backend, decode(2), pickings(2));
}

TEST_F(Picks, ATraceHasThemToo) {
  auto backend = make_gpu(small_.model, limits_, {.trace = true});
  expect_picked(*backend, decode(3), pickings(3));
  const auto times = backend->kernel_times();
  ASSERT_FALSE(times.empty());
  EXPECT_EQ(times.back().kernel, "sample");
  EXPECT_EQ(times.back().phase, "pick");
}

TEST_F(FakeGpu, AFaultIsTheEnd) {
  SmallModel small;
  auto backend = make_gpu(small.model, {.rows = 8, .kv_blocks = 8});
  EXPECT_TRUE(backend->usable());
  model::forward(small.model, *backend, decode(1));
  control().fail["cuStreamSynchronize"] = 2;  // not of that kind
  control().fail_at["cuStreamSynchronize"] = 1;
  EXPECT_THROW(backend->result(), cuda::DriverError);
  EXPECT_TRUE(backend->usable());
  model::forward(small.model, *backend, decode(1));
  EXPECT_EQ(backend->result().logits.size(), small.model.vocabulary);
  model::forward(small.model, *backend, decode(1));
  control().fail["cuStreamSynchronize"] = 700;
  control().fail_at["cuStreamSynchronize"] = 1;
  EXPECT_THROW(backend->result(), cuda::DriverError);
  EXPECT_FALSE(backend->usable());
  EXPECT_THROW(model::forward(small.model, *backend, decode(1)), cuda::DriverError);
  EXPECT_FALSE(backend->usable());
}

}  // namespace
}  // namespace heddle::gpu
