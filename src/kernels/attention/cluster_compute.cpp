// The computing warps of cluster_attention. The matrix products have 16 rows: rows 0 to 7 are the query heads rounded
// to f16, rows 8 to 15 the rounding errors, so that a score is nearly as exact as in f32 at no cost; weights likewise.
// A q8 cache is read as int8 and becomes f16 in registers, see kv_q8.h.
#include "kernels/attention/cluster_block.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ClusterArgs = ClusterAttention::Args;

// Weights and their sum are scaled by 2^14, so that small weights are not subnormal in f16.
constexpr float weight_bias = 14;

// Two f32 values as operands of the matrix unit: rounded to f16, and the rounding error.
struct Halves {
  U32 high, low;
  Halves(F32 a, F32 b) {
    F16x2 rounded = to_f16x2(a, b);
    auto [ra, rb] = unpack<heddle::f16>(rounded);
    high = bitcast<uint32_t>(rounded);
    low = bitcast<uint32_t>(to_f16x2(a - to_f32(ra), b - to_f32(rb)));
  }
};

class ClusterCompute {
 public:
  using Left = Tile<heddle::f16, 16, 16>;
  using Right = Tile<heddle::f16, 16, 8>;

  ClusterCompute(ClusterBlock& block, OnlineSoftmax& softmax, ClusterSums& sums)
      : b_(block), k_(block.k), s_(block.s), softmax_(softmax), out_(sums) {}

  void run() {
    auto q = q_row();
    chain_wait(k_, s_.chained);
    all_stages(load_q(q));
  }

 private:
  using Q = std::vector<Left>;
  using Sums = std::vector<Acc<float, 16, 8>>;  // tile 0 and tile 1, two sums each

  // Row lane / 4 of the left operand, for every 16 values of the head dimension.
  Global<float> q_row() {
    U32 head = b_.kv_head * b_.group + min(k_.lane() / 4u, b_.group - 1u),
        column = k_.lane() % 4u * (b_.q8() ? 4u : 2u);
    U32 given = k_.arg(&ClusterArgs::q_stride),
        stride = select(given == 0u, k_.arg(&ClusterArgs::heads) * s_.head_dim, given);
    return k_.arg(&ClusterArgs::q) + mul_wide(b_.sequence, stride) + (head * s_.head_dim + column);
  }
  Q load_q(Global<float> q) {
    Pred real = k_.lane() / 4u < b_.group;
    std::vector<Vec<float, 2>> loaded;
    for (uint32_t i = 0; i < b_.dim_tiles(); ++i)
      loaded.push_back(load_vec<2>(q.offset(b_.q8() ? i / 2 * 16 + i % 2 * 2 : i * 8)));
    Q tiles;
    for (uint32_t i = 0; i < b_.dim_tiles(); i += 2) {
      auto half = [&](const Vec<float, 2>& v) { return Halves(select(real, v[0], 0.0f), select(real, v[1], 0.0f)); };
      const Halves left = half(loaded[i]), right = half(loaded[i + 1]);
      tiles.push_back({{left.high, left.low, right.high, right.low}});
    }
    return tiles;
  }

  void all_stages(const Q& q) {
    U32 lane = k_.lane();
    const Score score = s_.softcap ? Score(k_.arg(&ClusterArgs::scale), k_.arg(&ClusterArgs::softcap))
                                   : Score(k_.arg(&ClusterArgs::scale));
    // the address that this lane gives to ldmatrix: row lane % 8 of matrix lane / 8
    U32 in_piece = lane % 8u * b_.piece(), odd = lane / 8u % 2u, upper = lane / 16u;
    U32 k_at = in_piece + upper * b_.row_bytes() + odd * 16u;                   // matrices: tile 0, 0, 1, 1
    U32 v_at = in_piece + odd * b_.row_bytes() + upper * 16u + 8 * b_.piece();  // matrices: tile 0, 1, 0, 1
    if (b_.q8()) {  // a word of a row: of the lane's column of K, of the first of its rows of V
      k_at = lane / 4u * b_.piece() + lane % 4u * 4u;
      v_at = lane % 4u * (2 * b_.piece()) + lane / 4u * 4u + 8 * b_.piece();
    }
    U32 column = lane % 4u * (2 * s_.rows);  // this lane's columns are positions
    auto slot = k_.var(0u), parity = k_.var(0u);
    k_.loop(0u, b_.stage_count, 1u, [&](U32 i) {
      U32 here = slot.get();
      Mbarrier{b_.full + here}.wait(k_, parity.get());
      auto stage = b_.ring + here * s_.stage_bytes();
      k_.loop(k_.warp() * 2u, s_.rows, s_.warps * 2, [&](U32 tile) {
        auto keys = stage + (k_at + tile * b_.row_bytes()), values = stage + (v_at + tile * b_.row_bytes());
        U32 position = b_.begin + (i * b_.positions() + column + tile);
        std::vector<Pred> counts;  // of the lane's columns: two of tile 0, two of tile 1
        for (uint32_t j = 0; j < 4; ++j) {
          U32 at = position + (j % 2 * s_.rows + j / 2);
          counts.push_back(s_.window ? at < b_.end && at >= b_.first : at < b_.end);
        }
        if (b_.q8()) {
          auto scales = stage + (tile * b_.scale_row() + b_.scales_at());
          auto weights = weigh(keys_q8(q, keys, scales), counts, score);
          return add_values_q8(weights, values, scales.offset(8 * s_.scale_bytes()), counts);
        }
        auto weights = weigh(keys_f16(q, keys), counts, score);
        for (uint32_t d = 0; d < b_.dim_tiles(); d += 2) {
          auto v = load_matrices<4>(values.offset(d * 16), true);
          mma(out_[d], weights, Right{{v[0], v[1]}});
          mma(out_[d + 1], weights, Right{{v[2], v[3]}});
        }
      });
      Mbarrier{b_.free + here}.arrive();
      Pred wrap = here == s_.stages - 1;
      slot = select(wrap, k_.constant(0u), here + 1u);
      parity = select(wrap, parity.get() ^ 1u, parity.get());
    });
  }

