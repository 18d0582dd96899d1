// Models by others on the fast backend.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cpu/cpu.h"
#include "cpu/reference.h"
#include "model/load.h"
#include "tests/cpu/small_model.h"
#include "tests/support/closeness.h"
#include "tests/support/hf_arch.h"
#include "tests/support/reference_values.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

constexpr model::Limits trained_limits{.rows = 64, .kv_blocks = 8, .block_tokens = 32};

// Logits of 60 tokens on the reference and on the fast backend: at most `most_exact` apart with f32 activations; with
// int8 ones a cosine of at least `least` at every position, and of `mean` on average.
void compare(const std::filesystem::path& path, double most_exact, double least, double mean) {
  const model::Model model = model::load(formats::open_checkpoint(path));
  const std::vector<uint32_t> batches = {17, 1, 1, 33, 8};
  const std::vector<float> expected = run(model, *cpu::make_reference(model, trained_limits), trained_limits, batches);
  const auto on_cpu = [&](const cpu::Options& options) {
    return run(model, *cpu::make_cpu(model, trained_limits, options), trained_limits, batches);
  };
  const double exact = worst(expected, on_cpu({.threads = 2, .exact = true}));
  const std::vector<double> found = cosines(expected, on_cpu({.threads = 2}), model.vocabulary);
  EXPECT_LT(exact, most_exact) << path;
  EXPECT_GT(*std::min_element(found.begin(), found.end()), least) << path;
  EXPECT_GT(std::accumulate(found.begin(), found.end(), 0.0) / double(found.size()), mean) << path;
}

TEST_P(HfArch, LogitsAreThoseOfTheReference) {
  SHARED_DATA(folder, HfArch::folder());
  compare(folder, 1e-3, 0.999, 0.9999);
}

TEST_P(HfArch, LogitsAndGreedyTokensAreThoseOfTransformers) {
  SHARED_DATA(folder, HfArch::folder());
  const Values expected = read_values(folder / "ref.safetensors");
  const std::vector<uint32_t>& ids = expected.ids.at("input_ids");
  const auto exactly = [&] { return Running(folder, 0, 64, fast(true)); };
  // The cache is f16: gemma3, whose keys are the largest, is 2.3e-4 off; the reference backend is below 2e-6.
  EXPECT_LT(worst(expected.f32.at("logits"), exactly().all_logits(ids)), 3e-4);
  EXPECT_EQ(exactly().greedy(ids, 40), expected.ids.at("greedy_ids"));
}

// The least cosine of logits with a KV cache in q8 against those with one in f16.
double least_cosine_of_q8(const model::Model& model) {
  const auto logits = [&](model::KvFormat kv) {
    model::Limits with = trained_limits;
    with.kv = kv;
    return run(model, *cpu::make_cpu(model, with, {.threads = 2, .exact = true}), with, {50, 1, 1, 40, 8});
  };
  return least_cosine(logits(model::KvFormat::f16), logits(model::KvFormat::q8), model.vocabulary);
}

TEST_P(HfArch, LogitsWithACacheInQ8AreAlmostThoseWithF16) {
  SHARED_DATA(folder, HfArch::folder());
  const model::Model model = model::load(formats::open_checkpoint(folder));
  if (model.layers[0].get<model::Attention>().head % 32 == 0)
    EXPECT_GT(least_cosine_of_q8(model), 0.999);
  else
    EXPECT_THROW(least_cosine_of_q8(model), Error);
}

TEST(Trained, WeftWithACacheInQ8) {
  const auto path = std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf";
  EXPECT_GT(least_cosine_of_q8(model::load(formats::open_checkpoint(path))), 0.999);
}

HEDDLE_FOR_ALL_OF_HF_ARCH();

TEST(Trained, StoriesOfAQuarterMillionParameters) {
  SHARED_DATA(path, "weights/stories260K-f32.gguf");
  compare(path, 1e-3, 0.999, 0.9999);
}

// This model makes 22 times as much of a disturbance at some positions (the f16 of the cache costs a cosine of 5e-6
// there): int8 activations with otherwise exact arithmetic have a least cosine of 0.989 over 219 positions of text.
TEST(Trained, StoriesOfFifteenMillionParametersSlow) {
  SHARED_DATA(path, "weights/stories15M-Q4_0.gguf");
  compare(path, 1e-3, 0.98, 0.9995);
}

}  // namespace
}  // namespace heddle::test
