// What every rank has of a sublayer, by value: a row of a weight says in its values which row of the whole it is, so
// that all that belongs together can be seen to be together, and to be there once.
#include "model/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "model/backend.h"
#include "tests/cpu/random_weights.h"

namespace heddle::model {
namespace {

using quant::Format;

constexpr uint64_t width = 32;

// Models of one layer with sizes at random.
class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  uint64_t from(std::initializer_list<uint64_t> some) { return *(some.begin() + random_() % some.size()); }
  uint64_t up_to(uint64_t most) { return 1 + random_() % most; }
  bool coin() { return random_() % 2 == 0; }
  Format format() {
    constexpr Format all[] = {Format::f32, Format::f16, Format::q8_0, Format::q4_0, Format::mxfp4, Format::q4_k};
    return all[random_() % std::size(all)];
  }

  // Every value of row r is r.
  Matrix numbered(uint64_t rows, uint64_t cols = width) {
    std::vector<float> values(rows * cols);
    for (uint64_t i = 0; i < values.size(); ++i) values[i] = float(i / cols);
    return keep(Format::f32, rows, cols, values);
  }
  Matrix weights(Format format, uint64_t rows, uint64_t cols) {
    std::vector<float> values(rows * cols);
    for (float& value : values) value = float(random_() % 2001) / 1000 - 1;
    return keep(format, rows, cols, values);
  }
  static Vector numbers(uint64_t count) {
    Vector values(count);
    for (uint64_t i = 0; i < count; ++i) values[i] = float(i);
    return values;
  }
  Model of(Sublayer sublayer) {
    Model model;
    model.width = width;
    model.layers.push_back({.sublayers = {std::move(sublayer)}});
    return model;
  }

 private:
  Matrix keep(Format format, uint64_t rows, uint64_t cols, const std::vector<float>& values) {
    const std::vector<uint8_t>& bytes = storage_.emplace_back(test::random_weights(format, values));
    return {format, rows, cols, bytes};
  }
  std::mt19937 random_;
  std::vector<std::vector<uint8_t>> storage_;
};

// Which row of the whole a numbered row is.
uint64_t number(const Matrix& matrix, uint64_t row) {
  float value = 0;
  std::memcpy(&value, matrix.slice(row, 1).data.data(), sizeof value);
  return uint64_t(value);
}
// Of all rows, some columns.
std::vector<float> columns(const Matrix& matrix, uint64_t first, uint64_t count) {
  std::vector<float> row(matrix.cols), all;
  for (uint64_t r = 0; r < matrix.rows; ++r) {
    quant::decode(matrix.format, matrix.slice(r, 1).data.data(), matrix.cols, row.data());
    all.insert(all.end(), row.begin() + long(first), row.begin() + long(first + count));
  }
  return all;
}

void round_to_f16(std::vector<float>& values) {
  for (float& value : values) value = quant::f32_of_f16(quant::f16_of_f32(value));
}

template <class Kind>
class Shards {
 public:
  Shards(Random& random, const Kind& whole, uint32_t ranks, const ShardOptions& options = {})
      : model_(random.of(whole)) {
    for (uint32_t rank = 0; rank < ranks; ++rank) all_.push_back(shard_of(model_, rank, ranks, options));
    for (const Model& shard : all_) EXPECT_EQ(of(shard).partial, of(all_[0]).partial);
  }
  bool are_cut() const { return of(all_[0]).partial; }
  // f(part, rank) for every rank.
  void each(auto&& f) const {
    for (uint32_t rank = 0; rank < all_.size(); ++rank) f(of(all_[rank]), rank);
  }

