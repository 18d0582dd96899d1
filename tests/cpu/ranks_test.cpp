// Models on several ranks, which are threads here, against the same models on one.
#include "cpu/ranks.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/cpu/small_features.h"
#include "tests/model/encoder_fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/predicting.h"
#include "tests/support/ranks_in_memory.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

using model::KvFormat;
using model::Limits;
using quant::Format;

MakeRank fast_rank(bool exact) {
  return [exact](const model::Model& part, const Limits& limits, model::Collective& ranks) {
    return cpu::make_cpu(part, limits, {.threads = 1, .exact = exact, .ranks = &ranks});
  };
}
MakeBackend on_ranks(uint32_t ranks, const MakeRank& make, const model::ShardOptions& options = {}) {
  return [=](const model::Model& model, const Limits& limits) {
    return std::make_unique<RanksBackend>(model, limits, ranks, options, make);
  };
}

// The parts of a sum are rounded to f32. Where a key or value is then rounded to its other neighbour in a cache of f16
// or q8, logits move by up to 1e-4; the reference has f32 there.
constexpr double close = 2e-6, close_with_cache = 3e-4;

class RanksOfFixture : public testing::TestWithParam<std::string> {
 protected:
  const Fixture fixture{GetParam()};
  const Folder folder;
  void SetUp() override { fixture.write(folder, fixture.config); }
  Running running(const MakeBackend& make) const { return Running(folder.path(), fixture.context, 9, make); }
};

TEST_P(RanksOfFixture, LogitsAndGreedyTokensAreThoseOfOne) {
  const std::vector<float> expected = running(fast(true)).all_logits(fixture.ids);
  const size_t count = fixture.ids.size() + 6;
  const std::vector<uint32_t> ids = running(fast(true)).greedy(fixture.ids, count);
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    const MakeBackend make = on_ranks(ranks, fast_rank(true));
    Running several = running(make);
    EXPECT_LT(worst(expected, several.all_logits(fixture.ids)), close_with_cache) << ranks;
    several.session.rewind(0);
    EXPECT_EQ(several.greedy(fixture.ids, count), ids) << ranks;
  }
}

TEST_P(RanksOfFixture, TheReferenceIsTheSameOnThree) {
  const std::vector<float> expected = running(cpu::make_reference).all_logits(fixture.ids);
  Running three = running(on_ranks(3, cpu::make_reference_rank));
  EXPECT_LT(worst(expected, three.all_logits(fixture.ids)), close);
  const auto& shard = static_cast<RanksBackend&>(*three.backend).shard(0);
  const bool has_options = std::any_of(shard.layers.begin(), shard.layers.end(), [](const model::Layer& layer) {
    const auto* a = layer.find<model::Attention>();
    const auto* r = layer.find<model::Recurrence>();
    return layer.find<model::Mixture>() || (a && a->q_norm.across) || (r && r->gated_norm.across);
  });
  if (!has_options) return;
  const MakeBackend others = on_ranks(2, cpu::make_reference_rank, {.expert_parallel = true});
  EXPECT_LT(worst(expected, running(others).all_logits(fixture.ids)), close);
}

// Whether some key head would have more ranks than heads.
bool has_too_few_heads(uint64_t heads, uint64_t key_heads, uint32_t ranks) {
  return (ranks + key_heads - 1) / key_heads > heads / key_heads;
}

TEST_P(RanksOfFixture, ComputeWholeOnlyWhatHasTooFewHeadsOrReadsAllOfAGate) {
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    const model::Model shard = model::shard_of(model, 0, ranks);
    EXPECT_EQ(shard.output_parts.size(), ranks);
    const auto may_be_whole =
        model::Overloaded{[&](const model::Attention& a) { return has_too_few_heads(a.heads, a.kv_heads, ranks); },
                          [&](const model::Recurrence& r) { return has_too_few_heads(r.heads, r.key_heads, ranks); },
                          [](const model::FeedForward& f) { return f.cutoff || f.token_input || f.to_other_streams; },
                          [](const model::Altup&) { return true; },
                          [](const model::NextHead&) { return true; },
                          [](const auto&) { return false; }};
    for (const model::Layer& layer : shard.layers)
      for (const model::Sublayer& sublayer : layer.sublayers)
        EXPECT_TRUE(model::is_partial(sublayer) || std::visit(may_be_whole, sublayer)) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RanksOfFixture, testing::ValuesIn(fewer(Fixture::names())),
                         [](const auto& one) { return as_test_name(one.param); });

