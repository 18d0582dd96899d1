// Attention by a cluster of blocks. The matrix products have 16 rows: rows 0 to 7 are the query heads rounded to f16,
// rows 8 to 15 what the rounding lost, so that a score is nearly as exact as in f32 at no cost; weights likewise.
//
// A stage of the ring is 8 pieces of `rows` neighbouring positions, one bulk copy each. Bulk copies cannot swizzle, but
// a piece is 16 bytes longer than its rows, so that the same row of all 8 pieces lies in different banks: those 8
// positions are the 8 x 8 matrices that ldmatrix takes ("tile" below), free of conflicts. Which position is which
// column of a product does not matter as long as K and V agree. A q8 cache comes as int8 and becomes f16 in registers,
// see kv_q8.h; its scales lie behind the pieces, those of all rows of a piece whether they count or not.
#include "kernels/attention/cluster_attention.h"

#include <algorithm>

#include "kernels/attention/kv_q8.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ClusterArgs = ClusterAttention::Args;

// Weights are 2^14 times too large, their sum too: the smallest that count are then no subnormal halves.
constexpr float weight_bias = 14;

// The products of f32 values with what the matrix unit takes: rounded, and the rest.
struct Halves {
  U32 high, low;
  Halves(F32 a, F32 b) {
    F16x2 rounded = to_f16x2(a, b);
    auto [ra, rb] = unpack<heddle::f16>(rounded);
    high = bitcast<uint32_t>(rounded), low = bitcast<uint32_t>(to_f16x2(a - to_f32(ra), b - to_f32(rb)));
  }
};

// How many times 4 values of a head are a block's to finish, at most: its tiles are of 8.
uint32_t items_per_head(const ClusterAttention& s) { return (s.head_dim / 8 + s.splits - 1) / s.splits * 2; }

class Cluster {
 public:
  explicit Cluster(const ClusterAttention& spec)
      : s_(spec), k_(std::string(spec.name), {.threads = spec.warps * 32 + 32, .cluster = spec.splits}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    sequence_ = s_.splits > 1 ? k_.special(Special::clusterid_y) : k_.block_y();
    // without sequences too: the kernels after this one count on it having waited
    k_.when_else(
        sequence_ < k_.arg(&ClusterArgs::sequences), [&] { body(); }, [&] { chain_wait(k_, s_.chained); });
    return k_.finish();
  }

 private:
  bool q8() const { return s_.kv == kv_q8; }
  bool fetches_early() const { return s_.chained && !s_.fresh; }
  uint32_t row_bytes() const { return s_.row_bytes(); }
  uint32_t piece() const { return s_.piece_bytes(); }
  uint32_t scales_at() const { return 16 * piece(); }      // in a stage: of K, then of V
  uint32_t scale_row() const { return s_.head_dim / 16; }  // bytes of a position's scales
  uint32_t positions() const { return 8 * s_.rows; }       // of a stage
  uint32_t dim_tiles() const { return s_.head_dim / 8; }
  uint32_t parts() const { return s_.splits * s_.warps; }  // that are merged at the end
  // 8 values of the output are one block's to finish, and then the next 8 the next block's.
  uint32_t tiles_here() const { return items_per_head(s_) / 2; }

