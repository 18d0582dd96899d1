// Cases of group_rows, and its timing.
#include <numeric>

#include "kernels/mixture/group_rows.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::ExpertTile;
using kernels::GroupRows;

enum class Choice : uint8_t { any, first, spread };  // the experts of a row: random, always the same, every third only

// Different experts for each row, as a router picks them.
std::vector<uint32_t> picked_experts(Random& random, uint32_t rows, uint32_t used, uint32_t experts, Choice choice) {
  std::vector<uint32_t> ids, order(experts);
  for (uint32_t r = 0; r < rows; ++r) {
    std::iota(order.begin(), order.end(), 0u);
    for (uint32_t j = 0; j < used; ++j) {
      if (choice == Choice::any) std::swap(order[j], order[j + random.below(experts - j)]);
      ids.push_back(choice == Choice::spread ? (r + j) * 3 % experts : order[j]);
    }
  }
  return ids;
}

Case group_rows(GroupRows spec, uint32_t rows, uint32_t used, uint32_t experts, uint32_t tile_rows,
                Choice choice = Choice::any, uint32_t more_slots = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> ids = picked_experts(random, rows, used, experts, choice);
    for (uint32_t p = 0; spec.skips && p < ids.size(); p += 1 + random.below(3)) ids[p] = experts + random.below(2);
    const uint32_t pairs = rows * used, slots = GroupRows::max_slots(pairs, experts, tile_rows) + more_slots;
    const uint32_t max_tiles = GroupRows::max_tiles(pairs, experts, tile_rows);
    const std::vector<float> weights = random.normals(pairs), before(slots, 7.0f);
    const GroupRows::Args args{.list = m.poisoned<uint32_t>(slots),
                               .slot_of = m.poisoned<uint32_t>(pairs),
                               .tiles = m.poisoned<ExpertTile>(max_tiles),
                               .tile_count = m.poisoned<uint32_t>(1),
                               .ids = m.put(ids),
                               .rows = rows,
                               .used = used,
                               .experts = experts,
                               .slots = slots,
                               .tile_rows = tile_rows,
                               .weights = m.put(weights),
                               .slot_weights = m.put(before)};
    m.launch(spec, args);
    std::vector<uint32_t> list, slot_of(pairs, GroupRows::no_row), tiles;
    for (uint32_t e = 0; e < experts; ++e) {
      const auto first = uint32_t(list.size());
      for (uint32_t p = 0; p < pairs; ++p)
        if (ids[p] == e) {
          slot_of[p] = uint32_t(list.size());
          list.push_back(p / used);
        }
      const auto end = uint32_t(list.size());
      for (uint32_t at = first; at < end; at += tile_rows)
        tiles.insert(tiles.end(), {e, at, std::min(end - at, tile_rows), 0});
      list.resize((end + tile_rows - 1) / tile_rows * tile_rows, GroupRows::no_row);
    }
    check.that(list.size() <= slots, fmt::format("{} of {} slots", list.size(), slots));
    list.resize(slots, GroupRows::no_row);
    check.equal("list", m.get(args.list, slots), list);
    check.equal("slot_of", m.get(args.slot_of, pairs), slot_of);
    std::vector<float> of_slots = before;
    for (uint32_t p = 0; spec.weights && p < pairs; ++p)
      if (slot_of[p] != GroupRows::no_row) of_slots[slot_of[p]] = weights[p];
    check.equal("slot_weights", m.get(args.slot_weights, slots), of_slots);
    check.equal("tile_count", m.get(args.tile_count, 1), std::vector<uint32_t>{uint32_t(tiles.size() / 4)});
    check.that(tiles.size() <= size_t(max_tiles) * 4, fmt::format("{} of {} tiles", tiles.size() / 4, max_tiles));
    check.equal("tiles", m.get(ptx::DevicePtr<uint32_t>{args.tiles.address}, tiles.size()), tiles);
  };
  return {"group_rows",
          fmt::format("{} rows={} used={}/{} tile_rows={} choice={} more={}", field_text(spec), rows, used, experts,
                      tile_rows, int(choice), more_slots),
          target_of(spec), run};
}

Bench group_rows_bench(uint32_t rows, uint32_t used, uint32_t experts, uint32_t tile_rows, uint32_t warps) {
  const uint32_t pairs = rows * used;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const uint32_t slots = GroupRows::max_slots(pairs, experts, tile_rows);
    const GroupRows::Args args{.list = m.poisoned<uint32_t>(slots),
                               .slot_of = m.poisoned<uint32_t>(pairs),
                               .tiles = m.poisoned<ExpertTile>(GroupRows::max_tiles(pairs, experts, tile_rows)),
                               .tile_count = m.poisoned<uint32_t>(1),
                               .ids = m.put(picked_experts(random, rows, used, experts, Choice::any)),
                               .rows = rows,
                               .used = used,
                               .experts = experts,
                               .slots = slots,
                               .tile_rows = tile_rows};
    const GroupRows spec{.largest = experts, .warps = warps, .chained = 1};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {"group_rows",
          fmt::format("{} rows, {} of {} experts, {} warps", rows, used, experts, warps),
          "sm_90",
          12.0 * pairs,
          0,
          prepare};
}

}  // namespace

void add_group_rows_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(group_rows({}, 5, 4, 60, 8));
  if (sweep == Sweep::quick) return;
  for (uint32_t largest : {32u, 64u, 128u, 256u, 512u}) {
    cases.push_back(group_rows({.largest = largest, .chained = 1}, 70, 8, largest, 16));
    cases.push_back(group_rows({.largest = largest, .weights = 1, .skips = 1}, 41, 5, largest - 1, 8));
    cases.push_back(group_rows({.largest = largest, .warps = 16}, 33, 3, largest - 5, 64, Choice::spread));
  }
  for (uint32_t tile_rows : {8u, 40u, 128u}) {
    cases.push_back(group_rows({}, 300, 1, 100, tile_rows, Choice::first));  // all rows go to one expert
    cases.push_back(group_rows({.largest = 32}, 200, 2, 4, tile_rows));
    cases.push_back(group_rows({.largest = 32, .weights = 1}, 77, 3, 20, tile_rows));
    cases.push_back(group_rows({.largest = 32}, 129, 8, 8, tile_rows, Choice::any, 13));
  }
  cases.push_back(group_rows({}, 1, 8, 128, 8));
  cases.push_back(group_rows({}, 1, 1, 1, 8));
  cases.push_back(group_rows({}, 0, 8, 128, 64));
  cases.push_back(group_rows({}, 0, 8, 128, 64, Choice::any, 40));
  cases.push_back(group_rows({.largest = 512}, 40, 32, 512, 128));
  if (sweep == Sweep::normal) return;
  cases.push_back(group_rows({.chained = 1}, 4096, 8, 128, 128));
  cases.push_back(group_rows({.largest = 512, .chained = 1}, 4096, 32, 512, 64));
  cases.push_back(group_rows({.chained = 1}, 4096, 1, 128, 64, Choice::first));
}

void add_group_rows_benches(std::vector<Bench>& all) {
  for (uint32_t warps : {16u, 32u})
    for (uint32_t rows : {8u, 64u, 512u, 2048u}) all.push_back(group_rows_bench(rows, 8, 128, 128, warps));
}

}  // namespace heddle::proof
