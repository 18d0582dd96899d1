// The attention has 16 heads of one row as the rows of its tiles. Its warps share the scores: two halves of a row of
// the cache by positions / 16 groups of positions; of the second product each has some columns.
#include "kernels/attention/latent_attention.h"

#include <optional>

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/latent_tiles.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using LatentArgs = LatentAttention::Args;

// Weights and their sum are scaled by 2^14, so that small weights are not subnormal in f16.
constexpr float latent_weight_bias = 14;

class LatentAttend {
 public:
  explicit LatentAttend(const LatentAttention& spec) : s_(spec), k_(std::string(spec.name), spec.threads()) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    stages_ = k_.shared<uint8_t>(s_.stages * s_.stage_bytes(), 128);
    queries_ = k_.shared<uint8_t>(16 * s_.row_bytes(), 128);
    scores_ = k_.shared<float>(2 * 16 * score_stride());
    weights_ = k_.shared<uint8_t>(16 * weight_bytes());
    shrink_ = k_.shared<float>(16);
    clear_padding();
    chain_wait(k_, s_.chained);
    const U32 heads = k_.arg(&LatentArgs::heads), groups = (heads + 15u) / 16u;
    row_ = k_.block_id() / groups;
    first_head_ = (k_.block_id() - row_ * groups) * 16u;
    k_.when(row_ < k_.arg(&LatentArgs::rows), [&] {
      const U32 position = k_.assume_uniform(load(k_.arg(&LatentArgs::positions) + row_), Uniform::block);
      k_.when(position < no_position, [&] { attend(position + 1u); });
    });
    return k_.finish();
  }

 private:
  uint32_t score_stride() const { return s_.positions + 4; }
  uint32_t weight_bytes() const { return (s_.positions + 8) * 2; }
  uint32_t row_threads() const { return s_.threads() / 16; }  // that share a row of the softmax

  // Nothing is copied to the end of a row, which is multiplied all the same.
  void clear_padding() {
    const uint32_t padding = s_.steps_of_16() * 16 - s_.head();
    if (padding == 0) return;
    const uint32_t rows = s_.stages * s_.positions + 16;  // the queries follow the stages
    k_.loop(k_.thread(), k_.constant(rows * (padding / 8)), s_.threads(), [&](U32 item) {
      const U32 row = item / (padding / 8), piece = item - row * (padding / 8), at = row * s_.row_bytes();
      const U32 stage_rows = k_.constant(s_.stages * s_.positions);
      const Pred is_query = row >= stage_rows;
      const U32 in_queries = (row - stage_rows) * s_.row_bytes();
      const Shared<uint8_t> base{select(is_query, queries_.base + in_queries, stages_.base + at)};
      const U32 zero = k_.constant(0u);
      store_vec((base + (piece * 16u + s_.head() * 2)).as<uint32_t>(), Vec<uint32_t, 4>{zero, zero, zero, zero});
    });
  }

  void attend(U32 length) {
    const U32 splits = k_.arg(&LatentArgs::splits);
    U32 share = (length + splits - 1u) / splits;
    share = (share + (s_.positions - 1)) / s_.positions * s_.positions;
    begin_ = min(k_.block_y() * share, length);
    end_ = min(begin_ + share, length);
    pages_.emplace(k_, load(k_.arg(&LatentArgs::sequences) + row_));
    copy_queries();
    const U32 steps = (end_ - begin_ + (s_.positions - 1)) / s_.positions;
    const uint32_t ahead = s_.stages - 1;
    const bool q8 = s_.cache == kv_q8;
    for (uint32_t i = 0; i < ahead && !q8; ++i) copy(k_.constant(i), k_.constant(i * s_.stage_bytes()), steps);
    load_queries(q8 ? 0 : ahead);
    max_.emplace(k_, 0);
    for (uint32_t i = 0; i < s_.warp_columns() / 8; ++i) out_.emplace_back(k_);
    auto from = k_.var(0u), to = k_.var(ahead * s_.stage_bytes());
    if (q8 && ahead) put(fetch(k_.constant(0u)), k_.constant(0u));
    k_.loop(0u, steps, 1u, [&](U32 step) {
      std::vector<Piece> next_step;
      if (q8) {
        // Of the next step only the bytes are fetched now, and become halves after this one.
        if (!ahead) {
          k_.barrier();
          put(fetch(step), k_.constant(0u));
        }
        k_.barrier();
        if (ahead) next_step = fetch(step + 1u);
      } else if (ahead) {
        copy_wait(k_, ahead - 1);
        k_.barrier();
        copy(step + ahead, to.get(), steps);
      } else {
        k_.barrier();
        copy(step, k_.constant(0u), steps);
        copy_wait(k_, 0);
        k_.barrier();
      }
      const U32 here = from.get(), next = here + s_.stage_bytes();
      compute(stages_ + here, begin_ + step * s_.positions);
      if (!next_step.empty()) k_.when(step + 1u < steps, [&] { put(next_step, to.get()); });
      to = here;
      from = select(next == s_.stages * s_.stage_bytes(), k_.constant(0u), next);
    });
    copy_wait(k_, 0);
    write();
  }

  // The queries of 16 heads; those that the model does not have are zeros.
  void copy_queries() {
    const uint32_t pieces = s_.head() / 8;
    const U32 heads = k_.arg(&LatentArgs::heads);
    const auto from = k_.arg(&LatentArgs::q) + mul_wide(row_ * heads, s_.head());
    k_.loop(k_.thread(), k_.constant(16 * pieces), s_.threads(), [&](U32 item) {
      const U32 head = item / pieces, piece = item - head * pieces;
      const Pred real = first_head_ + head < heads;
      const U32 at = select(real, (first_head_ + head) * s_.head() + piece * 8u, k_.constant(0u));
      copy_async<16>(queries_ + (head * s_.row_bytes() + piece * 16u), from + at, select(real, k_.constant(16u), 0u));
    });
    copy_commit(k_);
  }
  void load_queries(uint32_t later) {
    copy_wait(k_, later);
    k_.barrier();
    const auto half = queries_ + k_.warp() % 2u * (s_.steps_of_16() / 2 * 32);
    for (uint32_t d = 0; d < s_.steps_of_16() / 2; ++d)
      q_.push_back(left_operand(k_, half.offset(d * 32), s_.row_bytes()));
  }

  // Positions beyond the end become zeros: weight 0 times leftover bytes may be NaN.
  void copy(U32 step, U32 to, U32 steps) {
    k_.when(step < steps, [&] {
      const uint32_t pieces = s_.head() / 8, lanes = 16;  // threads that copy a row
      const U32 lane = k_.thread() % lanes;
      for (uint32_t first = 0; first < s_.positions; first += s_.threads() / lanes) {
        const U32 in_step = k_.thread() / lanes + first, position = begin_ + step * s_.positions + in_step;
        const Pred real = position < end_;
        auto row = k_.var(uint64_t(0));
        k_.when(real, [&] { row = pages_->row(position); });
        const auto from = k_.arg(&LatentArgs::cache) + row.get() * uint64_t(s_.head());
        const auto at = stages_ + (to + in_step * s_.row_bytes());
        const U32 valid = select(real, k_.constant(16u), 0u);
        for (uint32_t piece = 0; piece < pieces; piece += lanes) {
          auto one = [&] {
            copy_async<16>(at.offset(piece * 16) + lane * 16u, from.offset(piece * 8) + lane * 8u, valid);
          };
          if (piece + lanes <= pieces)
            one();
          else
            k_.when(lane < pieces - piece, one);
        }
      }
    });
    copy_commit(k_);
  }

  // 8 values of q8 and their scale, and where they belong in a stage.
  struct Piece {
    U32 place, low, high, scale;
    Pred real;
  };
  // A thread's pieces of a step. Positions beyond the end become zeros, as above.
  std::vector<Piece> fetch(U32 step) {
    const uint32_t pieces = s_.head() / 8, lanes = 16, groups = (s_.head() + 31) / 32;
    const U32 lane = k_.thread() % lanes;
    std::vector<Piece> all;
    for (uint32_t first = 0; first < s_.positions; first += s_.threads() / lanes) {
      const U32 in_step = k_.thread() / lanes + first, position = begin_ + step * s_.positions + in_step;
      const Pred seen = position < end_;
      auto row = k_.var(uint64_t(0));
      k_.when(seen, [&] { row = pages_->row(position); });
      const auto bytes = k_.arg(&LatentArgs::cache).template as<uint8_t>() + row.get() * uint64_t(s_.head());
      const auto scales = k_.arg(&LatentArgs::scales) + row.get() * uint64_t(groups);
      for (uint32_t p = 0; p < pieces; p += lanes) {
        const U32 piece = lane + p;
        auto low = k_.var(0u), high = k_.var(0u), scale = k_.var(0u);
        const Pred real = piece < pieces;
        k_.when(seen && real, [&] {
          const auto two = load_vec<2>((bytes + piece * 8u).as<uint32_t>());
          low = two[0];
          high = two[1];
          scale = to<uint32_t>(load((scales + piece / 4u).as<uint16_t>()));
        });
        all.push_back({in_step * s_.row_bytes() + piece * 16u, low.get(), high.get(), scale.get(), real});
      }
    }
    return all;
  }
  void put(const std::vector<Piece>& pieces, U32 to) {
    for (const Piece& piece : pieces)
      k_.when(piece.real, [&] {
        store_vec((stages_ + (to + piece.place)).as<uint32_t>(),
                  scaled_halves(piece.low, piece.high, unpack<heddle::f16>(piece.scale)[0]));
      });
  }

  void compute(Shared<uint8_t> stage, U32 start) {
    multiply(stage);
    k_.barrier();
    weigh(start);
    k_.barrier();
    add(stage);
  }

  // A warp has 16 positions, and one half of the values of a row.
  void multiply(Shared<uint8_t> stage) {
    const U32 lane = k_.lane(), part = k_.warp() % 2u, first = k_.warp() / 2u * 16u;
    Acc<float, 16, 8> low(k_), high(k_);
    const auto keys = stage + ((first + lane % 8u + lane / 16u * 8u) * s_.row_bytes() + lane / 8u % 2u * 16u +
                               part * (s_.steps_of_16() / 2 * 32));
    for (uint32_t d = 0; d < q_.size(); ++d) {
      const auto key = load_matrices<4>(keys.offset(d * 32));
      mma(low, q_[d], LatentB{{key[0], key[1]}});
      mma(high, q_[d], LatentB{{key[2], key[3]}});
    }
    for (uint32_t half = 0; half < 2; ++half) {
      const auto to = scores_ + ((part * 16u + lane / 4u + half * 8) * score_stride() + first + lane % 4u * 2u);
      store_vec(to, Vec<float, 2>{low.get(half * 2), low.get(half * 2 + 1)});
      store_vec(to.offset(8), Vec<float, 2>{high.get(half * 2), high.get(half * 2 + 1)});
    }
  }

  // Scores become weights, four positions of a row by a thread.
  void weigh(U32 start) {
    const U32 row = k_.thread() / row_threads(), first = k_.thread() % row_threads() * 4u;
    const auto at = scores_ + (row * score_stride() + first);
    const auto left = load_vec<4>(at), right = load_vec<4>(at.offset(16 * score_stride()));
    const F32 scale = k_.arg(&LatentArgs::scale) * float(std::numbers::log2e);
    std::vector<F32> scores;
    F32 top = max_->max.get();
    for (uint32_t i = 0; i < 4; ++i) {
      const F32 score = select(start + first + i < end_, (left[i] + right[i]) * scale, OnlineSoftmax::masked);
      scores.push_back(score);
      top = max(top, score);
    }
    for (uint32_t distance = 1; distance < row_threads(); distance *= 2) top = max(top, shuffle_xor(top, distance));
    const F32 shrink = max_->raise(top), base = top - latent_weight_bias;
    std::vector<F32> weights;
    F32 sum = k_.constant(0.0f);
    for (const F32& score : scores) {
      weights.push_back(ex2_approx_ftz(score - base));
      sum = sum + weights.back();
    }
    for (uint32_t distance = 1; distance < row_threads(); distance *= 2) sum = sum + shuffle_xor(sum, distance);
    max_->sum += sum;
    store_vec((weights_ + (row * weight_bytes() + first * 2u)).as<uint32_t>(),
              Vec<uint32_t, 2>{bitcast<uint32_t>(to_f16x2(weights[0], weights[1])),
                               bitcast<uint32_t>(to_f16x2(weights[2], weights[3]))});
    k_.when(first == 0u, [&] { store(shrink_ + row, shrink); });
  }

  // A warp has some columns of the latents.
  void add(Shared<uint8_t> stage) {
    const U32 lane = k_.lane(), first = k_.warp() * s_.warp_columns();
    k_.when(first < s_.rank, [&] {
      const F32 shrink[] = {load(shrink_ + lane / 4u), load(shrink_ + (lane / 4u + 8u))};
      for (auto& tile : out_)
        for (uint32_t i = 0; i < 4; ++i) tile.var[i] *= shrink[i / 2];
      const auto values = stage + (lane % 16u * s_.row_bytes() + lane / 16u * 16u + first * 2u);
      for (uint32_t p = 0; p < s_.positions; p += 16) {
        const LatentA weights = left_operand(k_, weights_.offset(p * 2), weight_bytes());
        for (uint32_t d = 0; d < out_.size(); d += 2) {
          const auto v = load_matrices<4>(values.offset(p * s_.row_bytes() + d * 16), true);
          mma(out_[d], weights, LatentB{{v[0], v[1]}});
          mma(out_[d + 1], weights, LatentB{{v[2], v[3]}});
        }
      }
    });
  }

  void write() {
    const U32 heads = k_.arg(&LatentArgs::heads), splits = k_.arg(&LatentArgs::splits);
    const U32 lane = k_.lane(), first = k_.warp() * s_.warp_columns() + lane % 4u * 2u;
    auto place = [&](U32 head) {  // of a head's range
      return mad(mad(row_, heads, head), splits, k_.block_y());
    };
    for (uint32_t half = 0; half < 2; ++half) {
      const U32 head = first_head_ + lane / 4u + half * 8;
      k_.when(head < heads, [&] {
        const auto to = k_.arg(&LatentArgs::out) + mul_wide(place(head), s_.rank) + first;
        for (uint32_t d = 0; d < out_.size(); ++d)
          k_.when(first + d * 8 < s_.rank, [&] {
            store_vec(to.offset(d * 8), Vec<float, 2>{out_[d].get(half * 2), out_[d].get(half * 2 + 1)});
          });
      });
    }
    const U32 head = first_head_ + k_.thread() / row_threads();
    k_.when(k_.thread() % row_threads() == 0u && head < heads, [&] {
      store_vec(k_.arg(&LatentArgs::sums) + mul_wide(place(head), 2u), Vec<float, 2>{max_->max.get(), max_->sum.get()});
    });
  }

  const LatentAttention& s_;
  Builder<LatentArgs> k_;
  U32 row_, first_head_, begin_, end_;  // begin_, end_: of the positions of this block
  Shared<uint8_t> stages_, queries_, weights_;
  Shared<float> scores_, shrink_;  // scores_: (2, 16, score_stride), of each half of the values
  std::optional<LatentPages<LatentArgs>> pages_;
  std::vector<LatentA> q_;              // of this warp's half
  std::optional<OnlineSoftmax> max_;    // of this thread's row in weigh()
  std::vector<Acc<float, 16, 8>> out_;  // of this warp's columns
};

}  // namespace