  void body() {
    rank_ = s_.splits > 1 ? k_.cluster_rank() : k_.constant(0u);
    group_ = k_.arg(&ClusterArgs::heads) / k_.arg(&ClusterArgs::kv_heads);
    kv_head_ = k_.block_id() / s_.splits;
    cluster_ = !s_.merge ? k_.constant(0u) : s_.splits > 1 ? k_.special(Special::clusterid_z) : k_.block_z();
    ring_ = k_.shared<uint8_t>(s_.stages * s_.stage_bytes(), 128);
    full_ = k_.shared<uint64_t>(s_.stages, 8), free_ = k_.shared<uint64_t>(s_.stages, 8);
    states_ = k_.shared<float>(parts() * 16);
    values_ = k_.shared<float>(tiles_here() * parts() * part_row);
    share_out();

    OnlineSoftmax softmax(k_, 0);
    std::vector<Acc<float, 16, 8>> out;
    for (uint32_t i = 0; i < dim_tiles(); ++i) out.emplace_back(k_);

    if (s_.splits > 1) k_.cluster_arrive(Order::relaxed);  // waited for before the first write to another block
    k_.when(k_.thread() == 0u, [&] {
      for (uint32_t i = 0; i < s_.stages; ++i)
        Mbarrier{full_.offset(i)}.init(32u), Mbarrier{free_.offset(i)}.init(s_.warps * 32);
      fence_mbarrier_init(k_);
    });
    k_.barrier();
    k_.when_else(
        k_.warp() == s_.warps,
        [&] {
          U32 of_table = s_.mapped ? load(k_.arg(&ClusterArgs::sequence_of) + sequence_) : sequence_;
          KvCache<ClusterArgs> cache(k_, s_.layout, row_bytes(), of_table, kv_head_);
          U32 start = k_.constant(0u);
          if (fetches_early()) {
            U32 early = min(stage_count_, s_.stages);
            fetch(cache, start, early, true);
            if (s_.ahead) bring_to_l2(cache, early);
            wait_and_add_newest(cache);
            start = early;
          } else {
            chain_wait(k_, s_.chained);
          }
          if (s_.chained) fence_async(k_);  // new positions were written by ordinary stores
          fetch(cache, start, stage_count_, false);
        },
        [&] {
          auto q = q_row();
          chain_wait(k_, s_.chained);
          compute(load_q(q), softmax, out);
        });
    if (s_.splits > 1) k_.cluster_wait();
    k_.when(k_.warp() < s_.warps, [&] { hand_over(softmax, out); });
    if (s_.splits > 1)
      k_.cluster_barrier();
    else
      k_.barrier();
    finish();
  }

  // This block's positions: begin_ (a multiple of 16) to end_, less those before first_. Shares are equal to 16
  // positions, so a piece lies in one page.
  void share_out() {
    length_ = k_.arg(&ClusterArgs::length);
    if (s_.length == length_indirect)
      length_ = k_.assume_uniform(bitcast<uint32_t>(load(k_.arg(&ClusterArgs::lengths) + sequence_)), Uniform::cluster);
    first_ = s_.window ? length_ - min(length_, k_.arg(&ClusterArgs::window)) : k_.constant(0u);
    U32 start = first_ & ~15u, units = (length_ - start + 15u) / 16u;
    U32 blocks = s_.merge ? k_.arg(&ClusterArgs::clusters) * s_.splits : k_.constant(s_.splits);
    U32 block = cluster_ * s_.splits + rank_, share = units / blocks, rest = units - share * blocks;
    U32 before = block * share + min(block, rest);  // the first `rest` blocks have one unit more
    begin_ = start + before * 16u;
    end_ = min(start + (before + share + select(block < rest, k_.constant(1u), k_.constant(0u))) * 16u, length_);
    // a share of nothing is at the end, and its begin may be behind it
    U32 count = select(end_ > begin_, end_ - begin_, 0u);
    stage_count_ = (count + (positions() - 1)) / positions();
    newest_early_ = end_ == length_ && count > 0u && stage_count_ <= s_.stages;
  }

