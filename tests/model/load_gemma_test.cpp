// What only Gemma 3n and 4 have: which layers share a cache, what is refused. Their logits are in architectures_test.
#include "model/load_gemma.h"

#include <gtest/gtest.h>

#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/model/fixture.h"
#include "tests/support/refused.h"

namespace heddle::model {
namespace {

using test::Fixture;
using test::Folder;

Model load_with(const std::string& name, const std::function<void(Json&)>& change = {}) {
  const Folder folder;
  const Fixture fixture(name);
  Json config = fixture.config;
  if (change) change(config);
  fixture.write(folder, config);
  return load(formats::open_checkpoint(folder.path()));
}

std::vector<bool> with_own_cache(const Model& model) {
  std::vector<bool> own;
  each_attention(model, [&](const Attention& a) { own.push_back(a.fills_cache()); });
  return own;
}

TEST(LoadGemma, TheLastLayersReadTheCachesOfTheLastBeforeThem) {
  const Model model = load_with("gemma4-inputs");  // windows: 1 1 0 | 1 0
  EXPECT_EQ(kv_cache_numbers(model), (std::vector<uint32_t>{0, 1, 2, 1, 2}));
  EXPECT_EQ(with_own_cache(model), (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(kv_cache_numbers(load_with("gemma3n")), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 4, 4, 5}));
  EXPECT_EQ(kv_cache_numbers(load_with("gemma4")), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

TEST(LoadGemma, ASharedCacheCountsOnce) {
  const Limits limits{.rows = 4, .kv_blocks = 3, .block_tokens = 16};
  const auto planned = [&](const Model& model) { return cpu::memory_needed(model, limits, {}).kv; };
  // 2 heads of keys and 2 of values, in f16: 2 caches of heads of 12, one of heads of 20
  EXPECT_EQ(planned(load_with("gemma4-inputs")), 3 * 16 * 2 * 2 * 2 * (2 * 12 + 20));
  // 3 of 12 with two heads each, 2 of 20 with one
  EXPECT_EQ(planned(load_with("gemma4")), 3 * 16 * 2 * 2 * (3 * 2 * 12 + 2 * 20));
}

TEST(LoadGemma, KeysMayBeValues) {
  const Model model = load_with("gemma4");
  const Attention &window = model.layers[0].get<Attention>(), &full = model.layers[2].get<Attention>();
  EXPECT_NE(window.v.data.data(), window.k.data.data());
  EXPECT_EQ(full.v.data.data(), full.k.data.data());
  EXPECT_EQ(matrices_of(full).size(), 3u);
  EXPECT_EQ(window.head, 12u);
  EXPECT_EQ(full.head, 20u);
  EXPECT_EQ(full.rope.dimensions, 20u);
  EXPECT_GT(full.rope.radians[1], 0);
  EXPECT_LT(full.rope.radians[2], 1e-29);  // a quarter of 10 pairs is rotated
}

TEST(LoadGemma, RefusesWhatCannotBe) {
  const auto of = [](const char* key, const Json& value) {
    return [key, value](Json& config) { config[key] = value; };
  };
  EXPECT_REFUSED(load_with("gemma4-values", of("num_kv_shared_layers", 2)), "attention.shared_kv_layers",
                 "no earlier layer without a window has a KV cache that layer 1 could share");
  EXPECT_REFUSED(load_with("gemma4-inputs", of("num_kv_shared_layers", 5)), "num_kv_shared_layers",
                 "fewer than the 5 layers");
  EXPECT_REFUSED(load_with("gemma4", of("use_bidirectional_attention", "all")), "use_bidirectional_attention");
  EXPECT_REFUSED(load_with("gemma4-experts", of("top_k_experts", 7)), "top_k_experts", "up to the 6 experts");
  EXPECT_REFUSED(load_with("gemma3n", of("altup_active_idx", 1)), "altup_active_idx");
  EXPECT_REFUSED(load_with("gemma3n", of("activation_sparsity_pattern", {0.5})), "activation_sparsity_pattern",
                 "9 numbers");
  EXPECT_REFUSED(load_with("gemma3n", of("activation_sparsity_pattern", 1.5)), "activation_sparsity_pattern",
                 "below 1");
  EXPECT_REFUSED(load_with("gemma3n-streams", of("intermediate_size", {32, 57})), "intermediate_size", "4 numbers");
}

}  // namespace
}  // namespace heddle::model