Kernel LatentAttention::build() const {
  check_fields(*this);
  if (cache == kv_q8 && stages > 2) throw Error("{}: {} stages of a q8 cache, 1 or 2 expected", name, stages);
  return LatentAttend(*this).build();
}

Grid LatentAttention::grid(const Args& args) const {
  if (args.page_size == 0) throw Error("{}: pages of 0 positions", name);
  if (args.splits == 0 || args.splits > LatentValues::max_splits)
    throw Error("{}: {} ranges, 1 to {} expected", name, args.splits, LatentValues::max_splits);
  const uint64_t blocks = uint64_t(args.rows) * ((args.heads + 15) / 16);
  if (blocks > 0x7fffffff) throw Error("{}: {} blocks, but a grid has at most 2147483647", name, blocks);
  return {.x = std::max(uint32_t(blocks), 1u), .y = args.splits};
}

LatentAttention latent_choice(uint32_t rank, uint32_t rotated, const GpuLimits& gpu) {
  LatentAttention spec{.rank = rank, .rotated = rotated, .positions = 64, .stages = 2};
  while (spec.shared_bytes() > gpu.shared_per_block && spec.stages > 1) --spec.stages;
  if (spec.shared_bytes() > gpu.shared_per_block) spec = {.rank = rank, .rotated = rotated, .stages = 2};
  while (spec.shared_bytes() > gpu.shared_per_block && spec.stages > 1) --spec.stages;
  if (spec.shared_bytes() > gpu.shared_per_block)
    throw Error("latent_attention: {} bytes of shared memory are not enough for latents of {} and {} values",
                gpu.shared_per_block, rank, rotated);
  return spec;
}

uint32_t latent_splits(const LatentAttention& spec, uint32_t rows, uint32_t heads, uint32_t longest, uint32_t sms) {
  const uint32_t blocks = std::max(1u, rows * ((heads + 15) / 16));
  const uint32_t most = std::max(1u, (longest + spec.positions - 1) / spec.positions);
  return std::min({std::max(1u, sms / blocks), most, LatentValues::max_splits});
}

void add_latent_attention_kernels(std::vector<Entry>& all) {
  all.push_back(entry<LatentQueries>());
  all.push_back(entry<LatentAttention>());
  all.push_back(entry<LatentValues>());
}

}  // namespace heddle::kernels
