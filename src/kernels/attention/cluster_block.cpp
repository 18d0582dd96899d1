// The warps of a block of cluster_attention: one fetches K and V, the others compute; or all do both.
#include "kernels/attention/cluster_block.h"

#include <cmath>

#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

// The computing warps of cluster_attention. The matrix products have 16 rows: rows 0 to 7 are the query heads rounded
// to f16, rows 8 to 15 the rounding errors, so that a score is nearly as exact as in f32 at no cost; weights likewise.
// A q8 cache is read as int8 and becomes f16 in registers, see kv_cache.h.

namespace {

using ClusterArgs = ClusterAttention::Args;

// Weights and their sum are scaled by 2^14, so that small weights are not subnormal in f16.
constexpr float weight_bias = 14;
constexpr uint32_t computing_warps_meet = 1;  // a named barrier

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

// Bytes from the first scale to those of the kv head, which are addressed as in KvCache::k() and v().
U64 scales_before(ClusterBlock& b, const KvCache<ClusterArgs>& cache) {
  return (cache.k().base - b.k.arg(&ClusterArgs::k).base) >> 4u;
}
KvCache<ClusterArgs> cluster_cache(ClusterBlock& b) {
  U32 row = b.s.mapped ? load(b.k.arg(&ClusterArgs::sequence_of) + b.sequence) : b.sequence;
  return {b.k, b.s.layout, b.row_bytes(), row, b.kv_head};
}

// Copies by all threads of the block, where there are no bulk copies: the threads are divided among the 8 pieces.
class ClusterCopy {
 public:
  explicit ClusterCopy(ClusterBlock& block)
      : b_(block), k_(block.k), s_(block.s), cache_(cluster_cache(block)), members_(s_.warps * 4) {
    piece_ = k_.thread() / members_;
    member_ = k_.thread() % members_;
  }

  // One group of copies: stage i, if there is one. Rows without a position become zeros: their weight is 0, but 0 times
  // leftover bytes may be NaN.
  void stage(U32 i, U32 slot) {
    k_.when(i < b_.stage_count, [&] {
      U32 start = b_.begin + i * b_.positions(), mine = start + piece_ * s_.rows;
      auto before = [&](U32 position) {  // rows of the piece
        return select(position > mine, min(position - mine, s_.rows), 0u);
      };
      U32 past = before(b_.end), low = b_.limited() ? before(b_.first) : k_.constant(0u);
      Pred some = b_.limited() ? low < past : past > 0u;
      auto offset = k_.var(uint64_t(0));
      k_.when(some, [&] { offset = cache_.offset(mine); });
      const uint32_t row_chunks = b_.row_bytes() / 16, chunks = s_.rows * row_chunks;  // of 16 bytes
      auto to = b_.ring + (slot * s_.stage_bytes() + piece_ * b_.piece() + member_ * 16u);
      U64 from = offset.get() + widen(member_ * 16u);
      auto keys = cache_.k() + from, values = cache_.v() + from;
      for (uint32_t c = 0; c < chunks; c += members_) {
        U32 chunk = member_ + c;
        Pred real = chunk < past * row_chunks;
        if (b_.limited()) real = real && chunk >= low * row_chunks;
        U32 valid = select(real, k_.constant(16u), 0u);
        copy_async<16>(to.offset(c * 16), keys.offset(c * 16), valid);
        copy_async<16>(to.offset(8 * b_.piece() + c * 16), values.offset(c * 16), valid);
      }
      if (b_.q8()) scales(slot, offset.get() >> 4u, select(some, k_.constant(16u), 0u));
    });
    copy_commit(k_);
  }

