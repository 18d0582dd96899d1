// Attention of 64 query rows per warp group. Scores of the next step are computed on the matrix units while those of
// this step, as weights, are multiplied with V; weights stay in the registers where the matrix unit leaves the scores.
// K and V are copied row by row into the places that a swizzle of 128 bytes wants, so that pages may have any size and
// positions that do not exist are zeros. A q8 cache becomes f16 on the way.
#include "kernels/attention/wgmma_attention.h"

#include <cmath>

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using WgmmaAttentionArgs = WgmmaAttention::Args;

// Weights and their sum are scaled by 2^14, so that small weights are not subnormal in f16.
constexpr float wgmma_weight_bias = 14;
// Of 168 that a thread has at the start: those that copy give theirs to those that compute.
constexpr uint32_t copier_registers = 40, computer_registers = 232;
constexpr uint32_t computers_meet = 1;  // the named barrier of all that compute

class WgmmaPrompt {
 public:
  explicit WgmmaPrompt(const WgmmaAttention& spec)
      : s_(spec), k_(std::string(spec.name), {.threads = spec.threads, .min_blocks = 1}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    chain_wait(k_, s_.chained);
    U32 heads = k_.arg(&WgmmaAttentionArgs::heads), block = k_.block_id();
    const uint32_t value_parts = s_.value_parts();
    U32 of_tile = heads * value_parts;
    U32 turn = block / of_tile, count = k_.arg(&WgmmaAttentionArgs::tile_count);
    head_ = block - turn * of_tile;
    if (value_parts > 1) {
      value_part_ = head_ % value_parts;
      head_ = head_ / value_parts;
    }
    k_.when(turn < count, [&] {
      auto tile = load_vec<4>((k_.arg(&WgmmaAttentionArgs::tiles) + (count - 1u - turn)).as<uint32_t>());
      for (U32& v : tile) v = k_.assume_uniform(v);
      sequence_ = tile[0];
      first_row_ = tile[1];
      rows_ = tile[2];
      first_ = tile[3];
      if (s_.bidirectional) text_ = k_.assume_uniform(load(k_.arg(&WgmmaAttentionArgs::lengths) + (count - 1u - turn)));
      k_.when(rows_ > 0u, [&] { body(); });
    });
    return k_.finish();
  }

 private:
  bool q8() const { return s_.kv == kv_q8; }
  uint32_t panel_bytes() const { return s_.positions * 128; }
  uint32_t group_bytes() const { return s_.panels(s_.head_dim) * 64 * 128; }  // of a group's q
  uint32_t values_at() const { return s_.stages * s_.key_bytes(); }           // in the ring

  void body() {
    q_ = k_.shared<uint8_t>(WgmmaAttention::groups * group_bytes(), 1024);
    ring_ = k_.shared<uint8_t>(s_.stages * (s_.key_bytes() + s_.value_bytes()), 1024);
    full_ = k_.shared<uint64_t>(2 * s_.stages, 8);
    free_ = k_.shared<uint64_t>(2 * s_.stages, 8);
    if (s_.bidirectional && s_.window) {
      half_ = k_.arg(&WgmmaAttentionArgs::window) >> 1u;
      begin_ = first_ - min(first_, half_);
    } else if (s_.window) {
      U32 seen = first_ + 1u;
      begin_ = seen - min(seen, k_.arg(&WgmmaAttentionArgs::window));
    } else {
      begin_ = k_.constant(0u);
    }
    if (s_.chunk) begin_ = max(begin_, chunk_start(first_));
    end_ = first_ + rows_;
    if (s_.bidirectional) end_ = s_.window ? min(text_, end_ + half_) : text_;
    steps_ = (end_ - begin_ + (s_.positions - 1)) / s_.positions;
    k_.when(k_.thread() == 0u, [&] {
      for (uint32_t i = 0; i < 2 * s_.stages; ++i) {
        Mbarrier{full_.offset(i)}.init(64u);
        Mbarrier{free_.offset(i)}.init(WgmmaAttention::groups * 4);
      }
      fence_mbarrier_init(k_);
    });
    k_.barrier();
    group_ = k_.group();
    k_.when_else(
        group_ == WgmmaAttention::groups,
        [&] {
          release_registers(k_, copier_registers);
          copy();
        },
        [&] {
          take_registers(k_, computer_registers);
          compute();
        });
  }

