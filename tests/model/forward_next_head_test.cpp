// Heads for multi-token prediction: what they say, and that the model says the same with them.
#include <gtest/gtest.h>

#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/predicting.h"
#include "tests/support/reference_models.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using Rows = std::vector<std::vector<float>>;

class NextHeads : public testing::TestWithParam<const char*> {
 protected:
  const Fixture fixture{GetParam()};
  const std::vector<uint32_t> guesses = fixture.json.at("guesses");
  const Rows expected = fixture.json.at("next_logits");
  const Folder folder;
  void SetUp() override { fixture.write(folder, fixture.config); }

  model::Model load(const std::filesystem::path& from, bool with = true) const {
    return model::load(formats::open_checkpoint(from), {.next_head = with});
  }
  std::span<const uint32_t> ids(size_t from, size_t to) const {
    return std::span(fixture.ids).subspan(from, to - from);
  }

  // At the positions of the fixture but the first, which no token precedes, and at those of the guesses. The text comes
  // in batches of up to `rows`.
  Rows next_logits(const model::Model& model, const MakeBackend& make, uint32_t rows) const {
    Predicting running(model, make);
    Rows all{{}};
    for (size_t at = 0; at < fixture.ids.size();) {
      const std::vector<uint32_t> positions = fixture.json.at("positions");
      const auto next = std::find_if(positions.begin(), positions.end(), [&](uint32_t p) { return p > at; });
      const size_t until = next == positions.end() ? fixture.ids.size() : *next;
      while (at < until) {
        const size_t end = std::min(until, at + rows);
        running.feed(ids(at, end));
        at = end;
      }
      // wrong ones behind it, which the next batch overwrites
      if (at < fixture.ids.size()) all.push_back(running.predict(std::vector{fixture.ids[at], 3u, 5u})[0]);
    }
    for (std::vector<float>& row : running.predict(guesses)) all.push_back(std::move(row));
    return all;
  }
  double worst_of(const Rows& found) const {
    double most = 0;
    EXPECT_EQ(found.size(), expected.size());
    for (size_t i = 1; i < found.size(); ++i) most = std::max(most, double(worst(expected[i], found[i])));
    return most;
  }
};

TEST_P(NextHeads, SayWhatTransformersLayersSay) {
  const model::Model model = load(folder.path());
  ASSERT_NE(model::next_head(model), nullptr);
  const Rows whole = next_logits(model, cpu::make_reference, 64);
  EXPECT_LT(worst_of(whole), 2e-6);
  EXPECT_EQ(next_logits(model, cpu::make_reference, 3), whole);
  EXPECT_EQ(next_logits(model, cpu::make_reference, 1), whole);
}

TEST_P(NextHeads, AreTheSameInAConvertedFile) {
  const model::Model model = load(converted(folder.path(), folder.file("m.gguf")));
  EXPECT_LT(worst_of(next_logits(model, cpu::make_reference, 5)), 2e-6);
}

TEST_P(NextHeads, AreCloseOnTheFastBackend) {
  const model::Model model = load(folder.path());
  const auto in_q8 = [](const MakeBackend& make) {
    return [make](const model::Model& m, model::Limits limits) {
      limits.kv = model::KvFormat::q8;
      return make(m, limits);
    };
  };
  const Rows q8 = next_logits(model, in_q8(cpu::make_reference), 64), exact = next_logits(model, in_q8(fast(true)), 4);
  for (size_t i = 1; i < q8.size(); ++i) EXPECT_LT(worst(q8[i], exact[i]), 2e-4);
  EXPECT_LT(worst_of(next_logits(model, fast(true), 4)), 1e-3);  // a cache of f16
  const Rows rounded = next_logits(model, fast(false), 7);
  for (size_t i = 1; i < rounded.size(); ++i)
    EXPECT_GT(least_cosine(expected[i], rounded[i], expected[i].size()), 0.999);
}

TEST_P(NextHeads, LeaveTheModelsLogitsAsTheyAre) {
  for (const MakeBackend& make : {MakeBackend(cpu::make_reference), fast(true)}) {
    Running without(load(folder.path(), false), make, 9), with(load(folder.path()), make, 9);
    EXPECT_EQ(model::next_head(without.model), nullptr);
    EXPECT_EQ(with.all_logits(fixture.ids), without.all_logits(fixture.ids));
  }
}

// A copy of a state has the result that the next row of the head reads: it goes back, and elsewhere, with the others.
TEST_P(NextHeads, GoBackWithTheStates) {
  const model::Model model = load(folder.path());
  for (const MakeBackend& make : {MakeBackend(cpu::make_reference), fast(true)}) {
    Predicting straight(model, make), back(model, make);
    straight.feed(ids(0, 9));
    back.feed(ids(0, 9));
    back.backend().copy_state(0, 1);
    straight.feed(ids(9, 14));
    back.feed(std::vector<uint32_t>{1, 2, 3, 4});  // wrong guesses
    back.length = 9;
    back.slot = 1;
    back.feed(ids(9, 14));
    EXPECT_EQ(back.predict(guesses), straight.predict(guesses));
  }
}

TEST_P(NextHeads, NameWhatIsMissing) {
  for (const char* name : {"nextn.eh_proj.weight", "nextn.hnorm.weight", "attn_q.weight"}) {
    formats::Checkpoint cut = formats::open_checkpoint(folder.path());
    const uint64_t layers = cut.metadata.integer(std::string(cut.architecture()) + ".block_count");
    const std::string full = fmt::format("blk.{}.{}", layers - 1, name);
    EXPECT_EQ(std::erase_if(cut.tensors, [&](const formats::Tensor& tensor) { return tensor.name == full; }), 1u);
    cut.index();
    EXPECT_REFUSED(model::load(std::move(cut), {.next_head = true}), full);
  }
}

INSTANTIATE_TEST_SUITE_P(All, NextHeads, testing::Values("qwen3next-mtp", "qwen35-mtp", "qwen35moe-mtp"),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
