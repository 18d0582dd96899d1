// Attention of 16 query rows per warp over steps of K and V that the whole block fetches. The scores stay in the
// registers where the matrix unit leaves them and become, as weights, the left operand of the second product; only sums
// and maxima cross lanes (the 4 that share a row). A q8 cache is copied as int8 and becomes f16 in registers, see
// kv_cache.h.
#include "kernels/attention/prompt_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using PromptArgs = PromptAttention::Args;
using A = Tile<heddle::f16, 16, 16>;
using B = Tile<heddle::f16, 16, 8>;

// Weights and their sum are scaled by 2^14, so that small weights are not subnormal in f16.
constexpr float prompt_weight_bias = 14;

class Prompt {
 public:
  explicit Prompt(const PromptAttention& spec)
      : s_(spec),
        k_(std::string(spec.name), {.threads = spec.threads(), .min_blocks = spec.resident, .cluster = spec.splits}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    chain_wait(k_, s_.chained);
    U32 heads = k_.arg(&PromptArgs::heads), block = s_.splits > 1 ? k_.special(Special::clusterid_x) : k_.block_id();
    const uint32_t value_parts = s_.value_parts();
    U32 of_tile = heads * value_parts;
    U32 turn = block / of_tile, count = k_.arg(&PromptArgs::tile_count) * s_.parts;
    head_ = block - turn * of_tile;
    if (value_parts > 1) {
      value_part_ = head_ % value_parts;
      head_ = head_ / value_parts;
    }
    k_.when(turn < count, [&] {
      U32 from = count - 1u - turn, number = from / s_.parts;
      auto tile = load_vec<4>((k_.arg(&PromptArgs::tiles) + number).as<uint32_t>());
      for (U32& v : tile) v = k_.assume_uniform(v, s_.splits > 1 ? Uniform::cluster : Uniform::block);
      sequence_ = tile[0];
      first_row_ = tile[1];
      rows_ = tile[2];
      first_ = tile[3];
      if (s_.bidirectional)
        text_ = k_.assume_uniform(load(k_.arg(&PromptArgs::lengths) + number),
                                  s_.splits > 1 ? Uniform::cluster : Uniform::block);
      if (s_.parts > 1) {
        U32 skipped = min((from - number * s_.parts) * s_.queries, rows_);
        first_row_ = first_row_ + skipped;
        first_ = first_ + skipped;
        rows_ = min(rows_ - skipped, s_.queries);
      }
      k_.when(rows_ > 0u, [&] { body(); });
    });
    return k_.finish();
  }

 private:
  uint32_t dim_tiles() const { return s_.head_dim / 8 / s_.value_parts(); }  // of the sums
  uint32_t k_bytes() const { return s_.positions * s_.row_bytes(); }
  uint32_t scales_at() const { return k_bytes() + s_.positions * s_.value_row_bytes(); }  // in a stage
  uint32_t stage_bytes() const { return s_.stage_bytes(); }
  bool q8() const { return s_.kv == kv_q8; }
  uint32_t copy_rows() const { return s_.threads() / 8; }  // positions that the block copies at a time

