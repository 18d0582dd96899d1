// The fetching warp of cluster_attention: one bulk copy per piece, several stages ahead of the computing warps. In a
// chain it begins before the kernels ahead have ended, with all positions but the newest.
#include "kernels/attention/cluster_block.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ClusterArgs = ClusterAttention::Args;

class ClusterFetch {
 public:
  explicit ClusterFetch(ClusterBlock& block)
      : b_(block),
        k_(block.k),
        s_(block.s),
        cache_(k_, s_.layout, b_.row_bytes(),
               s_.mapped ? load(k_.arg(&ClusterArgs::sequence_of) + b_.sequence) : b_.sequence, b_.kv_head) {}

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
      U32 low = s_.window ? select(b_.first > start, min(b_.first - start, b_.positions()), 0u) : k_.constant(0u);
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
      if (s_.window) partial = partial || low > 0u;
      k_.when(partial, [&] {
        clear(keys, high, k_.constant(b_.positions()));
        if (s_.window) clear(keys, k_.constant(0u), low);
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
  // The scales of the kv head, addressed as in KvCache::k() and v().
  U64 scales_of(Pred is_k) {
    U64 before = (cache_.k().base - k_.arg(&ClusterArgs::k).base) >> 4u;
    return select(is_k, k_.arg(&ClusterArgs::k_scale).base, k_.arg(&ClusterArgs::v_scale).base) + before;
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
