// Each warp takes a range of the pairs, twice: first it counts its pairs of each expert, then, when all counts are
// known, it numbers them. Among the 32 pairs that a warp sees at once, those of the same expert are found by match.
#include "kernels/mixture/group_rows.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using GroupArgs = GroupRows::Args;

class GroupWriter {
 public:
  explicit GroupWriter(const GroupRows& s) : s_(s), k_(std::string(GroupRows::name), s.warps * 32) {}

  Kernel write() {
    chain_start(k_, s_.chained);
    counts_ = k_.shared<uint32_t>(s_.warps * s_.largest);
    for (uint32_t e = 0; e < s_.largest; e += 32) store(of_warp(k_.lane() + e), 0u);
    k_.warp_sync();
    pairs_ = k_.arg(&GroupArgs::rows) * k_.arg(&GroupArgs::used);
    U32 each = (pairs_ + (s_.warps * 32 - 1)) / (s_.warps * 32) * 32u;  // pairs of a warp
    begin_ = k_.warp() * each;
    end_ = min(begin_ + each, pairs_);
    chain_wait(k_, s_.chained);
    each_32([&](U32, U32 id, U32 same, Pred first) { k_.when(first, [&] { add_to(of_warp(id), popcount(same)); }); });
    k_.barrier();
    place_experts();
    k_.barrier();
    U32 used = k_.arg(&GroupArgs::used);
    each_32([&](U32 pair, U32 id, U32 same, Pred first) {
      U32 rank = popcount(same & lanes_below());
      auto slot = k_.var(0u);
      k_.when(counts(pair, id), [&] { slot = load(of_warp(id)) + rank; });
      k_.warp_sync();
      k_.when(first, [&] { add_to(of_warp(id), popcount(same)); });
      if (s_.skips)
        k_.when(pair < pairs_ && id == ~0u, [&] { store(k_.arg(&GroupArgs::slot_of) + pair, GroupRows::no_row); });
      k_.when(counts(pair, id), [&] {
        store(k_.arg(&GroupArgs::list) + slot.get(), pair / used);
        store(k_.arg(&GroupArgs::slot_of) + pair, slot.get());
        if (s_.weights) store(k_.arg(&GroupArgs::slot_weights) + slot.get(), load(k_.arg(&GroupArgs::weights) + pair));
      });
    });
    return k_.finish();
  }

 private:
  Shared<uint32_t> of_warp(U32 expert) { return counts_ + (k_.warp() * s_.largest + expert); }
  U32 lanes_below() { return (k_.constant(1u) << k_.lane()) - 1u; }
  static void add_to(Shared<uint32_t> at, U32 more) { store(at, load(at) + more); }
  // Whether a pair gets a slot. Lanes without a pair, and those of one that is skipped, have ~0 for its expert.
  Pred counts(U32 pair, U32 id) { return s_.skips ? id != ~0u : pair < pairs_; }

  // body(pair, its expert, the lanes with that expert, whether this is the first of them) for this warp's pairs, 32 at
  // a time. The next 32 are loaded while these are worked on.
  void each_32(auto&& body) {
    auto next = k_.var(~0u);
    auto load_next = [&](U32 pair) {
      next = ~0u;
      k_.when(pair < end_, [&] {
        const U32 id = load(k_.arg(&GroupArgs::ids) + pair);
        next = s_.skips ? select(id < k_.arg(&GroupArgs::experts), id, ~0u) : id;
      });
    };
    load_next(begin_ + k_.lane());
    k_.loop(begin_, end_, 32u, [&](U32 at) {
      U32 pair = at + k_.lane(), id = next.get();
      load_next(pair + 32u);
      U32 same = match_any(id);
      body(pair, id, same, counts(pair, id) && (same & lanes_below()) == 0u);
      k_.warp_sync();
    });
  }

  // A thread per expert: where its slots and tiles begin, the slots of each warp, the tiles, and the slots without a
  // row.
  void place_experts() {
    U32 expert = k_.thread();
    std::vector<Var<uint32_t>> of_warps;
    auto all = k_.var(0u);
    for (uint32_t w = 0; w < s_.warps; ++w) of_warps.push_back(k_.var(0u));
    k_.when(expert < k_.arg(&GroupArgs::experts), [&] {
      for (uint32_t w = 0; w < s_.warps; ++w) of_warps[w] = load(counts_ + (expert + w * s_.largest));
      for (auto& count : of_warps) all += count.get();
    });
    U32 count = all.get(), size = k_.arg(&GroupArgs::tile_rows), of_expert = (count + size - 1u) / size;
    U32 filled = of_expert * size;
    Scan scan = block_scan(k_, pack<uint64_t>(filled, of_expert));
    auto [slot, tile] = unpack<uint32_t>(scan.before);
    auto [slots, tiles] = unpack<uint32_t>(scan.total);
    k_.when(expert == 0u, [&] { store(k_.arg(&GroupArgs::tile_count), tiles); });
    k_.when(count > 0u, [&] {
      auto at = k_.var(slot);
      for (uint32_t w = 0; w < s_.warps; ++w) {
        store(counts_ + (expert + w * s_.largest), at.get());
        at += of_warps[w].get();
      }
      auto next = k_.var(tile);
      k_.loop(0u, count, size, [&](U32 done) {
        store_vec((k_.arg(&GroupArgs::tiles) + next.get()).as<uint32_t>(),
                  Vec<uint32_t, 4>{expert, slot + done, min(count - done, size), k_.constant(0u)});
        next += 1u;
      });
      k_.loop(count, filled, 1u, [&](U32 i) { store(k_.arg(&GroupArgs::list) + (slot + i), GroupRows::no_row); });
    });
    k_.loop(slots + k_.thread(), k_.arg(&GroupArgs::slots), s_.warps * 32,
            [&](U32 i) { store(k_.arg(&GroupArgs::list) + i, GroupRows::no_row); });
  }

  const GroupRows& s_;
  Builder<GroupArgs> k_;
  Shared<uint32_t> counts_;  // (warps, largest): pairs of each expert, then the next slot
  U32 pairs_, begin_, end_;
};

}  // namespace

Kernel GroupRows::build() const {
  check_fields(*this);
  if (warps * 32 < largest) throw Error("{}: {} warps have too few threads for {} experts", name, warps, largest);
  return GroupWriter(*this).write();
}

Grid GroupRows::grid(const Args& args) const {
  if (args.experts == 0 || args.experts > largest)
    throw Error("{}: {} experts, 1 to {} expected", name, args.experts, largest);
  if (args.used == 0) throw Error("{}: 0 experts for each row", name);
  if (args.tile_rows == 0 || args.tile_rows % 8)
    throw Error("{}: tiles of {} rows, expected a multiple of 8", name, args.tile_rows);
  const uint64_t pairs = uint64_t(args.rows) * args.used;
  if (pairs > 1u << 24)
    throw Error("{}: {} rows with {} experts each are more than {}", name, args.rows, args.used, 1 << 24);
  if (const uint32_t enough = max_slots(uint32_t(pairs), args.experts, args.tile_rows); args.slots < enough)
    throw Error("{}: {} slots, but {} rows with {} of {} experts each may need {}", name, args.slots, args.rows,
                args.used, args.experts, enough);
  if (args.tiles.address % 16) throw Error("{}: tiles must be 16-byte aligned", name);
  return {.x = 1};
}

void add_group_rows_kernels(std::vector<Entry>& all) { all.push_back(entry<GroupRows>()); }

}  // namespace heddle::kernels