  void body() {
    stages_ = k_.shared<uint8_t>(std::max(s_.ring_bytes(), s_.merge_bytes()), 128);
    if (s_.bidirectional && s_.window) {
      half_ = k_.arg(&PromptArgs::window) >> 1u;
      lowest_ = first_ - min(first_, half_);
    } else if (s_.window) {
      U32 seen = first_ + 1u;
      lowest_ = seen - min(seen, k_.arg(&PromptArgs::window));
    } else {
      lowest_ = k_.constant(0u);
    }
    if (s_.chunk) lowest_ = max(lowest_, chunk_start(first_));
    begin_ = lowest_ & ~15u;
    end_ = first_ + rows_;
    if (s_.bidirectional) end_ = s_.window ? min(text_, end_ + half_) : text_;
    group_row_ = k_.lane() / 4u;
    warp_first_ = k_.warp() * 16u;
    if (s_.chunk) {
      for (uint32_t row : {0u, 8u}) chunk_first_.push_back(chunk_start(first_ + warp_first_ + group_row_ + row));
      warp_chunk_ = chunk_start(first_ + warp_first_ + 15u);
    }
    cache_setup();
    load_q();
    for (uint32_t i = 0; i < 2; ++i) softmax_.emplace_back(k_, 0);
    if (s_.sinks) begin_with_sink();
    if (s_.slopes) slope_ = slope_of(load(k_.arg(&PromptArgs::slopes) + head_));
    for (uint32_t i = 0; i < dim_tiles(); ++i) out_.emplace_back(k_);

    U32 first = k_.constant(0u), steps = (end_ - begin_ + (s_.positions - 1)) / s_.positions;
    if (s_.splits > 1) {
      U32 share = (steps + (s_.splits - 1)) / s_.splits;
      first = k_.cluster_rank() * share;
      steps = min(steps, first + share);
    }
    const uint32_t ahead = s_.stages - 1;
    for (uint32_t i = 0; i < ahead; ++i) copy(first + i, k_.constant(i * stage_bytes()), steps);
    auto from = k_.var(0u), to = k_.var(ahead * stage_bytes());
    k_.loop(first, steps, 1u, [&](U32 step) {
      copy_wait(k_, ahead - 1);
      k_.barrier();  // this step has arrived, and all warps are done with the one that the next copy overwrites
      copy(step + ahead, to.get(), steps);
      U32 here = from.get(), start = begin_ + step * s_.positions;
      // warps without rows, or with rows before these positions, skip the step
      Pred sees = warp_first_ < rows_;
      if (!s_.bidirectional) sees = sees && start <= first_ + warp_first_ + 15u;
      k_.when(sees, [&] { compute(stages_ + here, start); });
      U32 next = here + stage_bytes();
      to = here;
      from = select(next == s_.ring_bytes(), k_.constant(0u), next);
    });
    copy_wait(k_, 0);
    if (s_.splits == 1) return write();
    merge();
    k_.when(k_.cluster_rank() == 0u, [&] { write(); });
  }

  bool limited() const { return s_.window || s_.chunk; }  // positions before lowest_ are not seen
  // The first position of the chunk in which a position is.
  U32 chunk_start(U32 position) {
    U32 chunk = k_.arg(&PromptArgs::chunk);
    return position / chunk * chunk;
  }
  // Of the blocks of a cluster one has the sink, and of the 4 lanes that share a row.
  void begin_with_sink() {
    Pred here = k_.lane() % 4u == 0u;
    if (s_.splits > 1) here = here && k_.cluster_rank() == 0u;
    const F32 sink = load(k_.arg(&PromptArgs::sinks) + head_);
    for (auto& row : softmax_) row.begin_with(sink, select(here, k_.constant(std::exp2(prompt_weight_bias)), 0.0f));
  }

  // Merges the results of the other blocks of the cluster into those of the first.
  void merge() {
    k_.barrier();  // the copied steps are no longer read
    auto mine = stages_.as<float>() + k_.thread();
    auto at = [&](auto base, uint32_t i) { return base.offset(i * s_.threads()); };
    k_.when(k_.cluster_rank() > 0u, [&] {
      for (uint32_t row = 0; row < 2; ++row) {
        store(at(mine, row * 2), softmax_[row].max.get());
        store(at(mine, row * 2 + 1), softmax_[row].sum.get());
      }
      for (uint32_t d = 0; d < dim_tiles(); ++d)
        for (uint32_t i = 0; i < 4; ++i) store(at(mine, 4 + d * 4 + i), out_[d].get(i));
    });
    k_.cluster_barrier();
    k_.when(k_.cluster_rank() == 0u, [&] {
      for (uint32_t other = 1; other < s_.splits; ++other) {
        auto theirs = in_block(mine, other);
        for (uint32_t row = 0; row < 2; ++row) {
          F32 top = load(at(theirs, row * 2)), sum = load(at(theirs, row * 2 + 1));
          F32 shrink = softmax_[row].raise(max(softmax_[row].max.get(), top));
          F32 weight = ex2_approx_ftz(top - softmax_[row].max.get());
          softmax_[row].sum.add_product(sum, weight);
          for (uint32_t d = 0; d < dim_tiles(); ++d)
            for (uint32_t i : {row * 2, row * 2 + 1})
              out_[d].set(i, fma(load(at(theirs, 4 + d * 4 + i)), weight, out_[d].get(i) * shrink));
        }
      }
    });
    k_.cluster_barrier();  // blocks stay until their shared memory has been read
  }