 private:
  static const Kind& of(const Model& model) { return model.layers[0].get<Kind>(); }
  Model model_;
  std::vector<Model> all_;
};

TEST(Shard, HeadsOfAttention) {
  uint32_t cut = 0, copied = 0, whole_on_all = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Random random(seed);
    const uint32_t ranks = uint32_t(1 + random.up_to(7));
    Attention a;
    a.kv_heads = uint32_t(random.up_to(9));
    a.heads = uint32_t(a.kv_heads * random.up_to(6));
    a.head = uint32_t(2 * random.up_to(9));
    const Format format = random.format();
    a.value_head = uint32_t(quant::block_values(format) == 1 ? random.up_to(9) : random.from({32, 64, 128, 256}));
    if (uint64_t(a.heads) * a.value_head % quant::block_values(format) != 0) continue;
    a.q = random.numbered(uint64_t(a.heads) * a.head);
    a.k = random.numbered(uint64_t(a.kv_heads) * a.head);
    a.v = random.numbered(uint64_t(a.kv_heads) * a.value_head);
    a.gate = random.numbered(uint64_t(a.heads) * a.value_head);
    a.q_bias = Random::numbers(a.q.rows);
    a.k_bias = Random::numbers(a.k.rows);
    a.v_bias = Random::numbers(a.v.rows);
    a.own_head_norms = true;
    a.q_norm = {.kind = Norm::Kind::layer, .weight = a.q_bias, .bias = a.q_bias};
    a.k_norm = {.kind = Norm::Kind::rms, .weight = a.k_bias, .bias = {}};
    a.sinks = a.slopes = Random::numbers(a.heads);
    a.output = random.weights(format, width, a.output_cols());
    a.output_bias = Random::numbers(width);
    const Shards shards(random, a, ranks);
    if (!shards.are_cut()) {
      // some key head has more ranks than heads
      EXPECT_GT((ranks + a.kv_heads - 1) / a.kv_heads, a.heads / a.kv_heads);
      ++whole_on_all;
      continue;
    }
    ++cut;
    std::set<uint64_t> heads;
    std::map<uint64_t, uint32_t> key_heads;
    shards.each([&](const Attention& part, uint32_t rank) {
      ASSERT_EQ(part.heads % part.kv_heads, 0u);
      ASSERT_EQ(part.q.rows, uint64_t(part.heads) * a.head);
      ASSERT_EQ(part.k.rows, uint64_t(part.kv_heads) * a.head);
      ASSERT_EQ(part.v.rows, uint64_t(part.kv_heads) * a.value_head);
      ASSERT_EQ(part.output.cols, part.output_cols());
      EXPECT_EQ(part.output_bias, rank == 0 ? a.output_bias : Vector());
      for (uint32_t h = 0; h < part.heads; ++h) {
        const uint64_t head = number(part.q, uint64_t(h) * a.head) / a.head;
        EXPECT_TRUE(heads.insert(head).second) << "each head once";
        for (uint32_t i = 0; i < a.head; ++i) {
          const uint64_t at = uint64_t(h) * a.head + i;
          EXPECT_EQ(number(part.q, at), head * a.head + i);
          EXPECT_EQ(part.q_bias[at], float(head * a.head + i));
          EXPECT_EQ(part.q_norm.weight[at], part.q_bias[at]);
          EXPECT_EQ(part.q_norm.bias[at], part.q_bias[at]);
        }
        EXPECT_EQ(number(part.gate, uint64_t(h) * a.value_head), head * a.value_head);
        EXPECT_EQ(part.sinks[h], float(head));
        EXPECT_EQ(part.slopes[h], float(head));
        std::vector<float> of_head = columns(a.output, head * a.value_head, a.value_head);
        if (part.output.format != format) round_to_f16(of_head);
        EXPECT_EQ(columns(part.output, uint64_t(h) * a.value_head, a.value_head), of_head);
        const uint64_t key_head = head / (a.heads / a.kv_heads), own = h / (part.heads / part.kv_heads);
        EXPECT_EQ(number(part.k, own * a.head), key_head * a.head);
        EXPECT_EQ(number(part.v, own * a.value_head), key_head * a.value_head);
        EXPECT_EQ(part.k_bias[own * a.head + 1], float(key_head * a.head + 1));
        EXPECT_EQ(part.v_bias[own * a.value_head], float(key_head * a.value_head));
        EXPECT_EQ(part.k_norm.weight[own * a.head], float(key_head * a.head));
      }
      for (uint32_t k = 0; k < part.kv_heads; ++k) ++key_heads[number(part.k, uint64_t(k) * a.head) / a.head];
    });
    EXPECT_EQ(heads.size(), a.heads);
    EXPECT_EQ(key_heads.size(), a.kv_heads);
    const bool has_copies = std::any_of(key_heads.begin(), key_heads.end(), [](auto& one) { return one.second > 1; });
    copied += has_copies;
    if (has_copies) {
      EXPECT_LT(a.kv_heads, ranks) << "copies are for ranks that would have none";
    }
  }
  EXPECT_GT(cut, 30u);
  EXPECT_GT(copied, 8u);
  EXPECT_GT(whole_on_all, 4u);
}