TEST_P(HfArch, RanksSayWhatTransformersSays) {
  SHARED_DATA(folder, HfArch::folder());
  const Values expected = read_values(folder / "ref.safetensors");
  const std::vector<uint32_t>& ids = expected.ids.at("input_ids");
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    const MakeBackend make = on_ranks(ranks, fast_rank(true));
    EXPECT_LT(worst(expected.f32.at("logits"), Running(folder, 0, 64, make).all_logits(ids)), close_with_cache);
    EXPECT_EQ(Running(folder, 0, 64, make).greedy(ids, 40), expected.ids.at("greedy_ids")) << ranks;
  }
}

TEST(RanksOfTrainedModel, SayWhatOneSays) {
  const auto path = std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf";
  const std::vector<uint32_t> ids{1, 300, 17, 5, 900, 42, 77, 3};
  for (const bool exact : {true, false}) {
    Running one(path, 128, 64, fast(exact));
    const std::vector<uint32_t> expected = one.greedy(ids, 40);
    for (const uint32_t ranks : {2u, 3u}) {
      Running several(path, 128, 64, on_ranks(ranks, fast_rank(exact)));
      if (exact)
        EXPECT_EQ(several.greedy(ids, 40), expected) << ranks;
      else
        EXPECT_GT(least_cosine(Running(path, 128, 64, fast(false)).all_logits(expected), several.all_logits(expected),
                               several.model.vocabulary),
                  0.999);
    }
  }
}

// --- every feature and format, by hand ------------------------------------------------------------------------------
constexpr Limits rank_limits{.rows = 64, .kv_blocks = 24, .block_tokens = 8};
constexpr Shape even_rank_shape{
    .layers = 2, .width = 64, .heads = 6, .kv_heads = 2, .head = 32, .inner = 96, .vocabulary = 67};
constexpr Shape odd_rank_shape{
    .layers = 2, .width = 36, .heads = 3, .kv_heads = 1, .head = 10, .inner = 53, .vocabulary = 37};

double distance_of_ranks(const model::Model& model, uint32_t ranks, KvFormat kv,
                         const model::ShardOptions& options = {}) {
  Limits limits = rank_limits;
  limits.kv = kv;
  const std::vector<uint32_t> pieces =
      model::is_causal(model) ? std::vector<uint32_t>{21, 1, 1, 9, 2} : std::vector<uint32_t>{34};
  const auto one = cpu::make_cpu(model, limits, {.threads = 1, .exact = true});
  RanksBackend several(model, limits, ranks, options, fast_rank(true));
  return worst(run(model, *one, limits, pieces), run(model, several, limits, pieces));
}

class RanksOfFeature : public testing::TestWithParam<SmallFeature> {};

TEST_P(RanksOfFeature, LogitsAreThoseOfOne) {
  const auto compare = [&](const Shape& shape) {
    Builder builder(shape);
    GetParam().add(builder);
    for (const uint32_t ranks : {2u, 3u, 4u})
      for (const bool by_expert : {false, true}) {
        if (by_expert && !builder.model().layers.back().find<model::Mixture>()) continue;
        const KvFormat kv = ranks == 3 ? KvFormat::q8 : KvFormat::f16;
        EXPECT_LT(distance_of_ranks(builder.model(), ranks, kv, {.expert_parallel = by_expert}), close_with_cache)
            << quant::name(shape.format) << ' ' << shape.width << ", " << ranks << " ranks" << by_expert;
      }
  };
  compare(odd_rank_shape);
  for (const Format format : {Format::f32, Format::q8_0, Format::mxfp4}) {
    Shape shape = even_rank_shape;
    shape.format = format;
    compare(shape);
  }
}
INSTANTIATE_TEST_SUITE_P(All, RanksOfFeature, testing::ValuesIn(fewer(small_features())),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Ranks, FormatsInBlocksOf256) {
  for (const Format format : {Format::q4_k, Format::q6_k, Format::iq4_xs, Format::q8_0}) {
    Builder builder(Shape{.format = format, .heads = 8, .kv_heads = 4, .head = 64, .inner = 1024});
    experts_of(builder);
    for (const uint32_t ranks : {2u, 3u, 4u})
      EXPECT_LT(distance_of_ranks(builder.model(), ranks, KvFormat::f16), close_with_cache)
          << quant::name(format) << ranks;
    // 512 columns of heads are two blocks of 256
    const auto output = [&](uint32_t ranks) {
      return model::shard_of(builder.model(), 1, ranks).layers[0].get<model::Attention>().output.format;
    };
    EXPECT_EQ(output(2), format);
    EXPECT_EQ(output(3), format == Format::q8_0 ? format : Format::f16);
  }
}