  // Stages from ... to - 1, by the fetching warp: lanes 0 to 7 a piece of K each, lanes 8 to 15 of V, the others of
  // their scales. With `early` the sequence's newest position is left out (with the scales of its piece), and so is the
  // arrival at the barrier of its stage.
  void fetch(const KvCache<ClusterArgs>& cache, U32 from, U32 to, bool early) {
    U32 lane = k_.lane(), mine = (lane & 7u) * s_.rows;
    Pred is_k = (lane & 8u) == 0u;
    Global<uint8_t> source{select(is_k, cache.k().base, cache.v().base)};
    U64 scales = q8() ? scales_of(cache, is_k) : source.base;
    U32 end = early ? min(end_, length_ - 1u) : end_;
    k_.loop(from, to, 1u, [&](U32 i) {
      U32 slot = i % s_.stages, turn = i / s_.stages;
      Mbarrier full{full_ + slot}, free{free_ + slot};
      if (!early) k_.when(turn > 0u, [&] { free.wait(k_, (turn - 1u) & 1u); });
      U32 start = begin_ + i * positions();
      auto keys = ring_ + slot * s_.stage_bytes();
      // rows low ... high - 1 of the stage exist, those from `stop` come later
      U32 high = min(end_ - start, positions()), stop = early ? min(end - start, positions()) : high;
      U32 low = s_.window ? select(first_ > start, min(first_ - start, positions()), 0u) : k_.constant(0u);
      U32 here = max(mine, low), last = min(mine + s_.rows, stop);
      k_.when(lane < 16u && here < last, [&] {
        auto to_piece = keys + (lane * piece() + (here - mine) * row_bytes());
        bulk_load(to_piece, source + cache.offset(start + here), (last - here) * row_bytes(), full);
      });
      U32 bytes = (stop - low) * (2 * row_bytes());
      if (q8()) {
        // whole pieces: a row's scales are no multiple of 16 bytes
        U32 pieces = (high + (s_.rows - 1)) / s_.rows - low / s_.rows;
        Pred wanted = mine < high && mine + s_.rows > low;
        if (early) {
          Pred later = stop < high;  // the newest position is in this stage, and in row `stop` of it
          wanted = wanted && !(later && stop / s_.rows == (lane & 7u));
          pieces = select(later, pieces - 1u, pieces);
        }
        k_.when(lane >= 16u && wanted, [&] {
          auto to_piece = keys + ((lane - 16u) * s_.scale_bytes() + scales_at());
          bulk_load(to_piece, Global<uint8_t>{scales} + (cache.offset(start + mine) >> 4u), s_.rows * scale_row(),
                    full);
        });
        bytes = bytes + pieces * (2 * s_.rows * scale_row());
      }
      Pred partial = high < positions();
      if (s_.window) partial = partial || low > 0u;
      k_.when(partial, [&] {
        clear(keys, high, k_.constant(positions()));
        if (s_.window) clear(keys, k_.constant(0u), low);
        fence_async_shared(k_);  // the next copy to this place comes after these writes
      });
      // Every lane arrives for what it wrote, and lane 0 says what the copies bring.
      auto arrive = [&] {
        k_.when_else(
            lane == 0u, [&] { full.arrive_expect_bytes(bytes); }, [&] { full.arrive(); });
      };
      if (!early) return arrive();
      k_.when_else(stop == high, arrive, [&] { k_.when(lane == 0u, [&] { full.expect_bytes(bytes); }); });
    });
  }
  // Rows of a stage that do not exist are 0: their weight is 0, but 0 times what happened to lie there may be a NaN. So
  // are the scales of pieces of which no row exists.
  void clear(Shared<uint8_t> keys, U32 begin, U32 past) {
    auto zeros = [&](U32 from, U32 to, uint32_t words, uint32_t to_v, auto&& at) {
      k_.loop(from * words + k_.lane(), to * words, 32u, [&](U32 j) {
        U32 zero = k_.constant(0u);
        auto place = keys + (at(j / words) + j % words * 16u);
        for (uint32_t of_v : {0u, to_v})
          store_vec(place.offset(of_v).template as<uint32_t>(), Vec<uint32_t, 4>{zero, zero, zero, zero});
      });
    };
    zeros(begin, past, row_bytes() / 16, 8 * piece(), [&](U32 row) { return row_at(row); });
    if (q8())
      zeros((begin + (s_.rows - 1)) / s_.rows, past / s_.rows, s_.rows * scale_row() / 16, 8 * s_.scale_bytes(),
            [&](U32 of_piece) { return of_piece * s_.scale_bytes() + scales_at(); });
  }
  // What the fetching warp will ask for first after the wait.
  void bring_to_l2(const KvCache<ClusterArgs>& cache, U32 from) {
    U32 to = min(from + s_.ahead, stage_count_);
    const uint32_t lines = (row_bytes() + 127) / 128;
    k_.loop(begin_ + from * positions() + k_.lane(), min(begin_ + to * positions(), length_ - 1u), 32u, [&](U32 at) {
      U64 offset = cache.offset(at);
      for (auto source : {cache.k(), cache.v()})
        for (uint32_t i = 0; i < lines; ++i) prefetch((source + offset).offset(i * 128));
    });
  }

  // Where a row of a stage begins, from the start of its keys.
  U32 row_at(U32 row) { return row / s_.rows * piece() + row % s_.rows * row_bytes(); }
  // Of the kv head, as KvCache::k() and v() are.
  U64 scales_of(const KvCache<ClusterArgs>& cache, Pred is_k) {
    U64 before = (cache.k().base - k_.arg(&ClusterArgs::k).base) >> 4u;
    return select(is_k, k_.arg(&ClusterArgs::k_scale).base, k_.arg(&ClusterArgs::v_scale).base) + before;
  }