 private:
  // Of whole pieces.
  void scales(U32 slot, U64 offset, U32 valid) {
    const uint32_t chunks = s_.rows * b_.scale_row() / 16;
    auto to = b_.ring + (slot * s_.stage_bytes() + piece_ * s_.scale_bytes() + member_ * 16u + b_.scales_at());
    for (uint32_t c = 0; c < chunks; c += members_)
      k_.when(member_ + c < chunks, [&] {
        U64 from = scales_before(b_, cache_) + offset + widen(member_ * 16u);
        auto one = [&](uint32_t at, Global<heddle::f16> all) {
          copy_async<16>(to.offset(at + c * 16), (all.as<uint8_t>() + from).offset(c * 16), valid);
        };
        one(0, k_.arg(&ClusterArgs::k_scale));
        one(8 * s_.scale_bytes(), k_.arg(&ClusterArgs::v_scale));
      });
  }

  ClusterBlock& b_;
  Builder<ClusterArgs>& k_;
  const ClusterAttention& s_;
  KvCache<ClusterArgs> cache_;
  const uint32_t members_;  // threads of a piece
  U32 piece_, member_;
};

class ClusterCompute {
 public:
  using Left = Tile<heddle::f16, 16, 16>;
  using Right = Tile<heddle::f16, 16, 8>;

  ClusterCompute(ClusterBlock& block, OnlineSoftmax& softmax, ClusterSums& sums)
      : b_(block), k_(block.k), s_(block.s), softmax_(softmax), out_(sums) {}

  void run() {
    auto q = q_row();
    if (s_.sinks) begin_with_sink();
    if (s_.slopes) slope_ = slope_of(load(k_.arg(&ClusterArgs::slopes) + query_head()));
    chain_wait(k_, s_.chained);
    if (!s_.q_bytes()) return all_stages(load_q(q));
    keep_q(q);
    all_stages({});
  }

 private:
  using Q = std::vector<Left>;
  using Sums = std::vector<Acc<float, 16, 8>>;  // tile 0 and tile 1, two sums each