  // The first position of the chunk in which a position is.
  U32 chunk_start(U32 position) {
    U32 chunk = k_.arg(&WgmmaAttentionArgs::chunk);
    return position / chunk * chunk;
  }

  // --- K and V ---
  // Two warps copy K, two V, half of a step's rows each. Where the rows lie is looked up a step ahead, each row by one
  // lane.
  void copy() {
    U32 page_size = k_.arg(&WgmmaAttentionArgs::page_size), kv_heads = k_.arg(&WgmmaAttentionArgs::kv_heads),
        lane = k_.lane();
    Pred is_k = k_.warp() % 4u < 2u;
    U32 first_row = k_.warp() % 2u * own_rows();
    from_ = {select(is_k, k_.arg(&WgmmaAttentionArgs::k).base, k_.arg(&WgmmaAttentionArgs::v).base)};
    if (q8())
      scales_ = {select(is_k, k_.arg(&WgmmaAttentionArgs::k_scale).base, k_.arg(&WgmmaAttentionArgs::v_scale).base)};
    auto table = k_.arg(&WgmmaAttentionArgs::table) + mul_wide(sequence_, k_.arg(&WgmmaAttentionArgs::table_stride));
    const Divider pages(k_, page_size);
    U32 stage = select(is_k, k_.constant(0u), s_.stages), last = end_ - 1u, page_rows = kv_heads * page_size;
    U32 head_row = head_ / (k_.arg(&WgmmaAttentionArgs::heads) / kv_heads) * page_size;
    // The row of the cache: 2^32 of them have 256 GB or more. Positions behind the last are read there, and become
    // zeros.
    auto look_up = [&](U32 start, uint32_t first) {
      U32 at = min(start + first_row + lane + first, last), entry = pages.divide(at);
      U32 page = bitcast<uint32_t>(load(table + entry));
      return mad(page, page_rows, head_row + (at - entry * page_size));
    };
    std::vector<Var<uint32_t>> next;
    for (uint32_t i = 0; i < own_rows(); i += 32) next.push_back(k_.var(look_up(begin_, i)));
    auto slot = k_.var(0u), parity = k_.var(1u);  // of the phase in which the stage was given back
    k_.loop(0u, steps_, 1u, [&](U32 step) {
      U32 here = slot.get() + stage, start = begin_ + step * s_.positions;
      rows_at_.clear();
      for (auto& v : next) rows_at_.push_back(v.get());
      for (uint32_t i = 0; i < next.size(); ++i) next[i] = look_up(start + s_.positions, i * 32);
      k_.when(step >= s_.stages, [&] { Mbarrier{free_ + here}.wait(k_, parity.get()); });
      U32 place = select(is_k, slot.get() * s_.key_bytes(), slot.get() * s_.value_bytes() + values_at());
      auto to = ring_ + (place + first_row * 128u);
      if (q8()) {
        unpack_q8(is_k, to, start + first_row);
        Mbarrier{full_ + here}.arrive();
      } else {
        copy_f16(is_k, to, start + first_row);
        Mbarrier{full_ + here}.arrive_after_copies();
      }
      advance(slot, parity);
    });
    if (q8()) return;
    copy_commit(k_);
    copy_wait(k_, 0);
  }
  uint32_t own_rows() const { return s_.positions / 2; }  // of a warp
  // The next stage, and the parity of its phase.
  void advance(Var<uint32_t>& slot, Var<uint32_t>& parity) {
    U32 next = slot.get() + 1u;
    Pred wraps = next == s_.stages;
    slot = select(wraps, k_.constant(0u), next);
    parity = select(wraps, parity.get() ^ 1u, parity.get());
  }
  // Of the cache: row i of the warp. All lanes ask for rows from `first` to `last`.
  U32 cache_row(U32 i, uint32_t first, uint32_t last) {
    U32 row = shuffle(rows_at_[first / 32], i & 31u);
    if (first / 32 == last / 32) return row;
    return select(i < last / 32 * 32, row, shuffle(rows_at_[last / 32], i & 31u));
  }