  // --- K and V ------------------------------------------------------------------------------------------------------
  void cache_setup() {
    U32 page_size = k_.arg(&PromptArgs::page_size), kv_heads = k_.arg(&PromptArgs::kv_heads);
    U64 head = mul_wide(head_ / (k_.arg(&PromptArgs::heads) / kv_heads), page_size) * uint64_t(s_.data_bytes());
    k_at_ = k_.arg(&PromptArgs::k) + head;
    v_at_ = k_.arg(&PromptArgs::v) + head;
    if (s_.value_parts() > 1) v_at_ = v_at_ + value_part_ * s_.value_data_bytes();
    page_bytes_ = mul_wide(kv_heads, page_size) * uint64_t(s_.data_bytes());
    table_ = k_.arg(&PromptArgs::table) + mul_wide(sequence_, k_.arg(&PromptArgs::table_stride));
    pages_.emplace(k_, page_size);
  }
  // One group of copies: 8 threads take a row, 128 bytes at a time. Positions that no query sees become zeros, because
  // weight 0 times leftover bytes may be NaN; nothing of them is read, not even the table.
  void copy(U32 step, U32 to, U32 steps) {
    k_.when(step < steps, [&] {
      U32 row = k_.thread() / 8u, piece = k_.thread() % 8u;
      auto keys = stages_ + (to + row * s_.row_bytes() + piece * 16u);
      auto values = stages_ + (to + row * s_.value_row_bytes() + (piece * 16u + k_bytes()));
      for (uint32_t i = 0; i < s_.positions; i += copy_rows()) {
        U32 position = begin_ + step * s_.positions + row + i;
        Pred real = position < end_;
        if (limited()) real = real && position >= lowest_;
        auto offset = k_.var(uint64_t(0));
        k_.when(real, [&] {
          U32 slot = pages_->divide(position), in_page = position - slot * k_.arg(&PromptArgs::page_size);
          U32 page = bitcast<uint32_t>(load(table_ + slot));
          offset = mad_wide(in_page, s_.data_bytes(), widen(page) * page_bytes_) + widen(piece * 16u);
        });
        U32 valid = select(real, k_.constant(16u), 0u);
        auto key = k_at_ + offset.get(), value = v_at_ + offset.get();
        for (uint32_t at = 0; at < s_.data_bytes(); at += 128) {
          auto both = [&] {
            copy_async<16>(keys.offset(i * s_.row_bytes() + at), key.offset(at), valid);
            if (at < s_.value_data_bytes())
              copy_async<16>(values.offset(i * s_.value_row_bytes() + at), value.offset(at), valid);
          };
          const uint32_t left = (s_.data_bytes() - at) / 16;  // pieces of the row
          if (left >= 8)
            both();
          else
            k_.when(piece < left, both);
        }
      }
      if (q8()) copy_scales(step, to);
    });
    copy_commit(k_);
  }
  // The scales of 16 positions lie together, whatever the size of a head. They are copied for padding positions too,
  // but never from a page that does not exist.
  void copy_scales(U32 step, U32 to) {
    const uint32_t pieces = s_.head_dim / 16, all = s_.positions / 16 * pieces;
    for (uint32_t i = 0; i < 2 * all; i += s_.threads()) {
      U32 item = k_.thread() + i;
      k_.when(item < 2 * all, [&] {
        Pred is_k = item < all;
        U32 piece = select(is_k, item, item - all), position = begin_ + step * s_.positions + piece / pieces * 16u;
        auto offset = k_.var(uint64_t(0));
        k_.when(position < end_, [&] {
          U32 slot = pages_->divide(position), in_page = position - slot * k_.arg(&PromptArgs::page_size);
          U32 page = bitcast<uint32_t>(load(table_ + slot));
          offset = mad_wide(in_page, s_.scale_bytes(), widen(page) * (page_bytes_ >> 4u)) + widen(piece % pieces * 16u);
        });
        U64 head = (k_at_.base - k_.arg(&PromptArgs::k).base) >> 4u;
        Global<uint8_t> from{select(is_k, k_.arg(&PromptArgs::k_scale).base, k_.arg(&PromptArgs::v_scale).base) + head};
        copy_async<16>(stages_ + (to + item * 16u + scales_at()), from + offset.get(),
                       select(position < end_, k_.constant(16u), 0u));
      });
    }
  }