TEST(Shard, NormsOverAllHeadsSpanRanks) {
  for (const auto& sizes : std::vector<std::array<uint32_t, 3>>{{6, 6, 3}, {8, 2, 4}, {8, 2, 3}}) {
    const uint32_t heads = sizes[0], kv_heads = sizes[1], ranks = sizes[2];
    Random random(heads);
    Attention a;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head = a.value_head = 4;
    a.q = random.numbered(heads * 4);
    a.k = a.v = random.numbered(kv_heads * 4);
    a.q_norm = {.kind = Norm::Kind::rms, .weight = Random::numbers(heads * 4), .bias = {}};
    a.k_norm = {.kind = Norm::Kind::rms, .weight = Random::numbers(kv_heads * 4), .bias = {}};
    a.output = random.numbered(width, heads * 4);
    const Shards shards(random, a, ranks);
    ASSERT_TRUE(shards.are_cut());
    std::multiset<uint64_t> counted;  // key heads
    shards.each([&](const Attention& part, uint32_t) {
      ASSERT_TRUE(part.q_norm.across && part.k_norm.across);
      EXPECT_EQ(part.q_norm.across->size, heads * 4);
      EXPECT_EQ(part.k_norm.across->size, kv_heads * 4);
      EXPECT_TRUE(part.q_norm.across->counted);
      EXPECT_EQ(part.q_norm.weight[0], float(number(part.q, 0)));
      EXPECT_EQ(part.k_norm.weight[3], float(number(part.k, 3)));
      EXPECT_TRUE(part.values_are_keys());
      for (uint32_t k = 0; part.k_norm.across->counted && k < part.kv_heads; ++k)
        counted.insert(number(part.k, k * 4) / 4);
    });
    EXPECT_EQ(counted.size(), kv_heads);
    EXPECT_EQ(std::set(counted.begin(), counted.end()).size(), kv_heads) << "each once";
    a.q_norm.kind = Norm::Kind::layer;  // whose mean would be another sum
    EXPECT_FALSE(Shards(random, a, ranks).are_cut());
  }
}

TEST(Shard, AttentionsWithOneCacheHaveTheSameKeyHeads) {
  Random random(1);
  const auto attention = [&](uint32_t heads, Format format) {
    Attention a;
    a.heads = heads;
    a.kv_heads = 8;
    a.head = a.value_head = 32;
    a.shared_cache = 1;
    a.q = random.numbered(heads * 32);
    a.output = random.weights(format, width, heads * 32);
    return a;
  };
  Model model = random.of(attention(8, Format::f16));
  model.layers[0].get<Attention>().k = model.layers[0].get<Attention>().v = random.numbered(8 * 32);
  model.layers.push_back({.sublayers = {attention(16, Format::q4_k)}});  // four key heads are a block
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const Model shard = shard_of(model, rank, 2);
    const auto &filling = shard.layers[0].get<Attention>(), &reading = shard.layers[1].get<Attention>();
    EXPECT_EQ(filling.kv_heads, 4u);
    EXPECT_EQ(reading.kv_heads, 4u);
    EXPECT_EQ(number(filling.k, 0), rank * 128);
    EXPECT_EQ(number(reading.q, 0), rank * 256);
    EXPECT_FALSE(reading.fills_cache());
    EXPECT_EQ(kv_bytes(shard, {.kv_blocks = 3}) * 2, kv_bytes(model, {.kv_blocks = 3}));
  }
  for (uint32_t rank = 0; rank < 3; ++rank)  // three key heads are no blocks of the second
    for (const Layer& layer : shard_of(model, rank, 3).layers) {
      const auto& part = layer.get<Attention>();
      EXPECT_EQ(part.kv_heads, rank < 2 ? 3u : 2u);
      EXPECT_EQ(part.output.format, Format::f16);
    }
  for (uint32_t rank = 0; rank < 9; ++rank)  // the first has no two heads for a key, so neither is cut
    for (const Layer& layer : shard_of(model, rank, 9).layers) {
      EXPECT_FALSE(layer.get<Attention>().partial);
      EXPECT_EQ(layer.get<Attention>().kv_heads, 8u);
    }
}