TEST(Ranks, ParallelLayersAndTiedEmbeddings) {
  for (const auto& [name, features] : families()) {
    Shape shape = even_rank_shape;
    shape.tied = true;
    shape.format = Format::q8_0;
    Builder builder(shape);
    add_features(builder, features);
    for (model::Layer& layer : builder.model().layers) layer.parallel = true;
    EXPECT_LT(distance_of_ranks(builder.model(), 2, KvFormat::f16), close_with_cache) << name;
    EXPECT_LT(distance_of_ranks(builder.model(), 3, KvFormat::q8), close_with_cache) << name;
  }
}

// --- other batches --------------------------------------------------------------------------------------------------
// Three sequences, some tokens of each at a time.
std::vector<float> mixed_logits(const model::Model& model, const MakeBackend& make) {
  Limits limits{.rows = 32, .kv_blocks = 12, .block_tokens = 8, .state_slots = 3};
  const auto backend = make(model, limits);
  std::vector<uint32_t> lengths(3);
  std::vector<float> all;
  for (const auto& counts : std::vector<std::vector<uint32_t>>{{5, 0, 3}, {1, 7, 1}, {1, 1, 1}, {0, 9, 1}, {1, 1, 1}}) {
    model::Batch batch;
    for (uint32_t s = 0; s < 3; ++s) {
      batch.slots.push_back(2 - s);
      batch.blocks.push_back({s * 4, s * 4 + 1, s * 4 + 2, s * 4 + 3});
      for (uint32_t i = 0; i < counts[s]; ++i) {
        batch.outputs.push_back(uint32_t(batch.tokens.size()));
        batch.tokens.push_back((s * 31 + lengths[s] * 7) % model.vocabulary);
        batch.positions.push_back(lengths[s]++);
        batch.sequences.push_back(s);
      }
    }
    model::forward(model, *backend, batch);
    const auto logits = backend->result().logits;
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(Ranks, BatchesOfSeveralSequences) {
  for (const std::string& name : fewer(Fixture::one_of_each_class())) {
    const Fixture fixture(name);
    const Folder folder;
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = 32});
    if (!model::generates(model)) continue;
    EXPECT_LT(worst(mixed_logits(model, fast(true)), mixed_logits(model, on_ranks(2, fast_rank(true)))),
              close_with_cache)
        << name;
  }
}

TEST(Ranks, HeadsForMultiTokenPrediction) {
  uint32_t compared = 0;
  for (const std::string& name : Fixture::names()) {
    const Fixture fixture(name);
    if (!fixture.json.contains("guesses")) continue;
    const Folder folder;
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.next_head = true});
    const auto predicted = [&](const MakeBackend& make) {
      Predicting running(model, make);
      running.feed(fixture.ids);
      std::vector<float> all;
      for (const auto& row : running.predict(fixture.json.at("guesses").get<std::vector<uint32_t>>()))
        all.insert(all.end(), row.begin(), row.end());
      return all;
    };
    for (const uint32_t ranks : {2u, 3u})
      EXPECT_LT(worst(predicted(cpu::make_reference), predicted(on_ranks(ranks, cpu::make_reference_rank))), close)
          << name;
    ++compared;
  }
  EXPECT_GE(compared, 3u);
}