  // --- q ---
  // q times the scale in base 2, as left operands: 4 registers for every 16 values, and with exact_q 4 more for the
  // rounding errors. Where they are too many, each lane keeps its own in shared memory.
  void load_q() {
    const F32 factor = k_.arg(&PromptArgs::scale) * float(std::numbers::log2e);
    if (!s_.q_in_registers()) {
      auto all = k_.shared<uint32_t>(s_.threads() * s_.head_dim / 4 * (1 + s_.exact_q), 16);
      q_shared_ = all + k_.thread() * 4u;
    }
    std::vector<Global<float>> row;
    for (uint32_t half : {0u, 8u}) {
      U32 r = min(warp_first_ + group_row_ + half, rows_ - 1u);  // padding rows read the last one
      row.push_back(k_.arg(&PromptArgs::q) + mul_wide(first_row_ + r, k_.arg(&PromptArgs::q_stride)) +
                    (head_ * s_.head_dim + k_.lane() % 4u * (q8() ? 4u : 2u)));
    }
    for (uint32_t d = 0; d < s_.head_dim; d += 16) {
      std::array<U32, 4> high, low;
      for (uint32_t i = 0; i < 4; ++i) {
        auto v = load_vec<2>(row[i % 2].offset(d + i / 2 * (q8() ? 2 : 8)));
        F32 left = v[0] * factor, right = v[1] * factor;
        F16x2 rounded = to_f16x2(left, right);
        auto [a, b] = unpack<heddle::f16>(rounded);
        high[i] = bitcast<uint32_t>(rounded);
        if (s_.exact_q) low[i] = bitcast<uint32_t>(to_f16x2(left - to_f32(a), right - to_f32(b)));
      }
      keep_q(high);
      if (s_.exact_q) keep_q(low);
    }
  }
  void keep_q(const std::array<U32, 4>& v) {
    if (!s_.q_in_registers()) store_vec(q_shared_.offset(int64_t(q_.size() * s_.threads() * 4)), Vec<uint32_t, 4>(v));
    q_.push_back({v});
  }
  A q(size_t i) {
    if (s_.q_in_registers()) return q_[i];
    return {load_vec<4>(q_shared_.offset(int64_t(i * s_.threads() * 4)))};
  }

  // --- one step ---
  void compute(Shared<uint8_t> stage, U32 start) {
    std::vector<Acc<float, 16, 8>> scores;
    for (uint32_t i = 0; i < s_.positions / 8; ++i) scores.emplace_back(k_);
    q8() ? multiply_q8(stage, scores) : multiply_f16(stage, scores);
    if (s_.softcap) {
      const Score score(k_.arg(&PromptArgs::scale), k_.arg(&PromptArgs::softcap));
      F32 factor = rcp(score.cap);  // from base 2 to fractions of the cap
      for (auto& tile : scores)
        for (uint32_t i = 0; i < 4; ++i) tile.set(i, score.of(tile.get(i) * factor));
    }
    if (s_.slopes) slope(scores, start);
    mask(scores, start);
    raise(scores);

    const std::array<F32, 2> base{softmax_[0].max.get() - prompt_weight_bias,
                                  softmax_[1].max.get() - prompt_weight_bias};
    for (uint32_t i = 0; i < s_.positions / 16; ++i) {
      A weights;
      for (uint32_t reg = 0; reg < 4; ++reg) {  // rows 0, 8 of the first 8 positions, then of the next 8
        const auto& tile = scores[i * 2 + reg / 2];
        const uint32_t row = reg % 2;
        F32 left = ex2_approx_ftz(tile.get(row * 2) - base[row]),
            right = ex2_approx_ftz(tile.get(row * 2 + 1) - base[row]);
        softmax_[row].sum += left + right;
        weights.reg[reg] = bitcast<uint32_t>(to_f16x2(left, right));
      }
      q8() ? add_q8(weights, stage, start, i * 16) : add_f16(weights, stage, i * 16);
    }
  }