  // Waits for the kernels before this one and brings the newest position into its stage, if that was fetched early.
  // Ordinary loads: for one row they are faster than a copy.
  void wait_and_add_newest(const KvCache<ClusterArgs>& cache) {
    const uint32_t words = row_bytes() / 16, scale_words = q8() ? s_.rows * scale_row() / 16 : 0;
    const uint32_t all = 2 * (words + scale_words), rounds = (all + 31) / 32;
    U32 at = length_ - 1u - begin_, stage = at / positions(), in_stage = at % positions();
    auto offset = k_.var(uint64_t(0));
    k_.when(newest_early_, [&] { offset = cache.offset(length_ - 1u); });
    auto keys = ring_ + stage * s_.stage_bytes();
    std::vector<Pred> real;
    std::vector<Global<uint32_t>> from;
    std::vector<Shared<uint32_t>> to;
    for (uint32_t i = 0; i < rounds; ++i) {
      U32 word = k_.lane() + i * 32, in_row = select(word < words, word, word - words) * 16u;
      Pred is_k = word < words;
      U64 base = select(is_k, cache.k().base, cache.v().base) + offset.get();
      U32 place = row_at(in_stage) + select(is_k, in_row, in_row + 8 * piece());
      if (q8()) {  // then the scales of its piece
        U32 more = word - 2 * words, in_piece = select(more < scale_words, more, more - scale_words) * 16u;
        Pred is_scale = word >= 2 * words, of_k = more < scale_words;
        U32 place_of = in_stage / s_.rows * s_.scale_bytes() + in_piece + scales_at();
        U64 first = offset.get() - widen(in_stage % s_.rows * row_bytes());  // row of the piece
        base = select(is_scale, scales_of(cache, of_k) + (first >> 4u), base);
        place = select(is_scale, select(of_k, place_of, place_of + 8 * s_.scale_bytes()), place);
        in_row = select(is_scale, in_piece, in_row);
      }
      real.push_back(newest_early_ && word < all);
      from.push_back((Global<uint8_t>{base} + in_row).as<uint32_t>());
      to.push_back((keys + place).as<uint32_t>());
    }
    chain_wait(k_, s_.chained);
    for (uint32_t i = 0; i < rounds; ++i) k_.when(real[i], [&] { store_vec(to[i], load_vec<4>(from[i])); });
    k_.when(newest_early_, [&] { Mbarrier{full_ + stage}.arrive(); });
  }

  // Row lane / 4 of the left operand, for every 16 values of the head dimension.
  Global<float> q_row() {
    U32 head = kv_head_ * group_ + min(k_.lane() / 4u, group_ - 1u), column = k_.lane() % 4u * (q8() ? 4u : 2u);
    U32 given = k_.arg(&ClusterArgs::q_stride),
        stride = select(given == 0u, k_.arg(&ClusterArgs::heads) * s_.head_dim, given);
    return k_.arg(&ClusterArgs::q) + mul_wide(sequence_, stride) + (head * s_.head_dim + column);
  }
  std::vector<Tile<heddle::f16, 16, 16>> load_q(Global<float> q) {
    Pred real = k_.lane() / 4u < group_;
    std::vector<Vec<float, 2>> loaded;
    for (uint32_t i = 0; i < dim_tiles(); ++i)
      loaded.push_back(load_vec<2>(q.offset(q8() ? i / 2 * 16 + i % 2 * 2 : i * 8)));
    std::vector<Tile<heddle::f16, 16, 16>> tiles;
    for (uint32_t i = 0; i < dim_tiles(); i += 2) {
      auto half = [&](const Vec<float, 2>& v) { return Halves(select(real, v[0], 0.0f), select(real, v[1], 0.0f)); };
      const Halves left = half(loaded[i]), right = half(loaded[i + 1]);
      tiles.push_back({{left.high, left.low, right.high, right.low}});
    }
    return tiles;
  }