TEST(Ranks, EmbeddingsAndScoresOfEncoders) {
  for (const std::string& name : EncoderFixture::names()) {
    const EncoderFixture fixture(name);
    const Folder folder;
    const model::Model model = model::load(formats::open_checkpoint(fixture.write_in(folder)));
    const Limits limits{.rows = 256, .kv_blocks = 16};
    const auto results = [&](const MakeBackend& make) {
      const auto backend = make(model, limits);
      std::vector<float> all;
      for (const auto& states : test::states_of(model, *backend, limits, fixture.texts, fixture.types))
        for (const float value : result_of(model, states, fixture.ranks)) all.push_back(value);
      return all;
    };
    for (const uint32_t ranks : {2u, 3u})
      EXPECT_LT(worst(results(cpu::make_reference), results(on_ranks(ranks, cpu::make_reference_rank))), close) << name;
  }
}

// --- memory and faults ----------------------------------------------------------------------------------------------
TEST(Ranks, NoneNeedsMoreMemoryThanTheFirst) {
  for (const std::string& name : fewer(Fixture::one_of_each_class())) {
    const Fixture fixture(name);
    const Folder folder;
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = 32});
    const Limits limits{.rows = 8, .kv_blocks = 12, .state_slots = 3};
    const model::Memory whole = cpu::memory_needed(model, limits);
    for (const uint32_t ranks : {2u, 3u, 4u}) {
      const model::Memory first = cpu::memory_needed(model::shard_of(model, 0, ranks), limits);
      EXPECT_LT(first.weights, whole.weights) << name;
      EXPECT_LE(first.kv, whole.kv) << name;
      EXPECT_LE(first.states, whole.states) << name;
      for (uint32_t rank = 1; rank < ranks; ++rank) {
        const model::Memory other = cpu::memory_needed(model::shard_of(model, rank, ranks), limits);
        EXPECT_LE(other.weights, first.weights) << name << ' ' << rank << " of " << ranks;
        EXPECT_LE(other.kv, first.kv) << name;
        EXPECT_LE(other.states, first.states) << name;
      }
    }
  }
}

TEST(Ranks, CopiesOfColumnsCountAsMemory) {
  Shape shape = even_rank_shape;
  shape.format = Format::q8_0;
  Builder builder(shape);
  model::Model shard = model::shard_of(builder.model(), 0, 2);
  uint64_t copies = 0;
  for (const std::vector<uint8_t>& one : shard.storage) copies += one.size();
  const uint64_t with = cpu::memory_needed(shard, rank_limits).weights;
  const auto elsewhere = std::exchange(shard.storage, {});
  EXPECT_GT(copies, 0u);
  EXPECT_EQ(with - cpu::memory_needed(shard, rank_limits).weights, copies);
}

// Rank 0 of two, whose other rank is lost after some sums.
class LosesOther : public model::Collective {
 public:
  explicit LosesOther(uint32_t sums) : left_(sums) {}
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 2; }
  void sum(std::span<float>) override {
    if (left_-- == 0) throw Error("rank 1 is lost");
  }
  void gather(std::span<const float>, std::span<const uint64_t>, std::span<float>) override {
    throw Error("rank 1 is lost");
  }
  void send(uint32_t, std::span<const float>) override {}
  void receive(uint32_t, std::span<float>) override {}

 private:
  uint32_t left_;
};

TEST(Ranks, ABackendIsUnusableAfterOneIsLost) {
  Builder builder(even_rank_shape);
  const model::Model shard = model::shard_of(builder.model(), 0, 2);
  for (const uint32_t sums : {0u, 3u, 100u})  // in the first sublayer, in the last, in the head
    for (const bool reference : {true, false}) {
      LosesOther lost(sums);
      const auto backend = reference ? cpu::make_reference_rank(shard, rank_limits, lost)
                                     : cpu::make_cpu(shard, rank_limits, {.threads = 1, .ranks = &lost});
      EXPECT_TRUE(backend->usable());
      try {
        run(shard, *backend, rank_limits, {1});
        FAIL() << "an Error was expected";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "rank 1 is lost");
      }
      EXPECT_FALSE(backend->usable());
    }
  // a part of a model alone
  EXPECT_THROW(run(shard, *cpu::make_cpu(shard, rank_limits, {.threads = 1}), rank_limits, {1}), std::logic_error);
}

}  // namespace
}  // namespace heddle::test