  std::vector<A> q_parts(uint32_t d) {
    std::vector<A> parts;
    for (uint32_t i = 0; i <= s_.exact_q; ++i) parts.push_back(q(d * (1 + s_.exact_q) + i));
    return parts;
  }
  // ldmatrix: lane 8 i + r names row r of matrix i. Of K: 8 positions with 16 values, then the next 8 positions; of V:
  // 16 positions with 8 values, then the next 8 values.
  void multiply_f16(Shared<uint8_t> stage, std::vector<Acc<float, 16, 8>>& scores) {
    U32 lane = k_.lane();
    auto keys = stage + ((lane % 8u + lane / 16u * 8u) * s_.row_bytes() + lane / 8u % 2u * 16u);
    for (uint32_t d = 0; d < s_.head_dim / 16; ++d) {
      const std::vector<A> parts = q_parts(d);
      for (uint32_t i = 0; i < s_.positions; i += 16) {
        auto key = load_matrices<4>(keys.offset(i * s_.row_bytes() + d * 32));
        for (const A& part : parts) {
          mma(scores[i / 8], part, B{{key[0], key[1]}});
          mma(scores[i / 8 + 1], part, B{{key[2], key[3]}});
        }
      }
    }
  }
  void add_f16(const A& weights, Shared<uint8_t> stage, uint32_t first) {
    U32 lane = k_.lane();
    auto values = stage + (lane % 16u * s_.value_row_bytes() + lane / 16u * 16u + k_bytes());
    for (uint32_t d = 0; d < dim_tiles(); d += 2) {
      auto v = load_matrices<4>(values.offset(first * s_.value_row_bytes() + d * 16), true);
      mma(out_[d], weights, B{{v[0], v[1]}});
      mma(out_[d + 1], weights, B{{v[2], v[3]}});
    }
  }
  // A lane has position lane / 4 of each 8, and 4 of each 16 values of it.
  void multiply_q8(Shared<uint8_t> stage, std::vector<Acc<float, 16, 8>>& scores) {
    U32 position = k_.lane() / 4u;
    auto keys = stage + (position * s_.row_bytes() + k_.lane() % 4u * 4u);
    auto scales = stage + (position * s_.scale_bytes() + scales_at());
    for (uint32_t block = 0; block < s_.head_dim / 32; ++block) {
      const std::vector<A> left = q_parts(block * 2), right = q_parts(block * 2 + 1);
      for (uint32_t i = 0; i < s_.positions; i += 8) {
        const F16x2 scale = twice(load(scales.offset(i * s_.scale_bytes() + block * 2).as<heddle::f16>()));
        for (uint32_t half = 0; half < 2; ++half) {
          U32 word = load(keys.offset(i * s_.row_bytes() + block * 32 + half * 16).as<uint32_t>());
          const B key{KvQ8Operands::keys(word, scale)};
          for (const A& part : half ? right : left) mma(scores[i / 8], part, key);
        }
      }
    }
  }
  // A lane has the positions 2c, 2c + 1, 2c + 8 and 2c + 9 of 16, c = lane % 4, and 4 of each 32 values of them.
  void add_q8(const A& weights, Shared<uint8_t> stage, U32 start, uint32_t first) {
    U32 position = k_.lane() % 4u * 2u;
    auto values = stage + (position * s_.value_row_bytes() + k_.lane() / 4u * 4u + k_bytes());
    auto scales = stage + (position * s_.scale_bytes() + (scales_at() + s_.positions * s_.scale_bytes()));
    const uint32_t groups = dim_tiles() / 4;
    if (s_.value_parts() > 1) scales = scales + value_part_ * (groups * 2);
    std::vector<Pred> exists;
    for (uint32_t j = 0; j < 4; ++j) {
      U32 at = start + position + (first + j % 2 + j / 2 * 8);
      exists.push_back(limited() ? at < end_ && at >= lowest_ : at < end_);
    }
    const F16 zero = to_f16(k_.constant(0.0f));
    for (uint32_t block = 0; block < groups; ++block) {
      std::array<U32, 4> words;
      std::array<F16, 4> own;
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t row = first + j % 2 + j / 2 * 8;
        words[j] = load(values.offset(row * s_.value_row_bytes() + block * 32).as<uint32_t>());
        const F16 scale = load(scales.offset(row * s_.scale_bytes() + block * 2).as<heddle::f16>());
        own[j] = select(exists[j], scale, zero);  // the scale of a padding position is undefined
      }
      const auto regs = KvQ8Operands::values(words, {pack<f16x2>(own[0], own[1]), pack<f16x2>(own[2], own[3])});
      for (uint32_t j = 0; j < 4; ++j) mma(out_[block * 4 + j], weights, B{regs[j]});
    }
  }

  void slope(std::vector<Acc<float, 16, 8>>& scores, U32 start) {
    for (uint32_t row = 0; row < 2; ++row) {
      U32 own = first_ + warp_first_ + group_row_ + row * 8;
      F32 before = to_f32(bitcast<int32_t>(own - start - k_.lane() % 4u * 2u));  // of the lane's first column
      for (uint32_t i = 0; i < scores.size(); ++i)
        for (uint32_t column = 0; column < 2; ++column)
          scores[i].set(row * 2 + column,
                        sloped(scores[i].get(row * 2 + column), slope_, before - float(i * 8 + column)));
    }
  }

  // Masks positions that a row does not see. Only steps at the diagonal, at the window's start and end, at the start of
  // a chunk and at the end of a text have some.
  void mask(std::vector<Acc<float, 16, 8>>& scores, U32 start) {
    U32 top = first_ + warp_first_;  // the warp's first position
    Pred some = start + (s_.positions - 1) > (s_.bidirectional ? end_ - 1u : top);
    if (s_.bidirectional && s_.window)
      some = some || start + (s_.positions - 1) > top + half_ || top + 15u - start > half_;
    else if (s_.window)
      some = some || top + 15u - start >= k_.arg(&PromptArgs::window);
    if (s_.chunk) some = some || start < warp_chunk_;
    k_.when(some, [&] {
      for (uint32_t i = 0; i < scores.size(); ++i)
        for (uint32_t reg = 0; reg < 4; ++reg) {
          U32 at = start + k_.lane() % 4u * 2u + (i * 8 + reg % 2), own = top + group_row_ + reg / 2 * 8;
          Pred seen = s_.bidirectional ? at < end_ : at <= own;
          if (s_.bidirectional && s_.window)
            seen = seen && at <= own + half_ && own <= at + half_;
          else if (s_.window)
            seen = seen && own - at < k_.arg(&PromptArgs::window);
          if (s_.chunk) seen = seen && at >= chunk_first_[reg / 2];
          scores[i].set(reg, select(seen, scores[i].get(reg), OnlineSoftmax::masked));
        }
    });
  }

  // Raises the two rows' maxima to these scores and rescales the sums so far.
  void raise(const std::vector<Acc<float, 16, 8>>& scores) {
    std::vector<F32> top;
    for (uint32_t row = 0; row < 2; ++row) {
      F32 t = softmax_[row].max.get();
      for (auto& tile : scores) t = max(t, max(tile.get(row * 2), tile.get(row * 2 + 1)));
      for (uint32_t distance : {1u, 2u}) t = max(t, shuffle_xor(t, distance));
      top.push_back(t);
    }
    k_.when(vote_any(top[0] > softmax_[0].max.get() || top[1] > softmax_[1].max.get()), [&] {
      for (uint32_t row = 0; row < 2; ++row) {
        F32 shrink = softmax_[row].raise(top[row]);
        for (auto& tile : out_)
          for (uint32_t i : {row * 2, row * 2 + 1}) tile.var[i] *= shrink;
      }
    });
  }

  void write() {
    for (uint32_t row = 0; row < 2; ++row) {
      for (uint32_t distance : {1u, 2u}) softmax_[row].sum += shuffle_xor(softmax_[row].sum.get(), distance);
      F32 factor = softmax_[row].inverse_sum();
      U32 r = warp_first_ + group_row_ + row * 8;
      k_.when(r < rows_, [&] {
        auto to = k_.arg(&PromptArgs::out) + mul_wide(first_row_ + r, k_.arg(&PromptArgs::out_stride)) +
                  (head_ * s_.head_dim + k_.lane() % 4u * (q8() ? 8u : 2u));
        if (s_.value_parts() > 1) to = to + value_part_ * (dim_tiles() * 8);
        auto value = [&](uint32_t d, uint32_t column) { return out_[d].get(row * 2 + column) * factor; };
        for (uint32_t d = 0; !q8() && d < dim_tiles(); ++d)
          store_vec(to.offset(d * 8), Vec<float, 2>{value(d, 0), value(d, 1)});
        for (uint32_t d = 0; q8() && d < dim_tiles(); d += 2)  // see KvQ8Operands
          for (uint32_t column = 0; column < 2; ++column)
            store_vec(to.offset(d / 4 * 32 + column * 4 + d % 4),
                      Vec<float, 2>{value(d, column), value(d + 1, column)});
      });
    }
  }

  const PromptAttention& s_;
  Builder<PromptArgs> k_;
  U32 head_, value_part_;
  U32 sequence_, first_row_, rows_, first_;  // of the tile; first_: position of its first row
  U32 lowest_, begin_, end_;                 // positions that some row sees: lowest_ to end_ - 1; begin_: rounded down
  U32 text_, half_;                          // bidirectional: positions of the text, and that a window has on each side
  U32 warp_chunk_;                           // chunk: where that of the warp's last row begins
  std::vector<U32> chunk_first_;             // chunk: where those of the lane's two rows begin
  F32 slope_;                                // slopes: of the head
  U32 warp_first_, group_row_;               // of this warp's rows in the tile, and of this lane's among them
  Shared<uint8_t> stages_;                   // of each: keys, values
  Global<uint8_t> k_at_, v_at_;              // of page 0 and this kv head
  Global<int32_t> table_;                    // of the sequence
  U64 page_bytes_;
  std::optional<Divider> pages_;
  std::vector<A> q_;
  Shared<uint32_t> q_shared_;
  std::vector<OnlineSoftmax> softmax_;  // of the lane's two rows
  std::vector<Acc<float, 16, 8>> out_;
};

}  // namespace