  // 8 lanes take a row, 128 bytes at a time.
  void copy_f16(Pred is_k, Shared<uint8_t> to, U32 start) {
    U32 piece = k_.lane() % 8u, row = k_.lane() / 8u;
    // rows 0 to 3 of each 8, and 4 to 7
    const std::array<Shared<uint8_t>, 2> place{to + (row * 128u + (piece ^ row) * 16u),
                                               to + (row * 128u + (piece ^ (row + 4u)) * 16u)};
    auto from = from_ + piece * 16u;
    if (s_.value_parts() > 1) from = from + values_before(is_k, s_.part_values() * 2);
    U32 row_bytes = k_.constant(s_.head_dim * 2);
    if (s_.values() != s_.head_dim) row_bytes = select(is_k, row_bytes, k_.constant(s_.values() * 2));
    auto left = [](uint32_t dim, uint32_t panel) { return std::min(dim - std::min(dim, panel * 64), 64u) / 8; };
    for (uint32_t i = 0; i < own_rows(); i += 4) {
      U32 valid = select(start + row + i < end_, k_.constant(16u), 0u);
      auto source = from + mul_wide(cache_row(row + i, i, i + 3), row_bytes);
      for (uint32_t panel = 0; panel < s_.panels(std::max(s_.head_dim, s_.part_values())); ++panel) {
        auto one = [&] {
          copy_async<16>(place[i / 4 % 2].offset(panel * panel_bytes() + i * 128), source.offset(panel * 128), valid);
        };
        const uint32_t of_k = left(s_.head_dim, panel), of_v = left(s_.part_values(), panel);  // pieces of the row
        if (of_k == 8 && of_v == 8)
          one();
        else
          k_.when(piece < (of_k == of_v ? k_.constant(of_k) : select(is_k, k_.constant(of_k), of_v)), one);
      }
    }
  }
  // Bytes from the start of a row of the cache to this block's part of it: of V, for all of K is read.
  U32 values_before(Pred is_k, uint32_t part_bytes) { return select(is_k, k_.constant(0u), value_part_ * part_bytes); }
  void unpack_q8(Pred is_k, Shared<uint8_t> to, U32 start) {
    if (s_.part_values() == s_.head_dim) return unpack_q8(to, start, s_.head_dim, k_.constant(0u));
    k_.when_else(
        is_k, [&] { unpack_q8(to, start, s_.head_dim, k_.constant(0u)); },
        [&] { unpack_q8(to, start, s_.part_values(), value_part_ * s_.part_values()); });
  }
  // `dim` values of each row from `before` on, 16 at a time; several loads are under way before the first is used.
  void unpack_q8(Shared<uint8_t> to, U32 start, uint32_t dim, U32 before) {
    const uint32_t pieces = dim / 16, rounds = own_rows() * pieces / 32, together = 4;
    for (uint32_t first = 0; first < rounds; first += together) {
      std::vector<Vec<uint32_t, 4>> words;
      std::vector<F16> scale;
      std::vector<Shared<uint8_t>> place;
      for (uint32_t i = first; i < std::min(rounds, first + together); ++i) {
        U32 item = k_.lane() + i * 32, row = item / pieces, piece = item % pieces;
        U32 from = cache_row(row, i * 32 / pieces, (i * 32 + 31) / pieces);
        words.push_back(
            load_vec<4>((from_ + (mul_wide(from, s_.head_dim) + widen(before + piece * 16u))).as<uint32_t>()));
        U32 group = before / 16u + piece / 2u * 2u;  // a scale of 2 bytes for each 32 values
        F16 own = load((scales_ + (mul_wide(from, s_.head_dim / 16) + widen(group))).as<heddle::f16>());
        scale.push_back(select(start + row < end_, own, to_f16(k_.constant(0.0f))));
        place.push_back(to + (piece / 4u * panel_bytes() + row * 128u + ((piece % 4u * 2u) ^ (row & 7u)) * 16u));
      }
      for (size_t i = 0; i < words.size(); ++i) {
        for (uint32_t half = 0; half < 2; ++half) {
          const auto v = scaled_halves(words[i][half * 2], words[i][half * 2 + 1], scale[i]);
          // the next piece of 8 values is the neighbour in an even place
          auto at = half ? Shared<uint8_t>{place[i].base ^ 16u, place[i].bytes} : place[i];
          store_vec(at.as<uint32_t>(), v);
        }
      }
    }
  }

