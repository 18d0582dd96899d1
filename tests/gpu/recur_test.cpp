// Heads for multi-token prediction, interpreted: what they say beside the reference, alone and where their batches
// follow one another.
#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/model/fixture.h"
#include "tests/support/predicting.h"
#include "tests/support/reference_models.h"

namespace heddle::gpu {
namespace {

class SlowPlansOfHeads : public InterpretedGpu, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    InterpretedGpu::SetUp();
    fixture_.write(folder_, fixture_.config, quant::Format::f16);
    model_ = model::load(formats::open_checkpoint(folder_.path()), {.next_head = true});
  }
  test::MakeBackend on_gpu(Options options = {}) {
    return [options](const model::Model& model, model::Limits limits) {
      limits.kv_blocks = 4;
      return make_gpu(model, limits, interpreted(options));
    };
  }
  std::span<const uint32_t> ids(size_t from, size_t to) const {
    return std::span(fixture_.ids).subspan(from, to - from);
  }

  const test::Fixture fixture_{GetParam()};
  const std::vector<uint32_t> guesses_ = fixture_.json.at("guesses");
  const test::Folder folder_;
  model::Model model_;
};

// Prompts in pieces, a wrong guess that goes back, and guesses after guesses.
TEST_P(SlowPlansOfHeads, SayWhatTheReferenceSays) {
  test::Predicting expected(model_, cpu::make_reference), found(model_, on_gpu());
  const auto both = [&](auto&& f) {
    f(expected);
    f(found);
  };
  const auto compare = [&](std::span<const uint32_t> tokens) {
    const auto want = expected.predict(tokens), got = found.predict(tokens);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(test::worst(want[i], got[i]), 4e-3) << "after guess " << i;
  };
  both([&](test::Predicting& one) { one.feed(ids(0, 5)); });
  compare(ids(5, 6));
  both([&](test::Predicting& one) { one.feed(ids(5, 6)); });
  both([&](test::Predicting& one) { one.backend().copy_state(0, 1); });
  both([&](test::Predicting& one) {
    one.feed(std::vector<uint32_t>{1, 2});
    one.length -= 2;
    one.slot = 1;
    one.feed(ids(6, 9));
  });
  compare(guesses_);
  both([&](test::Predicting& one) { EXPECT_EQ(one.feed(ids(9, 26)).size(), model_.vocabulary); });
  compare(guesses_);
}

TEST_P(SlowPlansOfHeads, LeaveTheModelsLogitsAsTheyAre) {
  const model::Model without = model::load(formats::open_checkpoint(folder_.path()));
  test::Predicting alone(without, on_gpu()), with(model_, on_gpu());
  for (const auto& [from, to] : {std::pair{0, 7}, {7, 8}, {8, 9}}) {
    const std::vector<float> expected = alone.feed(ids(size_t(from), size_t(to))),
                             found = with.feed(ids(size_t(from), size_t(to)));
    EXPECT_LT(test::worst(expected, found), 1e-3) << from;
  }
}

// Two sequences, of which the second has rows of its own in the batch before: by the host, and following on the device.
TEST_P(SlowPlansOfHeads, FollowOneAnother) {
  model::Limits limits{.rows = 32, .kv_blocks = 4, .block_tokens = 32, .state_slots = 2};
  const auto backend = make_gpu(model_, limits, interpreted());
  const std::vector<std::vector<uint32_t>> tables{{0, 1}, {3, 2}};
  model::Batch text;
  text.slots = {1, 0};
  text.blocks = tables;
  for (uint32_t i = 0; i < 12; ++i) {
    text.sequences.push_back(i < 7 ? 0 : 1);
    text.positions.push_back(i < 7 ? i : i - 7);
    text.tokens.push_back(fixture_.ids[i]);
  }
  const auto predict = [&](bool follows) {
    std::vector<std::vector<uint32_t>> picked;
    model::forward(model_, *backend, text);
    backend->result();
    std::vector<uint32_t> tokens{9, 13}, after{6, 11}, positions{7, 5};
    for (uint32_t step = 0; step < 3; ++step) {
      model::Batch batch;
      batch.predicts = true;
      batch.follows = follows && step > 0;
      if (!batch.follows) {
        batch.after = after;
        batch.tokens = tokens;
        batch.positions = positions;
        batch.sequences = batch.outputs = {0, 1};
        batch.blocks = tables;
        batch.picking.assign(2, model::Picking());
      }
      model::forward(model_, *backend, batch);
      const model::Result result = backend->result();
      tokens = {result.picked[0]->id, result.picked[1]->id};
      picked.push_back(tokens);
      after = {0, 1};
      for (uint32_t& position : positions) ++position;
    }
    return picked;
  };
  const auto by_host = predict(false);
  EXPECT_EQ(predict(true), by_host);
  EXPECT_EQ(predict(true), by_host);  // by the graphs that were kept
}

INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfHeads, testing::Values("qwen3next-mtp", "qwen35-mtp", "qwen35moe-mtp"),
                         [](const auto& one) { return test::as_test_name(one.param); });

}  // namespace
}  // namespace heddle::gpu