  void compute(const std::vector<Tile<heddle::f16, 16, 16>>& q, OnlineSoftmax& softmax,
               std::vector<Acc<float, 16, 8>>& out) {
    U32 lane = k_.lane();
    const Score score = s_.softcap ? Score(k_.arg(&ClusterArgs::scale), k_.arg(&ClusterArgs::softcap))
                                   : Score(k_.arg(&ClusterArgs::scale));
    // what this lane names for ldmatrix: row lane % 8 of matrix lane / 8
    U32 in_piece = lane % 8u * piece(), odd = lane / 8u % 2u, upper = lane / 16u;
    U32 k_at = in_piece + upper * row_bytes() + odd * 16u;                // matrices: tile 0, 0, 1, 1
    U32 v_at = in_piece + odd * row_bytes() + upper * 16u + 8 * piece();  // matrices: tile 0, 1, 0, 1
    if (q8()) {  // a word of a row: of the lane's column of K, of the first of its rows of V
      k_at = lane / 4u * piece() + lane % 4u * 4u;
      v_at = lane % 4u * (2 * piece()) + lane / 4u * 4u + 8 * piece();
    }
    U32 column = lane % 4u * (2 * s_.rows);  // this lane's columns are positions
    auto slot = k_.var(0u), parity = k_.var(0u);
    k_.loop(0u, stage_count_, 1u, [&](U32 i) {
      U32 here = slot.get();
      Mbarrier{full_ + here}.wait(k_, parity.get());
      auto stage = ring_ + here * s_.stage_bytes();
      k_.loop(k_.warp() * 2u, s_.rows, s_.warps * 2, [&](U32 tile) {
        auto keys = stage + (k_at + tile * row_bytes()), values = stage + (v_at + tile * row_bytes());
        U32 position = begin_ + (i * positions() + column + tile);
        std::vector<Pred> counts;  // of the lane's columns: two of tile 0, two of tile 1
        for (uint32_t j = 0; j < 4; ++j) {
          U32 at = position + (j % 2 * s_.rows + j / 2);
          counts.push_back(s_.window ? at < end_ && at >= first_ : at < end_);
        }
        if (q8()) {
          auto scales = stage + (tile * scale_row() + scales_at());
          auto weights = weigh(keys_q8(q, keys, scales), counts, score, softmax, out);
          return add_values_q8(weights, values, scales.offset(8 * s_.scale_bytes()), counts, out);
        }
        auto weights = weigh(keys_f16(q, keys), counts, score, softmax, out);
        for (uint32_t d = 0; d < dim_tiles(); d += 2) {
          auto v = load_matrices<4>(values.offset(d * 16), true);
          mma(out[d], weights, Tile<heddle::f16, 16, 8>{{v[0], v[1]}});
          mma(out[d + 1], weights, Tile<heddle::f16, 16, 8>{{v[2], v[3]}});
        }
      });
      Mbarrier{free_ + here}.arrive();
      Pred wrap = here == s_.stages - 1;
      slot = select(wrap, k_.constant(0u), here + 1u);
      parity = select(wrap, parity.get() ^ 1u, parity.get());
    });
  }