  // --- one warp group ---
  void compute() {
    warp_first_ = k_.warp() * 16u;  // groups follow each other
    if (s_.softcap) {
      cap_ = k_.arg(&WgmmaAttentionArgs::softcap) * float(std::numbers::log2e);
      to_cap_ = rcp_approx_ftz(cap_);  // from base 2 to fractions of the cap
    }
    load_q();
    fence_async_shared(k_);
    k_.barrier(computers_meet, WgmmaAttention::groups * 128);
    q_at_ = matrix_descriptor(q_ + group_ * group_bytes(), 16, 1024, Swizzle::b128);
    k_at_ = matrix_descriptor(ring_, 16, 1024, Swizzle::b128);
    v_at_ = matrix_descriptor(ring_.offset(values_at()), panel_bytes(), 1024, Swizzle::b128);
    for (uint32_t i = 0; i < 2; ++i) softmax_.emplace_back(k_, 0);
    if (s_.sinks) begin_with_sink();
    if (s_.slopes) slope_ = slope_of(load(k_.arg(&WgmmaAttentionArgs::slopes) + head_));
    if (s_.chunk) {
      U32 top = first_ + warp_first_;
      for (uint32_t row : {0u, 8u}) chunk_first_.push_back(chunk_start(top + k_.lane() / 4u + row));
      warp_chunk_ = chunk_start(top + 15u);
    }
    sums_.emplace(k_, s_.part_values());
    scores_.emplace(k_, s_.positions);

    Place key(k_, 0), value(k_, s_.stages);
    full(key);
    wgmma_fence(k_);
    multiply_keys(key);
    wgmma_wait(k_, 0);
    release(key);
    std::vector<Var<uint32_t>> weights;
    for (U32 w : weigh(begin_).weights) weights.push_back(k_.var(w));
    auto operands = [&] {
      std::vector<std::array<U32, 4>> a;
      for (uint32_t i = 0; i < weights.size(); i += 4)
        a.push_back({weights[i].get(), weights[i + 1].get(), weights[i + 2].get(), weights[i + 3].get()});
      return a;
    };

    k_.loop(1u, steps_, 1u, [&](U32 step) {
      const auto a = operands();
      full(key);
      wgmma_fence(k_);
      multiply_keys(key);
      full(value);
      wgmma_fence(k_);
      add_values(a, value);
      wgmma_wait(k_, 1);
      release(key);
      const Weighed next = weigh(begin_ + step * s_.positions);
      wgmma_wait(k_, 0);
      release(value);
      k_.when(next.raised, [&] {
        for (size_t i = 0; i < sums_->var.size(); ++i) sums_->var[i] *= next.shrink[i / 2 % 2];
      });
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = next.weights[i];
    });
    const auto a = operands();
    full(value);
    wgmma_fence(k_);
    add_values(a, value);
    wgmma_wait(k_, 0);
    write();
  }

  // Of the 4 lanes that share a row one has the sink.
  void begin_with_sink() {
    const F32 sink = load(k_.arg(&WgmmaAttentionArgs::sinks) + head_);
    for (auto& row : softmax_)
      row.begin_with(sink, select(k_.lane() % 4u == 0u, k_.constant(std::exp2(wgmma_weight_bias)), 0.0f));
  }

