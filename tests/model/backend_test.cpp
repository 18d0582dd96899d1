// What the KV caches of models take, and layers with windows: which blocks they need, and that they need no others.
#include "model/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/windows.h"

namespace heddle::test {
namespace {

using model::Limits;
using model::Windows;

TEST(Windows, SeeWhatTheirAttentionsSee) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Windows windows;
    for (uint32_t i = 1 + random() % 3; i > 0; --i) {
      const uint32_t window = random() % 3 ? uint32_t(1 + random() % 40) : 0;
      windows.all.push_back({window, window && random() % 2 ? 0 : uint32_t(1 + random() % 40)});
    }
    uint32_t longest = 0;
    for (uint32_t position = 0; position < 130; ++position) {
      uint32_t first = position;
      for (const auto& [window, chunk] : windows.all)
        for (uint32_t at = 0; at <= position; ++at)
          if ((!window || position - at < window) && (!chunk || at / chunk == position / chunk))
            first = std::min(first, at);
      ASSERT_EQ(windows.first_seen(position), first) << "position " << position;
      longest = std::max(longest, position - first + 1);
    }
    EXPECT_EQ(windows.longest(), longest);
  }
  EXPECT_EQ(Windows().longest(), 0u);
}

model::Attention attention(uint32_t window, uint32_t chunk = 0, uint32_t shared_cache = 0) {
  return {.heads = 2,
          .kv_heads = 2,
          .head = 32,
          .value_head = 32,
          .window = window,
          .chunk = chunk,
          .shared_cache = shared_cache};
}
model::Model with_attentions(const std::vector<model::Attention>& all) {
  model::Model model;
  for (const model::Attention& a : all) model.layers.emplace_back().sublayers.emplace_back(a);
  return model;
}

TEST(Windows, AreThoseOfCachesThatNoOtherAttentionReads) {
  EXPECT_TRUE(model::windows_of(with_attentions({attention(0)})).all.empty());
  const model::Model mixed = with_attentions({attention(8), attention(0), attention(0, 5), attention(8)});
  EXPECT_EQ(model::kv_caches_of_windows(mixed), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(model::windows_of(mixed).all, (std::vector<Windows::Sight>{{8, 0}, {0, 5}}));
  const model::Model shared = with_attentions({attention(8, 0, 1), attention(9, 0, 2), attention(0, 0, 1)});
  EXPECT_EQ(model::windows_of(shared).all, (std::vector<Windows::Sight>{{9, 0}}));
  model::Model encoder = with_attentions({attention(8)});
  encoder.layers[0].get<model::Attention>().causal = false;
  EXPECT_TRUE(model::windows_of(encoder).all.empty());
}

TEST(Windows, TakeAsMuchAsTheirBlocks) {
  const model::Model model = with_attentions({attention(8), attention(0), attention(8), attention(8, 0, 1)});
  Limits limits{.kv_blocks = 100, .block_tokens = 16};
  const uint64_t block = 16 * 2 * (32 + 32) * 2;
  EXPECT_EQ(model::kv_bytes(model, limits), 4 * 100 * block);
  limits.window_blocks = 7;
  EXPECT_EQ(model::kv_bytes(model, limits), (100 + 3 * 7) * block);
  limits.kv = model::KvFormat::q8;
  EXPECT_EQ(model::kv_bytes(model, limits), (100 + 3 * 7) * block / 64 * 34);
  limits.kv_blocks = ~0u;
  limits.block_tokens = 1u << 31;
  EXPECT_EQ(model::kv_bytes(model, limits), uint64_t(1) << 60) << "no overflow";
}

std::vector<std::string> names_with_windows() {
  std::vector<std::string> names = Fixture::names();
  std::erase_if(names, [](const std::string& name) {
    const std::string text(MappedFile(Fixture::folder() / (name + ".json")).text());
    return text.find("\"sliding_window\"") == text.npos && text.find("\"attention_chunk_size\"") == text.npos;
  });
  return names;
}

class ModelsWithWindows : public testing::TestWithParam<std::string> {};

// In blocks of 4, with as few as it takes: transformers' logits, then a text of 60 tokens as with one block table.
TEST_P(ModelsWithWindows, NeedNoMoreThanWhatIsSeen) {
  const Fixture fixture(GetParam());
  const Folder folder;
  fixture.write(folder, fixture.config);
  const auto checkpoint = formats::open_checkpoint(folder.path());
  const model::Model model = model::load(checkpoint, {.context = fixture.context});
  const uint32_t longest = model::windows_of(model).longest();
  if (longest == 0 || longest > 40 || fixture.ids.empty()) return;  // a text of 64 tokens does not leave it
  for (const model::KvFormat kv : {model::KvFormat::f16, model::KvFormat::q8})
    for (const bool is_reference : {true, false}) {
      const auto make = [&](const model::Model& each, Limits limits, bool windows) -> std::unique_ptr<model::Backend> {
        limits.window_blocks = windows ? (longest + 3 + 3) / 4 + 1 : 0;
        auto backend = is_reference ? cpu::make_reference(each, limits)
                                    : cpu::make_cpu(each, limits, {.threads = 1, .exact = true});
        if (!windows) return backend;
        return std::make_unique<WithWindows>(each, limits, std::move(backend));
      };
      Limits limits{.rows = 3, .kv_blocks = 16, .block_tokens = 4, .kv = kv, .state_slots = 1};
      const auto few = make(model, limits, true), all = make(model, limits, false);
      model::Session a(model, *few, limits), b(model, *all, limits);
      std::vector<float> logits;
      a.feed_each(fixture.ids,
                  [&](size_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
      if (kv == model::KvFormat::f16 && is_reference) {
        EXPECT_LT(worst(fixture.logits(), fixture.chosen(logits)), 2e-6);
      }
      b.feed(fixture.ids);
      for (uint32_t next = 7; a.length() < 60; next = uint32_t(next * 31 + a.length()) % model.vocabulary) {
        const auto found = a.feed({&next, 1}), right = b.feed({&next, 1});
        ASSERT_TRUE(std::ranges::equal(found, right)) << "position " << a.length();
      }
    }
}
INSTANTIATE_TEST_SUITE_P(All, ModelsWithWindows, testing::ValuesIn(names_with_windows()),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
