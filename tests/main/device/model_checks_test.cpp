// The checks of heddle selftest MODEL and of every load: what is right passes, what is wrong in one way fails.
#include "main/device/model_checks.h"

#include <gtest/gtest.h>

#include "cpu/cpu.h"
#include "main/device/open_model.h"
#include "model/load.h"
#include "tests/main/small_model.h"
#include "tests/model/fixture.h"
#include "tests/support/backends.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

TEST(Closeness, OfRows) {
  Closeness closeness;
  const std::vector<float> a{1, 2, 3, -1}, b{1, 2, 3, 1};
  closeness.add(a, a);
  EXPECT_DOUBLE_EQ(closeness.cosine, 1);
  EXPECT_EQ(closeness.difference, 0);
  closeness.add(a, b);
  EXPECT_DOUBLE_EQ(closeness.cosine, 13.0 / 15);
  EXPECT_DOUBLE_EQ(closeness.difference, 2.0 / 4);
  closeness.add(a, a);
  EXPECT_DOUBLE_EQ(closeness.cosine, 13.0 / 15);
  EXPECT_EQ(closeness.positions, 3u);
  const std::vector<float> zeros(4), bad{1, NAN, 3, 0};
  Closeness of_zeros;
  of_zeros.add(zeros, zeros);
  EXPECT_EQ(of_zeros.cosine, 1);
  of_zeros.add(a, zeros);
  EXPECT_EQ(of_zeros.cosine, 0);
  closeness.add(a, bad);
  EXPECT_EQ(closeness.cosine, -2);
  EXPECT_TRUE(std::isinf(closeness.difference));
}

// A device with wrong logits where the test says so, and right picks.
class Wrong : public DeviceBackend<ForwardingBackend> {
 public:
  using DeviceBackend::DeviceBackend;
  void begin(const model::Batch& batch) override {
    rows_ = batch.tokens.size();
    DeviceBackend::begin(batch);
  }
  model::Result result() override {
    model::Result result = DeviceBackend::result();
    changed_.assign(result.logits.begin(), result.logits.end());
    if (wrong && wrong(rows_)) std::reverse(changed_.begin(), changed_.end());
    result.logits = changed_;
    return result;
  }
  std::function<bool(size_t rows)> wrong;

 private:
  size_t rows_ = 0;
  std::vector<float> changed_;
};

struct Checking : testing::Test {
  model::Model model = model::load(open_model("weft"));
  model::Model small = cut_model(model, 1);  // one layer
  Tokens first, second;
  Checking() {
    for (uint32_t i = 0; i < 30; ++i) {
      first.push_back(3 + i * 37 % 400);
      second.push_back(5 + i * 71 % 500);
    }
  }
  std::unique_ptr<Wrong> backend(const model::Model& of, const model::Limits& limits) const {
    return std::make_unique<Wrong>(of, cpu::make_cpu(of, limits, {.threads = 2, .exact = true}));
  }
  std::vector<std::string> failed(std::function<bool(size_t rows)> wrong) {
    ModelChecks checks(small, first, second, cosine_bar(true));
    const auto tried = backend(small, checks.limits());
    tried->wrong = std::move(wrong);
    checks.all(*tried, {1, 2, 8}, "");
    std::vector<std::string> names;
    for (const ModelCheck& check : checks.checks())
      if (check.outcome == ModelCheck::Outcome::failed) names.push_back(check.name);
    EXPECT_EQ(checks.passed(), names.empty());
    return names;
  }
};

TEST_F(Checking, WhatIsRightPasses) {
  ModelChecks checks(model, first, second, cosine_bar(true));
  const auto tried = backend(model, checks.limits());
  checks.all(*tried, {1, 8}, "steps: ");
  EXPECT_TRUE(checks.passed()) << table_of(checks.checks());
  EXPECT_EQ(checks.checks().size(), 3u + 2 + 1 + 2);
  EXPECT_EQ(checks.checks()[0].closeness.positions, 60u);
  EXPECT_EQ(tried->followed, 2 * (ModelChecks::continued - 1));
  EXPECT_EQ(tried->picks, 9 * ModelChecks::continued);
  expect_says(table_of(checks.checks()),
              {"check", "cosine", "steps: prompt at once", "passed", "steps: steps of 8", "0.00e+00  passed\n"});
}