  // The stage of the next K or V.
  struct Place {
    Place(Code& k, uint32_t first_) : first(first_), slot(k.var(0u)), parity(k.var(0u)) {}
    uint32_t first;
    Var<uint32_t> slot, parity;
  };
  // Waits until it is there, and gives it back.
  void full(const Place& p) {
    Mbarrier{(full_ + p.slot.get()).offset(p.first)}.wait(k_, p.parity.get());
    fence_async_shared(k_);  // the copies were ordinary writes, and the matrix units read them
  }
  void release(Place& p) {
    k_.when(k_.lane() == 0u, [&] { Mbarrier{(free_ + p.slot.get()).offset(p.first)}.arrive(); });
    advance(p.slot, p.parity);
  }

  // q times the scale in base 2 as f16, 8 values at a time.
  void load_q() {
    const F32 factor = k_.arg(&WgmmaAttentionArgs::scale) * float(std::numbers::log2e);
    const uint32_t pieces = s_.head_dim / 8;
    U32 thread = k_.thread() % 128u;
    auto to = q_ + group_ * group_bytes();
    for (uint32_t i = 0; i < 64 * pieces / 128; ++i) {
      U32 item = thread + i * 128, row = item / pieces, piece = item % pieces;
      U32 r = min(group_ * 64u + row, rows_ - 1u);  // padding rows read the last one
      auto from = k_.arg(&WgmmaAttentionArgs::q) + mul_wide(first_row_ + r, k_.arg(&WgmmaAttentionArgs::q_stride)) +
                  (head_ * s_.head_dim + piece * 8u);
      Vec<uint32_t, 4> v;
      for (uint32_t j = 0; j < 4; ++j) {
        auto two = load_vec<2>(from.offset(j * 2));
        v[j] = bitcast<uint32_t>(to_f16x2(two[0] * factor, two[1] * factor));
      }
      store_vec((to + (piece / 8u * (64 * 128) + row * 128u + ((piece ^ row) & 7u) * 16u)).as<uint32_t>(), v);
    }
  }

  // scores = q K of a step
  void multiply_keys(const Place& p) {
    U64 key = k_at_ + widen(p.slot.get() * (s_.key_bytes() / 16));
    for (uint32_t d = 0; d < s_.head_dim; d += 16) {
      const uint32_t panel = d / 64, in_panel = d % 64 * 2;
      wgmma<heddle::f16>(*scores_, q_at_ + uint64_t((panel * 64 * 128 + in_panel) / 16),
                         key + uint64_t((panel * panel_bytes() + in_panel) / 16), d > 0);
    }
    wgmma_commit(k_);
  }
  // sums += weights V of a step
  void add_values(const std::vector<std::array<U32, 4>>& weights, const Place& p) {
    U64 value = v_at_ + widen(p.slot.get() * (s_.value_bytes() / 16));
    for (uint32_t i = 0; i < weights.size(); ++i)
      wgmma<heddle::f16>(*sums_, weights[i], value + uint64_t(i * 16 * 128 / 16), true, {.transpose_b = true});
    wgmma_commit(k_);
  }

  // --- softmax: of each 4 registers a lane has two neighbours in row lane / 4 and two in the row 8 below ---
  struct Weighed {
    std::vector<U32> weights;  // left operands of the products with V, in order
    Pred raised;               // some maximum of the warp is higher than before
    std::array<F32, 2> shrink;
  };
  Weighed weigh(U32 start) {
    if (s_.softcap)
      for (auto& score : scores_->var) score = tanh(score.get() * to_cap_) * cap_;
    if (s_.slopes) slope(start);
    mask(start);
    Weighed w;
    std::array<F32, 2> top;
    for (uint32_t row = 0; row < 2; ++row) {
      F32 even = softmax_[row].max.get(), odd = scores_->get(row * 2 + 1);
      for (size_t i = row * 2; i < scores_->var.size(); i += 4) {
        even = max(even, scores_->get(i));
        if (i >= 4) odd = max(odd, scores_->get(i + 1));
      }
      top[row] = max(even, odd);
      for (uint32_t distance : {1u, 2u}) top[row] = max(top[row], shuffle_xor(top[row], distance));
    }
    w.raised = vote_any(top[0] > softmax_[0].max.get() || top[1] > softmax_[1].max.get());
    std::array<F32, 2> base;
    for (uint32_t row = 0; row < 2; ++row) {
      w.shrink[row] = softmax_[row].raise(top[row]);
      base[row] = top[row] - wgmma_weight_bias;
    }
    std::array<F32, 4> sum;  // two for each row: shorter chains
    for (uint32_t i = 0; i < scores_->var.size(); i += 2) {
      const uint32_t row = i / 2 % 2;
      F32 left = ex2_approx_ftz(scores_->get(i) - base[row]), right = ex2_approx_ftz(scores_->get(i + 1) - base[row]);
      F32& part = sum[i / 2 % 4];
      part = i < 8 ? left + right : part + (left + right);
      w.weights.push_back(bitcast<uint32_t>(to_f16x2(left, right)));
    }
    for (uint32_t row = 0; row < 2; ++row) softmax_[row].sum += sum[row] + sum[row + 2];
    return w;
  }