TEST(Shard, HeadsOfLatentAttention) {
  for (const uint32_t ranks : {2u, 3u, 5u}) {
    Random random(ranks);
    Attention a;
    a.heads = 10;
    a.kv_heads = 1;
    Latent& l = a.latent.emplace();
    l.rank = a.value_head = 8;
    l.plain = 6;
    l.rotated = 2;
    l.value = 16;
    a.head = l.rank + l.rotated;
    l.q_down = random.numbered(5);
    l.kv_down = random.numbered(a.head);
    l.k_up = {a.heads, random.numbered(a.heads * l.rank, l.plain)};
    l.v_up = {a.heads, random.numbered(a.heads * l.value, l.rank)};
    a.q = random.numbered(a.heads * (l.plain + l.rotated), 5);
    a.output = random.weights(Format::q8_0, width, a.output_cols());
    const Shards shards(random, a, ranks);
    ASSERT_TRUE(shards.are_cut());
    std::set<uint64_t> heads;
    shards.each([&](const Attention& part, uint32_t) {
      EXPECT_EQ(part.kv_heads, 1u);
      EXPECT_EQ(part.cached_values(), a.cached_values());
      EXPECT_EQ(part.latent->kv_down.data.data(), l.kv_down.data.data());
      EXPECT_EQ(part.latent->q_down.data.data(), l.q_down.data.data());
      ASSERT_EQ(part.latent->k_up.count, part.heads);
      for (uint32_t h = 0; h < part.heads; ++h) {
        const uint64_t head = number(part.q, h * 8) / 8;
        EXPECT_TRUE(heads.insert(head).second);
        EXPECT_EQ(number(part.latent->k_up.expert(h), 0), head * l.rank);
        EXPECT_EQ(number(part.latent->v_up.expert(h), 1), head * l.value + 1);
        EXPECT_EQ(columns(part.output, h * 16, 16), columns(a.output, head * 16, 16));
      }
    });
    EXPECT_EQ(heads.size(), a.heads);
  }
}

TEST(Shard, InnerValuesOfFeedForwards) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const uint32_t ranks = uint32_t(1 + random.up_to(7));
    const Format format = random.format();
    const uint64_t inner = quant::block_values(format) * random.up_to(20);
    FeedForward f;
    if (random.coin()) f.gate = random.numbered(inner);
    f.up = random.numbered(inner);
    f.down = random.weights(format, width, inner);
    f.up_bias = f.gate_bias = Random::numbers(inner);
    f.down_bias = Random::numbers(width);
    const Shards shards(random, f, ranks);
    EXPECT_EQ(shards.are_cut(), inner / quant::block_values(format) >= ranks);
    if (!shards.are_cut()) continue;
    uint64_t next = 0;
    shards.each([&](const FeedForward& part, uint32_t rank) {
      EXPECT_EQ(columns(part.down, 0, part.down.cols), columns(f.down, next, part.down.cols));
      EXPECT_EQ(part.down_bias, rank == 0 ? f.down_bias : Vector());
      for (uint64_t i = 0; i < part.down.cols; ++i, ++next) {
        EXPECT_EQ(number(part.up, i), next);
        if (f.gate) {
          EXPECT_EQ(number(part.gate, i), next);
        }
        EXPECT_EQ(part.up_bias[i], float(next));
        EXPECT_EQ(part.gate_bias[i], float(next));
      }
    });
    EXPECT_EQ(next, inner);
  }
}