  // Products of q with two tiles of keys. Two sums per tile, so that the chain of dependent products is half as long.
  Sums no_sums() {
    Sums sums;
    for (uint32_t i = 0; i < 4; ++i) sums.emplace_back(k_);
    return sums;
  }
  Sums keys_f16(const Q& q, Shared<uint8_t> keys) {
    Sums sums = no_sums();
    for (uint32_t d = 0; d < q.size(); ++d) {
      auto key = load_matrices<4>(keys.offset(d * 32));
      mma(sums[d % 2 * 2], q[d], Right{{key[0], key[1]}});
      mma(sums[d % 2 * 2 + 1], q[d], Right{{key[2], key[3]}});
    }
    return sums;
  }
  Sums keys_q8(const Q& q, Shared<uint8_t> keys, Shared<uint8_t> scales) {
    Sums sums = no_sums();
    std::vector<std::vector<F16>> scale;
    for (uint32_t tile = 0; tile < 2; ++tile)
      scale.push_back(row_scales(scales + (k_.lane() / 4u * s_.scale_bytes() + tile * b_.scale_row())));
    for (uint32_t d = 0; d < q.size(); ++d)
      for (uint32_t tile = 0; tile < 2; ++tile) {
        U32 word = load(keys.offset(tile * b_.row_bytes() + d * 16).as<uint32_t>());
        mma(sums[d % 2 * 2 + tile], q[d], Right{KvQ8Operands::keys(word, twice(scale[tile][d / 2]))});
      }
    return sums;
  }
  void add_values_q8(const Left& weights, Shared<uint8_t> values, Shared<uint8_t> scales,
                     const std::vector<Pred>& counts) {
    // the lane's positions: rows `tile` of two neighbouring pieces, then the rows after these
    std::vector<std::vector<F16>> scale;
    for (uint32_t j = 0; j < 4; ++j) {
      U32 at = (k_.lane() % 4u * 2u + j % 2) * s_.scale_bytes() + j / 2 * b_.scale_row();
      scale.push_back(row_scales(scales + at));
    }
    const F16 zero = to_f16(k_.constant(0.0f));
    for (uint32_t block = 0; block < s_.head_dim / 32; ++block) {
      std::array<U32, 4> words;
      std::array<F16, 4> own;
      for (uint32_t j = 0; j < 4; ++j) {
        words[j] = load(values.offset(j % 2 * b_.piece() + j / 2 * b_.row_bytes() + block * 32).as<uint32_t>());
        own[j] = select(counts[j], scale[j][block], zero);  // the scale of a padding row is undefined
      }
      const auto regs = KvQ8Operands::values(words, {pack<f16x2>(own[0], own[1]), pack<f16x2>(own[2], own[3])});
      for (uint32_t j = 0; j < 4; ++j) mma(out_[block * 4 + j], weights, Right{regs[j]});
    }
  }
  // All scales of a position.
  std::vector<F16> row_scales(Shared<uint8_t> at) {
    std::vector<F16> scales;
    for (uint32_t i = 0; i < s_.head_dim / 32; ++i) {
      if (s_.head_dim % 64) {
        scales.push_back(load(at.offset(i * 2).as<heddle::f16>()));
      } else if (i % 2 == 0) {
        auto [low, high] = unpack<heddle::f16>(load(at.offset(i * 2).as<uint32_t>()));
        scales.push_back(low);
        scales.push_back(high);
      }
    }
    return scales;
  }

  // The weights of two tiles as the left operand of the second product.
  Left weigh(const Sums& sums, const std::vector<Pred>& counts, const Score& score) {
    std::vector<F32> scores;  // tile 0, then tile 1; a lane has two columns of each
    for (uint32_t tile = 0; tile < 2; ++tile)
      for (uint32_t column = 0; column < 2; ++column) {
        auto sum = [&](uint32_t row) { return sums[tile].get(row + column) + sums[tile + 2].get(row + column); };
        F32 s = score.of((sum(0) + sum(2)) * score.q_factor);
        scores.push_back(select(counts[tile * 2 + column], s, OnlineSoftmax::masked));
      }
    F32 top = max(max(scores[0], scores[1]), max(scores[2], scores[3]));
    for (uint32_t distance : {1u, 2u}) top = max(top, shuffle_xor(top, distance));
    F32 old = softmax_.max.get();
    k_.when(vote_any(top > old), [&] {
      F32 shrink = softmax_.raise(max(old, top));
      for (auto& tile : out_)
        for (auto& v : tile.var) v *= shrink;
    });
    F32 base = softmax_.max.get() - weight_bias;
    std::vector<F32> weights;
    for (F32 s : scores) {
      weights.push_back(ex2_approx_ftz(s - base));
      softmax_.sum += weights.back();
    }
    const Halves left(weights[0], weights[1]), right(weights[2], weights[3]);
    return {{left.high, left.low, right.high, right.low}};
  }

  ClusterBlock& b_;
  Builder<ClusterArgs>& k_;
  const ClusterAttention& s_;
  OnlineSoftmax& softmax_;
  ClusterSums& out_;
};

}  // namespace

void cluster_compute(ClusterBlock& block, OnlineSoftmax& softmax, ClusterSums& sums) {
  ClusterCompute(block, softmax, sums).run();
}

}  // namespace heddle::kernels