  // From the lane's first column to the position of one of its two rows.
  S32 columns_to(U32 position, U32 start) { return bitcast<int32_t>(position - start - k_.lane() % 4u * 2u); }

  void slope(U32 start) {
    for (uint32_t row = 0; row < 2; ++row) {
      F32 before = to_f32(columns_to(first_ + warp_first_ + k_.lane() / 4u + row * 8, start));
      for (uint32_t i = row * 2; i < scores_->var.size(); i += 4)
        for (uint32_t column = 0; column < 2; ++column)
          scores_->set(i + column, sloped(scores_->get(i + column), slope_, before - float(i / 4 * 8 + column)));
    }
  }

  // Masks positions that a row does not see. Only steps at the diagonal, at the window's start and end, at the start of
  // a chunk and at the end of a text have some.
  void mask(U32 start) {
    U32 top = first_ + warp_first_;  // the warp's first position
    Pred some = start + (s_.positions - 1) > (s_.bidirectional ? end_ - 1u : top);
    if (s_.bidirectional && s_.window)
      some = some || start + (s_.positions - 1) > top + half_ || top + 15u - start > half_;
    else if (s_.window)
      some = some || top + 15u - start >= k_.arg(&WgmmaAttentionArgs::window);
    if (s_.chunk) some = some || start < warp_chunk_;
    k_.when(some, [&] {
      // columns up to `high` are not behind what the row sees, and those from `low` on not before it
      std::array<S32, 2> high, low;
      for (uint32_t row = 0; row < 2; ++row) {
        high[row] = columns_to(top + k_.lane() / 4u + row * 8, start);
        if (s_.bidirectional && s_.window) {
          const S32 half = bitcast<int32_t>(min(half_, 0x40000000u));
          low[row] = high[row] - half;
          high[row] = min(high[row] + half, columns_to(end_ - 1u, start));
        } else if (s_.bidirectional) {
          high[row] = columns_to(end_ - 1u, start);
        } else if (s_.window) {
          low[row] = high[row] - bitcast<int32_t>(min(k_.arg(&WgmmaAttentionArgs::window), 0x40000000u)) + 1;
        }
        if (s_.chunk) {
          const S32 first = columns_to(chunk_first_[row], start);
          low[row] = s_.window ? max(low[row], first) : first;
        }
      }
      for (uint32_t i = 0; i < scores_->var.size(); ++i) {
        const uint32_t row = i / 2 % 2;
        const int32_t column = int32_t(i / 4 * 8 + i % 2);
        Pred seen = high[row] >= column;
        if (s_.window || s_.chunk) seen = seen && low[row] <= column;
        scores_->set(i, select(seen, scores_->get(i), OnlineSoftmax::masked));
      }
    });
  }