  // Products of q with two tiles of keys. Two sums per tile, so that the chain of dependent products is half as long.
  using Q = std::vector<Tile<heddle::f16, 16, 16>>;
  using Sums = std::vector<Acc<float, 16, 8>>;  // tile 0, tile 1, and the same again
  Sums no_sums() {
    Sums sums;
    for (uint32_t i = 0; i < 4; ++i) sums.emplace_back(k_);
    return sums;
  }
  Sums keys_f16(const Q& q, Shared<uint8_t> keys) {
    Sums sums = no_sums();
    for (uint32_t d = 0; d < q.size(); ++d) {
      auto key = load_matrices<4>(keys.offset(d * 32));
      mma(sums[d % 2 * 2], q[d], Tile<heddle::f16, 16, 8>{{key[0], key[1]}});
      mma(sums[d % 2 * 2 + 1], q[d], Tile<heddle::f16, 16, 8>{{key[2], key[3]}});
    }
    return sums;
  }
  Sums keys_q8(const Q& q, Shared<uint8_t> keys, Shared<uint8_t> scales) {
    Sums sums = no_sums();
    std::vector<std::vector<F16>> scale;
    for (uint32_t tile = 0; tile < 2; ++tile)
      scale.push_back(row_scales(scales + (k_.lane() / 4u * s_.scale_bytes() + tile * scale_row())));
    for (uint32_t d = 0; d < q.size(); ++d)
      for (uint32_t tile = 0; tile < 2; ++tile) {
        U32 word = load(keys.offset(tile * row_bytes() + d * 16).as<uint32_t>());
        mma(sums[d % 2 * 2 + tile], q[d],
            Tile<heddle::f16, 16, 8>{KvQ8Operands::keys(word, twice(scale[tile][d / 2]))});
      }
    return sums;
  }
  void add_values_q8(const Tile<heddle::f16, 16, 16>& weights, Shared<uint8_t> values, Shared<uint8_t> scales,
                     const std::vector<Pred>& counts, std::vector<Acc<float, 16, 8>>& out) {
    // the lane's positions: rows `tile` of two neighbouring pieces, then the rows after these
    std::vector<std::vector<F16>> scale;
    for (uint32_t j = 0; j < 4; ++j) {
      U32 at = (k_.lane() % 4u * 2u + j % 2) * s_.scale_bytes() + j / 2 * scale_row();
      scale.push_back(row_scales(scales + at));
    }
    const F16 zero = to_f16(k_.constant(0.0f));
    for (uint32_t block = 0; block < s_.head_dim / 32; ++block) {
      std::array<U32, 4> words;
      std::array<F16, 4> own;
      for (uint32_t j = 0; j < 4; ++j) {
        words[j] = load(values.offset(j % 2 * piece() + j / 2 * row_bytes() + block * 32).as<uint32_t>());
        own[j] = select(counts[j], scale[j][block], zero);  // that of no position may be anything
      }
      const auto regs = KvQ8Operands::values(words, {pack<f16x2>(own[0], own[1]), pack<f16x2>(own[2], own[3])});
      for (uint32_t j = 0; j < 4; ++j) mma(out[block * 4 + j], weights, Tile<heddle::f16, 16, 8>{regs[j]});
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
        scales.push_back(low), scales.push_back(high);
      }
    }
    return scales;
  }

  // The weights of two tiles as the left operand of the second product.
  Tile<heddle::f16, 16, 16> weigh(const Sums& sums, const std::vector<Pred>& counts, const Score& score,
                                  OnlineSoftmax& softmax, std::vector<Acc<float, 16, 8>>& out) {
    std::vector<F32> scores;  // tile 0, then tile 1; a lane has two columns of each
    for (uint32_t tile = 0; tile < 2; ++tile)
      for (uint32_t column = 0; column < 2; ++column) {
        auto sum = [&](uint32_t row) { return sums[tile].get(row + column) + sums[tile + 2].get(row + column); };
        F32 s = score.of((sum(0) + sum(2)) * score.q_factor);
        scores.push_back(select(counts[tile * 2 + column], s, OnlineSoftmax::masked));
      }
    F32 top = max(max(scores[0], scores[1]), max(scores[2], scores[3]));
    for (uint32_t distance : {1u, 2u}) top = max(top, shuffle_xor(top, distance));
    F32 old = softmax.max.get();
    k_.when(vote_any(top > old), [&] {
      F32 shrink = softmax.raise(max(old, top));
      for (auto& tile : out)
        for (auto& v : tile.var) v *= shrink;
    });
    F32 base = softmax.max.get() - weight_bias;
    std::vector<F32> weights;
    for (F32 s : scores) weights.push_back(ex2_approx_ftz(s - base)), softmax.sum += weights.back();
    const Halves left(weights[0], weights[1]), right(weights[2], weights[3]);
    return {{left.high, left.low, right.high, right.low}};
  }

  template <class T>
  auto there(Shared<T> p, U32 rank, auto&& put) {
    if (s_.splits > 1)
      put(in_block(p, rank));
    else
      put(p);
  }

  // Each warp writes its part to the blocks that finish it: values to the one whose they are, maximum and sum to all.
  void hand_over(OnlineSoftmax& softmax, const std::vector<Acc<float, 16, 8>>& out) {
    U32 lane = k_.lane(), head = lane / 4u, column = lane % 4u * 2u;
    U32 part = rank_ * s_.warps + k_.warp();
    F32 sum = warp_sum(softmax.sum.get(), 4), top = softmax.max.get();
    auto state = states_ + (part * 16u + head * 2u);
    auto value = values_ + (part * part_row + head * 8u + column);
    k_.when(head < group_, [&] {
      for (uint32_t to = 0; to < s_.splits; to += 4) {
        U32 rank = lane % 4u + to;
        k_.when(rank < s_.splits, [&] { there(state, rank, [&](auto p) { store_vec(p, Vec<float, 2>{top, sum}); }); });
      }
      for (uint32_t d = 0; d < dim_tiles(); ++d) {
        auto at = value.offset(d / s_.splits * parts() * part_row);
        const Vec<float, 2> v{out[d].get(0) + out[d].get(2), out[d].get(1) + out[d].get(3)};
        there(at, k_.constant(d % s_.splits), [&](auto p) { store_vec(p, v); });
      }
    });
  }

  // Merges the parts for this block's values, 4 at a time (an item). Neighbouring lanes share the parts of an item, as
  // many as there are threads for in one round with 4 heads.
  void finish() {
    const uint32_t per_head = items_per_head(s_);
    uint32_t sharers = 1;
    while (sharers * 2 * per_head * 4 <= k_.threads() && sharers < std::min(parts(), 32u)) sharers *= 2;
    U32 member = k_.thread() % sharers, count = group_ * per_head;
    if (dim_tiles() < s_.splits) count = select(rank_ < dim_tiles(), count, 0u);  // some blocks have no values
    U64 pair = mad_wide(sequence_, k_.arg(&ClusterArgs::kv_heads), widen(kv_head_));
    auto out = k_.arg(&ClusterArgs::out) +
               mad_wide(sequence_, k_.arg(&ClusterArgs::heads), widen(kv_head_ * group_)) * uint64_t(s_.head_dim);
    // where an item of cluster c lies: 4 values, maximum, sum, two floats to the next 16 bytes
    auto partial = [&](U32 c, U32 item) {
      U64 cluster = mad(pair, widen(k_.arg(&ClusterArgs::clusters)), widen(c));
      U64 block = mad(cluster, k_.constant(uint64_t(s_.splits)), widen(rank_));
      return k_.arg(&ClusterArgs::partial) + mad(block, k_.constant(uint64_t(per_head) * 8), widen(item)) * uint64_t(8);
    };
    // f(item, head, first value) for all items; lanes that have none take the last and are not `real`
    auto each_item = [&](auto&& f) {
      k_.loop(0u, count, k_.threads() / sharers, [&](U32 base) {
        U32 item = base + k_.thread() / sharers, mine = min(item, count - 1u);
        U32 head = mine / per_head, quad = mine % per_head;
        Pred real = item < count && member == 0u;
        if (dim_tiles() % s_.splits) {  // not all blocks have as many tiles
          U32 last = (dim_tiles() - 1u - rank_) / s_.splits * 2u + 1u;
          real = real && quad <= last, quad = min(quad, last);
        }
        f(mine, head, quad, real);
      });
    };
    auto write = [&](const OnlineSoftmax& all, U32 head, U32 quad) {
      F32 factor = all.inverse_sum();
      U32 tile = quad / 2u * s_.splits + rank_, column = quad % 2u * 4u;
      Vec<float, 4> v;
      for (uint32_t i = 0; i < 4; ++i) v[i] = all.acc[i].get() * factor;
      if (!q8()) return store_vec(out + (head * s_.head_dim + tile * 8u + column), v);
      auto to = out + (head * s_.head_dim + (tile >> 2u) * 32u + (tile & 3u) + column * 4u);  // see KvQ8Operands
      for (uint32_t i = 0; i < 4; ++i) store(to.offset(i * 4), v[i]);
    };
    auto merge_all = [](OnlineSoftmax& all, const auto& tops, const auto& sums, const auto& values) {
      auto weights = all.weigh(tops);
      for (size_t p = 0; p < weights.size(); ++p) {
        all.sum.add_product(sums[p], weights[p]);
        for (uint32_t i = 0; i < 4; ++i) all.acc[i].add_product(values[p][i], weights[p]);
      }
    };
    auto merge_sharers = [&](OnlineSoftmax& all) {
      for (uint32_t distance = 1; distance < sharers; distance *= 2) all.merge_lane(distance);
    };

    each_item([&](U32 item, U32 head, U32 quad, Pred real) {
      auto here = values_ + (quad / 2u * (parts() * part_row) + head * 8u + quad % 2u * 4u);
      std::vector<F32> tops, sums;
      std::vector<Vec<float, 4>> values;
      for (uint32_t p = 0; p < parts(); p += sharers) {
        U32 part = member + p;
        auto state = load_vec<2>(states_ + (part * 16u + head * 2u));
        tops.push_back(state[0]), sums.push_back(state[1]);
        values.push_back(load_vec<4>(here + part * part_row));
      }
      OnlineSoftmax all(k_, 4);
      merge_all(all, tops, sums, values);
      merge_sharers(all);
      k_.when(real, [&] {
        if (!s_.merge) return write(all, head, quad);
        auto to = partial(cluster_, item);
        store_vec(to, Vec<float, 4>{all.acc[0].get(), all.acc[1].get(), all.acc[2].get(), all.acc[3].get()});
        store_vec(to.offset(4), Vec<float, 2>{all.max.get(), all.sum.get()});
      });
    });
    if (!s_.merge) return;

    // Blocks of the same rank have the same values, so only they meet.
    auto last = k_.shared<uint32_t>(1);
    k_.barrier();
    k_.when(k_.thread() == 0u, [&] {
      auto arrived = k_.arg(&ClusterArgs::arrived) + mad(pair, k_.constant(uint64_t(s_.splits)), widen(rank_));
      U32 others = k_.arg(&ClusterArgs::clusters) - 1u;
      // release: what the block wrote before the barrier; acquire: the last to come sees that of all, and finds the
      // count at 0 again
      U32 before = atomic(Atomic::inc, arrived, others, {.order = Order::acq_rel});
      store(last, select(before == others, k_.constant(1u), k_.constant(0u)));
    });
    k_.barrier();
    k_.when(k_.assume_uniform(load(last)) == 1u, [&] {
      each_item([&](U32 item, U32 head, U32 quad, Pred real) {
        OnlineSoftmax all(k_, 4);
        const uint32_t at_once = 4;  // loads under way together
        U32 clusters = k_.arg(&ClusterArgs::clusters);
        k_.loop(member, clusters, sharers * at_once, [&](U32 base) {
          std::vector<F32> tops, sums;
          std::vector<Vec<float, 4>> values;
          for (uint32_t i = 0; i < at_once; ++i) {
            U32 c = base + i * sharers;
            auto from = partial(min(c, clusters - 1u), item);
            auto state = load_vec<2>(from.offset(4));
            tops.push_back(select(c < clusters, state[0], OnlineSoftmax::masked)), sums.push_back(state[1]);
            values.push_back(load_vec<4>(from));
          }
          merge_all(all, tops, sums, values);
        });
        merge_sharers(all);
        k_.when(real, [&] { write(all, head, quad); });
      });
    });
  }

  static constexpr uint32_t part_row = 72;  // 8 heads x 8 values, and 8 floats to keep the parts in different banks

  ClusterAttention s_;
  Builder<ClusterArgs> k_;
  U32 sequence_, rank_, cluster_, group_, kv_head_;  // group_: query heads per kv head
  U32 length_, first_, begin_, end_, stage_count_;
  Pred newest_early_;              // the newest position is this block's, in a stage that is fetched before the wait
  Shared<uint8_t> ring_;           // (stages, K and V, 8, piece())
  Shared<uint64_t> full_, free_;   // (stages)
  Shared<float> states_, values_;  // (parts, 8 heads, maximum and sum), (tiles_here(), parts, part_row)
};

}  // namespace