TEST(ChecksOfStates, WhatIsRightPasses) {
  for (const char* name : {"qwen35", "mamba2", "lfm2"}) {
    const Folder folder;
    const Fixture fixture(name);
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(open_model(folder.path().string()));
    Tokens first, second;
    for (uint32_t i = 0; i < 20; ++i) {
      first.push_back(i * 37 % model.vocabulary);
      second.push_back(i * 71 % model.vocabulary);
    }
    ModelChecks checks(model, first, second, cosine_bar(true));
    const auto backend = cpu::make_cpu(model, checks.limits(), {.exact = true});
    checks.all(*backend, {1, 8}, "");
    EXPECT_TRUE(checks.passed()) << name << "\n" << table_of(checks.checks());
  }
}

TEST_F(Checking, WhatIsWrongInOneWayIsFound) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failed([](size_t rows) { return rows == 30; }), Names{"prompt at once"});
  EXPECT_EQ(failed([](size_t rows) { return rows == 13; }), Names{"prompt in pieces"});
  EXPECT_EQ(failed([](size_t rows) { return rows == 8; }), (Names{"batch of 8", "prompt beside others", "steps of 8"}));
}

TEST_F(Checking, StepsThatPickNothingFail) {
  ModelChecks checks(small, first, second, cosine_bar(true));
  const auto tried = backend(small, checks.limits());
  tried->nothing_at = 2;
  checks.steps(*tried, 1);
  EXPECT_FALSE(checks.passed());
  EXPECT_EQ(checks.checks()[0].note, "there was no token to pick");
}

TEST_F(Checking, ACutModelHasAllKindsOfLayersThatFit) {
  const model::Model all = cut_model(model, 1e12), one = cut_model(model, 1);
  ASSERT_GE(all.layers.size(), 1u);
  EXPECT_EQ(one.layers.size(), 1u);
  EXPECT_EQ(one.vocabulary, 1024u);
  EXPECT_EQ(one.output.rows, 1024u);
  EXPECT_EQ(one.output.data.data(), model.output.data.data());
  model::Model changed = model;
  changed.layers[1].get<model::Attention>().window = 64;
  EXPECT_EQ(cut_model(changed, 1e12).layers.size(), all.layers.size() + 1);
}

TEST_F(Checking, TheBriefFormFindsWhatIsWrong) {
  const auto with = [this](std::function<bool(size_t)> wrong, bool exact = true) {
    brief_selftest(
        model,
        [&, this](const model::Model& of, const model::Limits& limits) {
          auto made = backend(of, limits);
          made->wrong = wrong;
          return made;
        },
        exact);
  };
  EXPECT_NO_THROW(with(nullptr));
  EXPECT_REFUSED(with([](size_t rows) { return rows == 1; }), "weft", "is wrong", "at least 0.9999",
                 "16 tokens at once", "passed", "one by one", "FAILED", "--no-selftest");
  EXPECT_REFUSED(with([](size_t rows) { return rows == 16; }), "16 tokens at once", "FAILED", "one by one", "passed");
}

TEST(SelftestModel, OnTheCpu) {
  const Result result = heddle({"selftest", "weft", "--device", "cpu", "--sweep", "quick"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  expect_says(result.out, {"weft: 24 tokens", "CPU (", "prompt at once", "passed", "steps of 4",
                           "skipped: this backend picks no tokens", "6 passed, 0 failed, 2 skipped"});
  expect_says(heddle({"selftest", "weft", "--device", "cpu", "--sweep", "much"}).err, {"quick, normal or full"});
  expect_says(heddle({"selftest", "weft", "--device", "tpu"}).err, {"expected auto, cpu or cuda:N", "\"tpu\""});
  expect_says(heddle({"selftest", "/there/is/none.gguf", "--device", "cpu"}).err, {"/there/is/none.gguf"});
  expect_says(heddle({"selftest", "--exact"}).err, {"--exact: expected a MODEL"});
}

}  // namespace
}  // namespace heddle::test