TEST(Shard, ExpertsOfMixtures) {
  uint32_t by_expert = 0, by_inner = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const uint32_t ranks = uint32_t(1 + random.up_to(4));
    const ShardOptions options{.expert_parallel = random.coin()};
    const Format format = random.format();
    const uint64_t inner = quant::block_values(format) * random.up_to(9), count = random.up_to(12);
    const bool one_stack = random.coin();
    Mixture m;
    m.router = random.numbered(count);
    m.up = {count, random.numbered(count * inner * (one_stack ? 2 : 1))};
    m.gate = one_stack ? m.up : Experts{count, random.numbered(count * inner)};
    if (one_stack) {
      m.gate.part = m.up.part = inner;
      m.up.first = inner;
    }
    m.down = {count, random.weights(format, count * width, inner)};
    m.gate_bias = m.up_bias = Random::numbers(count * inner);
    m.down_bias = Random::numbers(count * width);
    const Shards shards(random, m, ranks, options);
    if (!shards.are_cut()) {
      EXPECT_LT(std::max(count, inner / quant::block_values(format)), ranks);
      continue;
    }
    std::set<std::pair<uint64_t, uint64_t>> seen;  // expert and inner value
    shards.each([&](const Mixture& part, uint32_t rank) {
      EXPECT_EQ(part.router.rows, count);
      ASSERT_EQ(part.down.count, part.up.count);
      ASSERT_EQ(part.gate.count, part.up.count);
      const bool experts = part.up.count != count;
      (experts ? by_expert : by_inner) += rank == 0;
      if (options.expert_parallel && count >= ranks) {
        EXPECT_TRUE(experts || count < ranks);
      }
      if (!experts) {
        EXPECT_EQ(part.down_bias, rank == 0 ? m.down_bias : Vector());
      }
      for (uint64_t e = 0; e < part.up.count; ++e) {
        const uint64_t expert = part.first_expert + e;
        const Matrix up = part.up.expert(e), gate = part.gate.expert(e), down = part.down.expert(e);
        ASSERT_EQ(up.rows, down.cols);
        ASSERT_EQ(gate.rows, down.cols);
        if (experts) {
          EXPECT_EQ(part.down_bias[e * width], float(expert * width));
        }
        const uint64_t stride = one_stack ? 2 * inner : inner;
        const uint64_t first = number(gate, 0) - expert * stride;
        EXPECT_EQ(columns(down, 0, down.cols), columns(m.down.expert(expert), first, down.cols));
        for (uint64_t i = 0; i < down.cols; ++i) {
          EXPECT_TRUE(seen.emplace(expert, first + i).second) << "each inner value once";
          EXPECT_EQ(number(gate, i), expert * stride + first + i);
          EXPECT_EQ(number(up, i), expert * stride + first + i + (one_stack ? inner : 0));
          EXPECT_EQ(part.up_bias[e * down.cols + i], float(expert * inner + first + i));
          EXPECT_EQ(part.gate_bias[e * down.cols + i], float(expert * inner + first + i));
        }
      }
    });
    EXPECT_EQ(seen.size(), count * inner);
  }
  EXPECT_GT(by_expert, 15u);
  EXPECT_GT(by_inner, 15u);
}