  void write() {
    for (uint32_t row = 0; row < 2; ++row) {
      for (uint32_t distance : {1u, 2u}) softmax_[row].sum += shuffle_xor(softmax_[row].sum.get(), distance);
      F32 factor = rcp_approx_ftz(softmax_[row].sum.get());  // not of 0: a token sees itself
      U32 r = warp_first_ + k_.lane() / 4u + row * 8;
      k_.when(r < rows_, [&] {
        auto to = k_.arg(&WgmmaAttentionArgs::out) + mul_wide(first_row_ + r, k_.arg(&WgmmaAttentionArgs::out_stride)) +
                  (head_ * s_.values() + k_.lane() % 4u * 2u);
        if (s_.value_parts() > 1) to = to + value_part_ * s_.part_values();
        for (uint32_t d = 0; d < s_.part_values() / 8; ++d)
          store_vec(to.offset(d * 8),
                    Vec<float, 2>{sums_->get(d * 4 + row * 2) * factor, sums_->get(d * 4 + row * 2 + 1) * factor});
      });
    }
  }

  const WgmmaAttention& s_;
  Builder<WgmmaAttentionArgs> k_;
  U32 head_, value_part_, group_;
  U32 sequence_, first_row_, rows_, first_;  // of the tile; first_: position of its first row
  U32 begin_, end_, steps_;                  // positions that some row sees, and in how many steps
  U32 text_, half_;                          // bidirectional: positions of the text, and that a window has on each side
  U32 warp_chunk_;                           // chunk: where that of the warp's last row begins
  std::vector<U32> chunk_first_;             // chunk: where those of the lane's two rows begin
  F32 slope_;                                // slopes: of the head
  U32 warp_first_;                           // of this warp's rows in the tile
  Shared<uint8_t> q_;                        // (groups, panels, 64, 128 bytes)
  Shared<uint8_t> ring_;                     // K, then V: (stages, panels, positions, 128 bytes)
  Shared<uint64_t> full_, free_;             // (K and V, stages) of mbarriers
  Global<uint8_t> from_, scales_;            // of the cache, K or V
  std::vector<U32> rows_at_;                 // of the cache, for this step: of row number lane, lane + 32, ...
  U64 q_at_, k_at_, v_at_;                   // descriptors of the group's q, and of the first stage
  F32 cap_, to_cap_;                         // in base 2, and its inverse
  std::vector<OnlineSoftmax> softmax_;       // of the lane's two rows
  std::optional<GroupSums> scores_, sums_;
};

}  // namespace

namespace {

constexpr uint32_t max_shared = 232'448, max_registers = 192;

}  // namespace

uint32_t WgmmaAttention::registers() const { return part_values() / 2 + positions / 2 + positions / 4; }

Kernel WgmmaAttention::build() const {
  check_fields(*this);
  if (kv == kv_q8) check_whole_groups(name, head_dim);
  if (kv == kv_q8 && values() != head_dim)
    throw Error("{}: keys of {} and values of {} from a q8 cache, one size expected", name, head_dim, values());
  if (shared_bytes() > max_shared)
    throw Error("{}: {} stages of {} positions with heads of {} need {} bytes of shared memory, but a block has {}",
                name, stages, positions, head_dim, shared_bytes(), max_shared);
  if (registers() > max_registers)
    throw Error(
        "{}: {} positions with heads of {} take {} registers of a thread for sums, scores and weights, but there "
        "are {}",
        name, positions, values(), registers(), max_registers);
  return WgmmaPrompt(*this).build();
}

Grid WgmmaAttention::grid(const WgmmaAttentionArgs& args) const {
  check_prompt_args(name, args, *this);
  const uint64_t blocks = uint64_t(std::max(args.tile_count, 1u)) * args.heads * value_parts();
  if (blocks > 0x7fffffff) throw Error("{}: {} blocks, but a grid has at most 2147483647", name, blocks);
  return {.x = uint32_t(blocks)};  // at least 1: an empty grid cannot be launched
}

WgmmaAttention wgmma_choice(uint32_t head_dim, uint32_t value_dim) {
  WgmmaAttention spec{.head_dim = head_dim, .value_dim = value_dim == head_dim ? 0 : value_dim};
  while (spec.shared_bytes() > max_shared || spec.registers() > max_registers) spec.positions -= 32;
  return spec;
}

void add_wgmma_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<WgmmaAttention>()); }

}  // namespace heddle::kernels