  // That of row lane / 4.
  U32 query_head() { return b_.first_head + min(k_.lane() / 4u, b_.group - 1u); }
  // Of all warps that share the sequence one has the sink, and those that take its positions for other values.
  void begin_with_sink() {
    const F32 sink = load(k_.arg(&ClusterArgs::sinks) + query_head());
    k_.when(k_.warp() < s_.value_parts() && b_.rank == 0u && b_.cluster == 0u, [&] {
      softmax_.begin_with(sink, select(k_.lane() % 4u == 0u, k_.constant(std::exp2(weight_bias)), 0.0f));
    });
  }
  // Row lane / 4 of the left operand, for every 16 values of the head dimension.
  Global<float> q_row() {
    U32 head = query_head(), column = k_.lane() % 4u * (b_.q8() ? 4u : 2u);
    U32 given = k_.arg(&ClusterArgs::q_stride),
        stride = select(given == 0u, k_.arg(&ClusterArgs::heads) * s_.head_dim, given);
    return k_.arg(&ClusterArgs::q) + mul_wide(b_.sequence, stride) + (head * s_.head_dim + column);
  }
  Q load_q(Global<float> q) {
    std::vector<Vec<float, 2>> loaded;
    for (uint32_t i = 0; i < b_.dim_tiles(); ++i)
      loaded.push_back(load_vec<2>(q.offset(b_.q8() ? i / 2 * 16 + i % 2 * 2 : i * 8)));
    Q tiles;
    for (uint32_t i = 0; i < b_.dim_tiles(); i += 2) tiles.push_back(left_of(loaded[i], loaded[i + 1]));
    return tiles;
  }
  Left left_of(const Vec<float, 2>& first, const Vec<float, 2>& second) {
    Pred real = k_.lane() / 4u < b_.group;
    auto half = [&](const Vec<float, 2>& v) { return Halves(select(real, v[0], 0.0f), select(real, v[1], 0.0f)); };
    const Halves left = half(first), right = half(second);
    return {{left.high, left.low, right.high, right.low}};
  }
  // All warps have the same, and make some of it each.
  void keep_q(Global<float> q) {
    const uint32_t all = s_.head_dim / 16, second = b_.q8() ? 2 : 8;
    auto to = b_.q + k_.lane() * 4u;
    k_.loop(k_.warp(), k_.constant(all), s_.warps, [&](U32 i) {
      auto from = q + i * 16u;
      store_vec(to + i * 128u, Vec<uint32_t, 4>(left_of(load_vec<2>(from), load_vec<2>(from.offset(second))).reg));
    });
    if (b_.bulk())
      k_.barrier(computing_warps_meet, s_.warps * 32);
    else
      k_.barrier();
  }
  Left q_tile(const Q& q, uint32_t i) {
    if (!s_.q_bytes()) return q[i];
    return {load_vec<4>((b_.q + k_.lane() * 4u).offset(int64_t(i) * 128))};
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
    const uint32_t value_parts = s_.value_parts();
    if (value_parts > 1) v_at = v_at + k_.warp() % value_parts * (b_.row_bytes() / value_parts);
    U32 column = lane % 4u * (2 * s_.rows);  // this lane's columns are positions
    auto slot = k_.var(0u), parity = k_.var(0u);
    std::optional<ClusterCopy> copies;
    const uint32_t ahead = s_.stages - 1;
    if (!b_.bulk()) {
      copies.emplace(b_);
      for (uint32_t i = 0; i < ahead; ++i) copies->stage(k_.constant(i), k_.constant(i));
    }
    k_.loop(0u, b_.stage_count, 1u, [&](U32 i) {
      U32 here = slot.get();
      if (b_.bulk()) {
        Mbarrier{b_.full + here}.wait(k_, parity.get());
      } else {
        copy_wait(k_, ahead - 1);
        k_.barrier();  // the stage is there, and all warps are done with the one before it
        copies->stage(i + ahead, select(here == 0u, k_.constant(ahead), here - 1u));
      }
      auto stage = b_.ring + here * s_.stage_bytes();
      k_.loop(k_.warp() / value_parts * 2u, s_.rows, s_.warps / value_parts * 2, [&](U32 tile) {
        auto keys = stage + (k_at + tile * b_.row_bytes()), values = stage + (v_at + tile * b_.row_bytes());
        U32 position = b_.begin + (i * b_.positions() + column + tile);
        std::vector<Pred> counts;  // of the lane's columns: two of tile 0, two of tile 1
        before_.clear();
        for (uint32_t j = 0; j < 4; ++j) {
          U32 at = position + (j % 2 * s_.rows + j / 2);
          counts.push_back(b_.limited() ? at < b_.end && at >= b_.first : at < b_.end);
          if (s_.slopes) before_.push_back(to_f32(bitcast<int32_t>(b_.length - 1u - at)));
        }
        if (b_.q8()) {
          auto scales = stage + (tile * b_.scale_row() + b_.scales_at());
          auto weights = weigh(keys_q8(q, keys, scales), counts, score);
          return add_values_q8(weights, values, scales.offset(8 * s_.scale_bytes()), counts);
        }
        auto weights = weigh(keys_f16(q, keys), counts, score);
        for (uint32_t d = 0; d < b_.own_tiles(); d += 2) {
          auto v = load_matrices<4>(values.offset(d * 16), true);
          mma(out_[d], weights, Right{{v[0], v[1]}});
          mma(out_[d + 1], weights, Right{{v[2], v[3]}});
        }
      });
      if (b_.bulk()) Mbarrier{b_.free + here}.arrive();
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
    for (uint32_t d = 0; d < s_.head_dim / 16; ++d) {
      auto key = load_matrices<4>(keys.offset(d * 32));
      const Left left = q_tile(q, d);
      mma(sums[d % 2 * 2], left, Right{{key[0], key[1]}});
      mma(sums[d % 2 * 2 + 1], left, Right{{key[2], key[3]}});
    }
    return sums;
  }
  Sums keys_q8(const Q& q, Shared<uint8_t> keys, Shared<uint8_t> scales) {
    Sums sums = no_sums();
    std::vector<std::vector<F16>> scale;
    for (uint32_t tile = 0; tile < 2; ++tile)
      scale.push_back(
          row_scales(scales + (k_.lane() / 4u * s_.scale_bytes() + tile * b_.scale_row()), s_.head_dim / 32));
    for (uint32_t d = 0; d < s_.head_dim / 16; ++d) {
      const Left left = q_tile(q, d);
      for (uint32_t tile = 0; tile < 2; ++tile) {
        U32 word = load(keys.offset(tile * b_.row_bytes() + d * 16).as<uint32_t>());
        mma(sums[d % 2 * 2 + tile], left, Right{KvQ8Operands::keys(word, twice(scale[tile][d / 2]))});
      }
    }
    return sums;
  }
  void add_values_q8(const Left& weights, Shared<uint8_t> values, Shared<uint8_t> scales,
                     const std::vector<Pred>& counts) {
    // the lane's positions: rows `tile` of two neighbouring pieces, then the rows after these
    const uint32_t value_parts = s_.value_parts(), groups = s_.head_dim / 32 / value_parts;
    if (value_parts > 1) scales = scales + k_.warp() % value_parts * (groups * 2);
    std::vector<std::vector<F16>> scale;
    for (uint32_t j = 0; j < 4; ++j) {
      U32 at = (k_.lane() % 4u * 2u + j % 2) * s_.scale_bytes() + j / 2 * b_.scale_row();
      scale.push_back(row_scales(scales + at, groups));
    }
    const F16 zero = to_f16(k_.constant(0.0f));
    for (uint32_t block = 0; block < groups; ++block) {
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
  // The first scales of a position, or of a part of its values.
  std::vector<F16> row_scales(Shared<uint8_t> at, uint32_t count) {
    std::vector<F16> scales;
    for (uint32_t i = 0; i < count; ++i) {
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
        if (s_.slopes) s = sloped(s, slope_, before_[tile * 2 + column]);
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
  F32 slope_;                // slopes: of the lane's head
  std::vector<F32> before_;  // slopes: how far the lane's columns are before the newest position
};

}  // namespace

void cluster_compute(ClusterBlock& block, OnlineSoftmax& softmax, ClusterSums& sums) {
  ClusterCompute(block, softmax, sums).run();
}

// The fetching warp of cluster_attention: one bulk copy per piece, several stages ahead of the computing warps. In a
// chain it begins before the kernels ahead have ended, with all positions but the newest.

namespace {

using ClusterArgs = ClusterAttention::Args;

class ClusterFetch {
 public:
  explicit ClusterFetch(ClusterBlock& block) : b_(block), k_(block.k), s_(block.s), cache_(cluster_cache(block)) {}

  void run() {
    U32 start = k_.constant(0u);
    if (b_.fetches_early()) {
      U32 early = min(b_.stage_count, s_.stages);
      fetch(start, early, true);
      if (s_.ahead) bring_to_l2(early);
      wait_and_add_newest();
      start = early;
    } else {
      chain_wait(k_, s_.chained);
    }
    if (s_.chained) fence_async(k_);  // new positions were written by ordinary stores
    fetch(start, b_.stage_count, false);
  }

 private:
  // Stages from ... to - 1: lanes 0 to 7 take a piece of K each, lanes 8 to 15 of V, the others of their scales. With
  // `early` the sequence's newest position is skipped, with the scales of its piece and the arrival at the barrier of
  // its stage.
  void fetch(U32 from, U32 to, bool early) {
    U32 lane = k_.lane(), mine = (lane & 7u) * s_.rows;
    Pred is_k = (lane & 8u) == 0u;
    Global<uint8_t> source{select(is_k, cache_.k().base, cache_.v().base)};
    U64 scales = b_.q8() ? scales_of(is_k) : source.base;
    U32 end = early ? min(b_.end, b_.length - 1u) : b_.end;
    k_.loop(from, to, 1u, [&](U32 i) {
      U32 slot = i % s_.stages, turn = i / s_.stages;
      Mbarrier full{b_.full + slot}, free{b_.free + slot};
      if (!early) k_.when(turn > 0u, [&] { free.wait(k_, (turn - 1u) & 1u); });
      U32 start = b_.begin + i * b_.positions();
      auto keys = b_.ring + slot * s_.stage_bytes();
      // rows low to high - 1 of the stage have positions; those from `stop` on are fetched later
      U32 high = min(b_.end - start, b_.positions()), stop = early ? min(end - start, b_.positions()) : high;
      U32 low = b_.limited() ? select(b_.first > start, min(b_.first - start, b_.positions()), 0u) : k_.constant(0u);
      U32 here = max(mine, low), last = min(mine + s_.rows, stop);
      k_.when(lane < 16u && here < last, [&] {
        auto to_piece = keys + (lane * b_.piece() + (here - mine) * b_.row_bytes());
        bulk_load(to_piece, source + cache_.offset(start + here), (last - here) * b_.row_bytes(), full);
      });
      U32 bytes = (stop - low) * (2 * b_.row_bytes());
      if (b_.q8()) {
        // whole pieces: a row's scales are no multiple of 16 bytes
        U32 pieces = (high + (s_.rows - 1)) / s_.rows - low / s_.rows;
        Pred wanted = mine < high && mine + s_.rows > low;
        if (early) {
          Pred later = stop < high;  // the newest position is in this stage, and in row `stop` of it
          wanted = wanted && !(later && stop / s_.rows == (lane & 7u));
          pieces = pieces - select(later, k_.constant(1u), 0u);
        }
        k_.when(lane >= 16u && wanted, [&] {
          auto to_piece = keys + ((lane - 16u) * s_.scale_bytes() + b_.scales_at());
          bulk_load(to_piece, Global<uint8_t>{scales} + (cache_.offset(start + mine) >> 4u), s_.rows * b_.scale_row(),
                    full);
        });
        bytes = bytes + pieces * (2 * s_.rows * b_.scale_row());
      }
      Pred partial = high < b_.positions();
      if (b_.limited()) partial = partial || low > 0u;
      k_.when(partial, [&] {
        clear(keys, high, k_.constant(b_.positions()));
        if (b_.limited()) clear(keys, k_.constant(0u), low);
        fence_async_shared(k_);  // orders these writes before the next copy to the same place
      });
      // Every lane arrives for its own writes, and lane 0 expects the bytes of the copies.
      auto arrive = [&] {
        k_.when_else(
            lane == 0u, [&] { full.arrive_expect_bytes(bytes); }, [&] { full.arrive(); });
      };
      if (!early) return arrive();
      k_.when_else(stop == high, arrive, [&] { k_.when(lane == 0u, [&] { full.expect_bytes(bytes); }); });
    });
  }

  // Padding rows of a stage become 0: their weight is 0, but 0 times leftover bytes may be NaN. So do the scales of
  // pieces that are all padding.
  void clear(Shared<uint8_t> keys, U32 begin, U32 past) {
    auto zeros = [&](U32 from, U32 to, uint32_t words, uint32_t to_v, auto&& at) {
      k_.loop(from * words + k_.lane(), to * words, 32u, [&](U32 j) {
        U32 zero = k_.constant(0u);
        auto place = keys + (at(j / words) + j % words * 16u);
        for (uint32_t of_v : {0u, to_v})
          store_vec(place.offset(of_v).template as<uint32_t>(), Vec<uint32_t, 4>{zero, zero, zero, zero});
      });
    };
    zeros(begin, past, b_.row_bytes() / 16, 8 * b_.piece(), [&](U32 row) { return row_at(row); });
    if (b_.q8())
      zeros((begin + (s_.rows - 1)) / s_.rows, past / s_.rows, s_.rows * b_.scale_row() / 16, 8 * s_.scale_bytes(),
            [&](U32 of_piece) { return of_piece * s_.scale_bytes() + b_.scales_at(); });
  }

  // Prefetches to L2 what will be fetched first after the wait.
  void bring_to_l2(U32 from) {
    U32 to = min(from + s_.ahead, b_.stage_count);
    const uint32_t lines = (b_.row_bytes() + 127) / 128;
    k_.loop(b_.begin + from * b_.positions() + k_.lane(), min(b_.begin + to * b_.positions(), b_.length - 1u), 32u,
            [&](U32 at) {
              U64 offset = cache_.offset(at);
              for (auto source : {cache_.k(), cache_.v()})
                for (uint32_t i = 0; i < lines; ++i) prefetch((source + offset).offset(i * 128));
            });
  }

  // Where a row of a stage begins, from the start of its keys.
  U32 row_at(U32 row) { return row / s_.rows * b_.piece() + row % s_.rows * b_.row_bytes(); }
  U64 scales_of(Pred is_k) {
    return select(is_k, k_.arg(&ClusterArgs::k_scale).base, k_.arg(&ClusterArgs::v_scale).base) +
           scales_before(b_, cache_);
  }

  // Waits for the kernels before this one and brings the newest position into its stage, if that was fetched early.
  // Ordinary loads: for one row they are faster than a copy.
  void wait_and_add_newest() {
    const uint32_t words = b_.row_bytes() / 16, scale_words = b_.q8() ? s_.rows * b_.scale_row() / 16 : 0;
    const uint32_t all = 2 * (words + scale_words), rounds = (all + 31) / 32;
    U32 at = b_.length - 1u - b_.begin, stage = at / b_.positions(), in_stage = at % b_.positions();
    auto offset = k_.var(uint64_t(0));
    k_.when(b_.newest_early, [&] { offset = cache_.offset(b_.length - 1u); });
    auto keys = b_.ring + stage * s_.stage_bytes();
    std::vector<Pred> real;
    std::vector<Global<uint32_t>> from;
    std::vector<Shared<uint32_t>> to;
    for (uint32_t i = 0; i < rounds; ++i) {
      U32 word = k_.lane() + i * 32, in_row = select(word < words, word, word - words) * 16u;
      Pred is_k = word < words;
      U64 base = select(is_k, cache_.k().base, cache_.v().base) + offset.get();
      U32 place = row_at(in_stage) + select(is_k, in_row, in_row + 8 * b_.piece());
      if (b_.q8()) {  // then the scales of its piece
        U32 more = word - 2 * words, in_piece = select(more < scale_words, more, more - scale_words) * 16u;
        Pred is_scale = word >= 2 * words, of_k = more < scale_words;
        U32 place_of = in_stage / s_.rows * s_.scale_bytes() + in_piece + b_.scales_at();
        U64 first = offset.get() - widen(in_stage % s_.rows * b_.row_bytes());  // row of the piece
        base = select(is_scale, scales_of(of_k) + (first >> 4u), base);
        place = select(is_scale, select(of_k, place_of, place_of + 8 * s_.scale_bytes()), place);
        in_row = select(is_scale, in_piece, in_row);
      }
      real.push_back(b_.newest_early && word < all);
      from.push_back((Global<uint8_t>{base} + in_row).as<uint32_t>());
      to.push_back((keys + place).as<uint32_t>());
    }
    chain_wait(k_, s_.chained);
    for (uint32_t i = 0; i < rounds; ++i) k_.when(real[i], [&] { store_vec(to[i], load_vec<4>(from[i])); });
    k_.when(b_.newest_early, [&] { Mbarrier{b_.full + stage}.arrive(); });
  }

  ClusterBlock& b_;
  Builder<ClusterArgs>& k_;
  const ClusterAttention& s_;
  KvCache<ClusterArgs> cache_;
};

}  // namespace

void cluster_fetch(ClusterBlock& block) { ClusterFetch(block).run(); }

}  // namespace heddle::kernels