TEST(Shard, ASharedExpertThatCannotBeCutIsOneRanks) {
  Random random(1);
  Mixture m;
  m.router = random.numbered(4);
  m.up = {4, random.numbered(4 * 96)};
  m.down = {4, random.weights(Format::q8_0, 4 * width, 96)};
  FeedForward& shared = m.shared.emplace();
  shared.up = random.numbered(32);
  shared.down = random.weights(Format::q8_0, width, 32);
  m.shared_router = Random::numbers(width);
  Shards(random, m, 2).each([&](const Mixture& part, uint32_t rank) {
    EXPECT_EQ(part.shared.has_value(), rank == 0);
    EXPECT_EQ(part.shared_router.empty(), rank != 0);
    EXPECT_TRUE(rank != 0 || part.shared->partial);
  });
  shared.output_norm.kind = Norm::Kind::rms;  // of all of its result, before it is added
  Shards(random, m, 2).each([&](const Mixture& part, uint32_t) { EXPECT_FALSE(part.shared.value().partial); });
  shared.up = random.numbered(64);
  shared.down = random.weights(Format::q8_0, width, 64);
  Shards(random, m, 2).each([&](const Mixture& part, uint32_t rank) {
    EXPECT_TRUE(part.shared.value().partial);
    EXPECT_EQ(number(part.shared->up, 0), rank * 32);
  });
}

TEST(Shard, HeadsWithAState) {
  uint32_t cut = 0, across = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    Random random(seed);
    const uint32_t ranks = uint32_t(1 + random.up_to(4));
    const Format format = random.format();
    Recurrence r;
    r.rule = random.coin() ? Recurrence::Rule::ssd : Recurrence::Rule::delta;
    r.tiled = random.coin();
    r.key_heads = uint32_t(random.up_to(6));
    r.heads = uint32_t(r.key_heads * random.up_to(6));
    r.key = uint32_t(random.up_to(5));
    r.value = uint32_t(quant::block_values(format) == 1 ? random.up_to(9) : random.from({32, 64, 128, 256}));
    if (r.values() % quant::block_values(format) != 0) continue;
    r.norm_size = random.coin() ? r.value : uint32_t(r.values() / (random.coin() ? 1 : r.key_heads));
    r.gated_norm = {
        .kind = random.coin() ? Norm::Kind::rms : Norm::Kind::none, .weight = Random::numbers(r.values()), .bias = {}};
    const uint64_t channels = r.values() + 2 * r.keys();
    r.mixed = random.numbered(channels);
    r.convolution = {2, Random::numbers(channels * 2), Random::numbers(channels)};
    r.gate = random.numbered(r.values());
    r.steps = random.numbered(r.heads);
    r.betas = random.numbered(r.heads);
    r.step_bias = r.rates = r.skip = Random::numbers(r.heads);
    r.output = random.weights(format, width, r.values());
    const Shards shards(random, r, ranks);
    if (!shards.are_cut()) continue;
    ++cut;
    std::set<uint64_t> heads;
    std::map<uint64_t, uint64_t> in_group;  // values that are normalised together
    shards.each([&](const Recurrence& part, uint32_t rank) {
      ASSERT_EQ(part.heads % part.key_heads, 0u);
      ASSERT_EQ(part.mixed.rows, part.values() + 2 * part.keys());
      ASSERT_EQ(part.convolution.channels(), part.mixed.rows);
      ASSERT_EQ(part.output.cols, part.values());
      if (const auto& norm = part.gated_norm.across) {
        across += rank == 0;
        EXPECT_EQ(norm->size, r.norm_size);
        EXPECT_EQ(norm->groups, r.values() / r.norm_size);
        EXPECT_EQ(part.norm_size, part.values());
        in_group[norm->group] += part.values();
      } else {
        EXPECT_EQ(part.norm_size, r.norm_size);
        if (r.gated_norm.kind != Norm::Kind::none) {
          EXPECT_EQ(part.values() % r.norm_size, 0u);
        }
      }
      for (uint64_t i = 0; i < part.mixed.rows; ++i) {
        const uint64_t row = number(part.mixed, i);
        EXPECT_EQ(part.convolution.weight[2 * i + 1], float(2 * row + 1));
        EXPECT_EQ(part.convolution.bias[i], float(row));
      }
      for (uint32_t h = 0; h < part.heads; ++h) {
        const uint64_t head = number(part.steps, h);
        EXPECT_TRUE(heads.insert(head).second) << "each head once";
        EXPECT_EQ(number(part.betas, h), head);
        for (const Vector* all : {&part.step_bias, &part.rates, &part.skip}) EXPECT_EQ((*all)[h], float(head));
        for (uint32_t i = 0; i < r.value; ++i) {
          const uint64_t at = uint64_t(h) * r.value + i, value = head * r.value + i;
          EXPECT_EQ(number(part.mixed, part.values_at() + at), r.values_at() + value);
          EXPECT_EQ(number(part.gate, at), value);
          EXPECT_EQ(part.gated_norm.weight[at], float(value));
          if (part.gated_norm.across) {
            EXPECT_EQ(value / r.norm_size, part.gated_norm.across->group);
          }
        }
        EXPECT_EQ(columns(part.output, uint64_t(h) * r.value, r.value), columns(r.output, head * r.value, r.value));
        const uint64_t own = uint64_t(part.key_head(h)) * r.key, key = uint64_t(r.key_head(uint32_t(head))) * r.key;
        EXPECT_EQ(number(part.mixed, part.keys_at() + own), r.keys_at() + key);
        EXPECT_EQ(number(part.mixed, part.queries_at() + own), r.queries_at() + key);
      }
    });
    EXPECT_EQ(heads.size(), r.heads);
    for (const auto& [group, values] : in_group) EXPECT_EQ(values, r.norm_size) << group;
  }
  EXPECT_GT(cut, 30u);
  EXPECT_GT(across, 4u);
}