Kernel ClusterAttention::build() const {
  check_fields(*this);
  if (warps * 2 > rows)
    throw Error("{}: {} warps, but a stage of {} rows per piece gives work to {}", name, warps, rows, rows / 2);
  // 9 warps leave 168 registers each, and the sums of a row of 192 take 96 of them, q 48
  if (kv == kv_q8 && (layout != kv_paged || head_dim % 32 || rows * head_dim % 256))
    throw Error(
        "{}: a q8 cache is in pages, its heads are multiples of 32, and rows * head_dim is one of 256; found {}", name,
        field_text(*this));
  if (mapped && layout != kv_paged) throw Error("{}: rows that are mapped need a cache in pages", name);
  if (warps == 8 && head_dim > 160) throw Error("{}: 8 warps with head_dim = {}; they suit up to 160", name, head_dim);
  return Cluster(*this).build();
}

size_t ClusterAttention::partial_count(uint32_t sequences, uint32_t kv_heads, uint32_t clusters) const {
  return size_t(sequences) * kv_heads * clusters * splits * items_per_head(*this) * 8 * 8;
}

Grid ClusterAttention::grid(const ClusterArgs& args) const {
  check_token_attention(name, args, layout, head_dim);
  if (args.heads / args.kv_heads > 8)
    throw Error("{}: {} heads for {} kv heads, but there may be at most 8 for one", name, args.heads, args.kv_heads);
  if (args.q.address % 8 || args.q_stride % 2) throw Error("{}: rows of q must be 8-byte aligned", name);
  if (kv == kv_q8 && (args.k_scale.address % 16 || args.v_scale.address % 16))
    throw Error("{}: k_scale and v_scale must be 16-byte aligned", name);
  if (args.out.address % 16 || (merge && args.partial.address % 16))
    throw Error("{}: out and partial must be 16-byte aligned", name);
  if (merge ? args.clusters == 0 || args.clusters > 65535 : args.clusters > 1)
    throw Error("{}: {} clusters per sequence and kv head, but with merge = {} there must be {}", name, args.clusters,
                merge ? "yes" : "no", merge ? "1 to 65535" : "one");
  if (window && args.window == 0) throw Error("{}: a window of 0 positions, but it must have one or more", name);
  if (softcap && !(args.softcap > 0)) throw Error("{}: softcap = {}, but it must be positive", name, args.softcap);
  return {.x = args.kv_heads * splits, .y = args.sequences ? args.sequences : 1, .z = merge ? args.clusters : 1};
}

void add_cluster_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<ClusterAttention>()); }

}  // namespace heddle::kernels