Kernel PromptAttention::build() const {
  check_fields(*this);
  if (kv == kv_q8) check_whole_groups(name, head_dim);
  if (positions % (threads() / 8))
    throw Error("prompt_attention: {} threads copy {} positions at a time, but a step has {}", threads(), threads() / 8,
                positions);
  return Prompt(*this).build();
}

Grid PromptAttention::grid(const PromptArgs& args) const {
  check_prompt_args(name, args, *this);
  const uint64_t blocks = uint64_t(std::max(args.tile_count, 1u)) * parts * args.heads * value_parts() * splits;
  if (blocks > 0x7fffffff) throw Error("prompt_attention: {} blocks, but a grid has at most 2147483647", blocks);
  return {.x = uint32_t(blocks)};  // at least 1: an empty grid cannot be launched
}

PromptAttention prompt_choice(uint32_t head_dim, uint32_t rows, uint32_t exact_q, uint32_t shared_bytes) {
  // two or three blocks per SM: while one computes its softmax, the others keep the matrix units busy
  PromptAttention spec{
      .head_dim = head_dim, .queries = 64, .positions = 64, .resident = head_dim <= 64 ? 3u : 2u, .exact_q = exact_q};
  while (spec.queries > 16 && spec.queries / 2 >= rows) spec.queries /= 2;
  if (head_dim > 128) spec.positions = 32;  // long heads leave too few registers for 64 positions
  while (spec.shared_bytes() * spec.resident > shared_bytes && spec.positions > spec.threads() / 8 &&
         spec.positions > 16)
    spec.positions /= 2;
  while (spec.shared_bytes() > shared_bytes && spec.queries > 16) spec.queries /= 2;
  if (spec.shared_bytes() > shared_bytes)
    throw Error("prompt_attention: {} bytes of shared memory are not enough for heads of {}", shared_bytes, head_dim);
  return spec;
}

uint32_t prompt_splits(const PromptAttention& spec, uint32_t tiles, uint32_t heads, uint32_t longest, uint32_t sms) {
  constexpr uint32_t least = 512;  // positions worth a block
  uint32_t splits = 1;
  const uint64_t blocks = uint64_t(tiles) * heads * spec.value_parts();
  while (splits < 8 && blocks * splits * 2 <= uint64_t(sms) * spec.resident && longest >= splits * 2 * least)
    splits *= 2;
  return splits;
}

void add_prompt_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<PromptAttention>()); }

}  // namespace heddle::kernels