TEST(Shard, ChannelsOfShortConvolutions) {
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    Random random(ranks);
    constexpr uint64_t channels = 160;
    ShortConvolution c;
    c.in = random.numbered(3 * channels);
    c.convolution = {3, Random::numbers(3 * channels), Random::numbers(channels)};
    c.output = random.weights(Format::q8_0, width, channels);
    const Shards shards(random, c, ranks);
    ASSERT_TRUE(shards.are_cut());
    uint64_t next = 0;
    shards.each([&](const ShortConvolution& part, uint32_t) {
      const uint64_t own = part.output.cols;
      EXPECT_EQ(columns(part.output, 0, own), columns(c.output, next, own));
      for (uint64_t i = 0; i < own; ++i, ++next) {
        for (uint64_t part_of_in = 0; part_of_in < 3; ++part_of_in)
          EXPECT_EQ(number(part.in, part_of_in * own + i), part_of_in * channels + next);
        EXPECT_EQ(part.convolution.weight[3 * i], float(3 * next));
        EXPECT_EQ(part.convolution.bias[i], float(next));
      }
    });
    EXPECT_EQ(next, channels);
  }
}

TEST(Shard, TheVocabularyIsCutByRows) {
  for (const uint64_t vocabulary : {2u, 7u, 100u, 333u}) {
    Random random(5);
    Model model = random.of(FeedForward());
    model.layers.clear();
    model.embedding = model.output = random.numbered(vocabulary);
    model.vocabulary = uint32_t(vocabulary);
    model.output_bias = Random::numbers(vocabulary);
    uint64_t next = 0;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const Model shard = shard_of(model, rank, 3);
      EXPECT_EQ(shard.embedding.rows, vocabulary);
      EXPECT_EQ(shard.vocabulary, vocabulary);
      EXPECT_EQ(is_shard(shard), vocabulary >= 3);
      if (vocabulary < 3) continue;
      ASSERT_EQ(shard.output_parts.size(), 3u);
      EXPECT_EQ(shard.output.rows, shard.output_parts[rank]);
      EXPECT_EQ(shard.output.data.data(), model.output.slice(next, 1).data.data()) << "a view";
      for (uint64_t i = 0; i < shard.output.rows; ++i, ++next) EXPECT_EQ(shard.output_bias[i], float(next));
    }
    EXPECT_EQ(next, vocabulary < 3 ? 0 : vocabulary);
  }
}

}  // namespace
}  // namespace heddle::model
