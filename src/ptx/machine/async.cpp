// Asynchronous copies and mbarriers. A copy lands as late as it may: cp.async when its group is waited for, a bulk or
// tensor load when a thread polls the mbarrier it reports to, a store when its group is waited for. So a kernel that
// does not wait reads bytes that have not landed, which is reported.
#include <algorithm>

#include "ptx/machine/cta.h"
#include "ptx/machine/tensor.h"

namespace heddle::ptx::machine {
namespace {

using Kind = Report::Kind;

template <class F>
void active_lanes(Warp& w, F f) {
  for (uint32_t m = w.mask; m; m &= m - 1) f(uint32_t(__builtin_ctz(m)));
}
uint32_t u32(const Warp& w, const Step& s, size_t i, uint32_t lane) { return w.read<uint32_t>(s.src[i])[lane]; }
uint64_t u64(const Warp& w, const Step& s, size_t i, uint32_t lane) { return w.read<uint64_t>(s.src[i])[lane]; }

// --- cp.async -----------------------------------------------------------------------------------------------------
void cp_async(Warp& w, const Step& s) {
  const Inst& i = *s.inst;
  active_lanes(w, [&](uint32_t lane) {
    auto [cta, offset] = locate(w, lane, u32(w, s, 0, lane), i.bytes, i.bytes, false);
    uint32_t valid = i.src.size() > 2 ? u32(w, s, 2, lane) : i.bytes;
    if (valid > i.bytes) w.fail(Kind::bad_operand, lane, fmt::format("copies {} of at most {} bytes", valid, i.bytes));
    uint64_t from = u64(w, s, 1, lane);
    if (valid) w.cta->engine->global(w, lane, from, valid, i.bytes, GlobalAccess::read);
    cta->shared.begin_copy(w, lane, offset, i.bytes);
    w.copies[lane].push_back({w.copies_begun[lane]++, w.copy_group[lane], offset, from, i.bytes, valid, &i});
  });
}
void finish(Warp& w, uint32_t lane, const Copy& c) {
  uint8_t* to = w.cta->shared.data.data() + c.to;
  if (c.valid) std::memcpy(to, reinterpret_cast<const uint8_t*>(c.from), c.valid);
  std::memset(to + c.valid, 0, c.bytes - c.valid);
  w.cta->shared.end_copy(c.to, c.bytes, w.cta->cluster_thread(w, lane), w.clock[lane].own);
}
void cp_async_commit(Warp& w, const Step&) {
  active_lanes(w, [&](uint32_t lane) { ++w.copy_group[lane]; });
}
void cp_async_wait(Warp& w, const Step& s) {
  uint32_t remaining = uint32_t(s.inst->src[0].bits);
  active_lanes(w, [&](uint32_t lane) {
    auto& list = w.copies[lane];
    size_t n = 0;
    for (; n < list.size() && list[n].group + remaining < w.copy_group[lane]; ++n) finish(w, lane, list[n]);
    list.erase(list.begin(), list.begin() + std::ptrdiff_t(n));
  });
}

// --- mbarriers ----------------------------------------------------------------------------------------------------
struct Found {
  Cta* cta;
  uint32_t offset;
  Mbarrier& barrier;
};
Found find(Warp& w, uint32_t lane, uint32_t address, bool any_block) {
  auto [cta, offset] = locate(w, lane, address, 8, 8, any_block);
  auto it = cta->mbarriers.find(offset);
  if (it == cta->mbarriers.end())
    w.fail(Kind::bad_operand, lane,
           fmt::format("there is no mbarrier at shared offset {}: it was not initialised", offset));
  Mbarrier& b = it->second;
  if (w.cta->engine->races) {
    uint32_t self = w.cta->cluster_thread(w, lane);
    if (b.init_thread != self && (*w.clock[lane].known)[b.init_thread] < b.init_count)
      w.fail(Kind::race, lane,
             fmt::format("the mbarrier at shared offset {} was initialised by another thread, and nothing in between "
                         "orders the two",
                         offset));
  }
  return {cta, offset, b};
}

void end_phase_if_done(Cta& cta, Mbarrier& b) {
  if (b.pending || b.bytes) return;
  ++b.phase;
  b.pending = b.expected;
  if (cta.engine->clocks && !b.clocks.sum.empty()) b.done = b.clocks.take();
  ++cta.engine->events;
}
void arrive_at(Warp& w, uint32_t lane, const Found& f, uint32_t count) {
  if (int64_t(count) > f.barrier.pending)
    w.fail(Kind::bad_operand, lane,
           fmt::format("{} arrivals at the mbarrier at shared offset {}, which expects only {} more in this phase",
                       count, f.offset, f.barrier.pending));
  if (w.cta->engine->clocks) f.barrier.clocks.add(w.clock[lane], w.cta->cluster_thread(w, lane));
  f.barrier.pending -= count;
  ++w.cta->engine->events;
  end_phase_if_done(*f.cta, f.barrier);
}

void mbarrier_init(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    auto [cta, offset] = locate(w, lane, u32(w, s, 0, lane), 8, 8, false);
    uint32_t count = u32(w, s, 1, lane);
    if (count == 0 || count >= 1u << 20)
      w.fail(Kind::bad_operand, lane, fmt::format("an mbarrier for {} arrivals", count));
    if (cta->mbarriers.contains(offset))
      w.fail(Kind::bad_operand, lane, fmt::format("the mbarrier at shared offset {} is already initialised", offset));
    cta->shared.note_write(w, lane, offset, 8, Strength::weak);
    cta->shared.set_mbarrier(offset, true);
    Mbarrier b;
    b.expected = count;
    b.pending = count;
    b.init_thread = cta->cluster_thread(w, lane);
    b.init_count = w.clock[lane].own;
    cta->mbarriers.emplace(offset, std::move(b));
  });
}
void mbarrier_inval(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    Found f = find(w, lane, u32(w, s, 0, lane), false);
    f.cta->shared.set_mbarrier(f.offset, false);
    f.cta->mbarriers.erase(f.offset);
  });
}
void mbarrier_expect(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) { find(w, lane, u32(w, s, 0, lane), false).barrier.bytes += u32(w, s, 1, lane); });
}
void mbarrier_arrive(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    Found f = find(w, lane, u32(w, s, 0, lane), s.inst->space == Space::cluster);
    uint32_t count = s.inst->src.size() > 1 ? u32(w, s, 1, lane) : 1;
    arrive_at(w, lane, f, count);
  });
}
void mbarrier_arrive_expect(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    Found f = find(w, lane, u32(w, s, 0, lane), s.inst->space == Space::cluster);
    f.barrier.bytes += u32(w, s, 1, lane);
    arrive_at(w, lane, f, 1);
  });
}
void poll(Warp& w, const Step& s) {
  bool all = true;
  uint32_t* out = w.write<uint32_t>(s.dst[0]);
  active_lanes(w, [&](uint32_t lane) {
    Found f = find(w, lane, u32(w, s, 0, lane), false);
    uint32_t parity = u32(w, s, 1, lane);
    if (parity > 1) w.fail(Kind::bad_operand, lane, fmt::format("parity {} of an mbarrier: 0 or 1", parity));
    bool done = (f.barrier.phase & 1) != parity;
    out[lane] = done;
    all &= done;
    if (done && f.barrier.done) w.clock[lane].known = join(w.clock[lane].known, f.barrier.done);
    if (!done) land(*f.cta, f.offset);  // lands only after the first poll, so that the loop around it runs
  });
  w.yielded = !all;
}
void cp_async_mbarrier(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    Found f = find(w, lane, u32(w, s, 0, lane), false);
    if (!s.inst->noinc) ++f.barrier.pending;
    f.cta->arrivals[f.offset].push_back({&w, lane, w.copies_begun[lane]});
  });
}

// --- bulk copies --------------------------------------------------------------------------------------------------
void check_bulk(Warp& w, uint32_t lane, uint32_t bytes) {
  if (bytes == 0 || bytes % 16)
    w.fail(Kind::bad_operand, lane, fmt::format("a bulk copy of {} bytes: not a multiple of 16", bytes));
}
void begin(Warp& w, uint32_t lane, BulkLoad load) {
  for (auto& p : load.pieces) load.to->shared.begin_copy(w, lane, p.offset, p.bytes);
  load.to->loads[load.barrier].push_back(std::move(load));
}
void bulk_load(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    uint32_t bytes = u32(w, s, 2, lane);
    check_bulk(w, lane, bytes);
    auto [cta, offset] = locate(w, lane, u32(w, s, 0, lane), bytes, 16, true);
    const uint8_t* from = w.cta->engine->global(w, lane, u64(w, s, 1, lane), bytes, 16, GlobalAccess::read);
    Found f = find(w, lane, u32(w, s, 3, lane), true);
    if (f.cta != cta)
      w.fail(Kind::bad_operand, lane, "the mbarrier of a bulk copy must be in the block that receives it");
    BulkLoad load{.to = cta, .pieces = {{offset, from, bytes}}, .bytes = bytes, .barrier = f.offset};
    begin(w, lane, std::move(load));
  });
}
void bulk_shared(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    uint32_t bytes = u32(w, s, 2, lane);
    check_bulk(w, lane, bytes);
    auto [cta, offset] = locate(w, lane, u32(w, s, 0, lane), bytes, 16, true);
    auto [source, source_offset] = locate(w, lane, u32(w, s, 1, lane), bytes, 16, false);
    source->shared.note_async_read(w, lane, source_offset, bytes);
    source->shared.lock(source_offset, bytes, 1);
    Found f = find(w, lane, u32(w, s, 3, lane), true);
    if (f.cta != cta)
      w.fail(Kind::bad_operand, lane, "the mbarrier of a bulk copy must be in the block that receives it");
    BulkLoad load{.to = cta,
                  .pieces = {{offset, nullptr, bytes}},
                  .source = source,
                  .source_offset = source_offset,
                  .bytes = bytes,
                  .barrier = f.offset};
    begin(w, lane, std::move(load));
  });
}
void begin_store(Warp& w, uint32_t lane, BulkStore store) {
  for (auto& p : store.pieces) {
    w.cta->shared.note_async_read(w, lane, p.from, p.bytes);
    w.cta->shared.lock(p.from, p.bytes, 1);
  }
  store.group = w.store_group[lane];
  w.stores[lane].push_back(std::move(store));
}
void bulk_store(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    uint32_t bytes = u32(w, s, 2, lane);
    check_bulk(w, lane, bytes);
    auto [cta, offset] = locate(w, lane, u32(w, s, 1, lane), bytes, 16, false);
    uint8_t* to = w.cta->engine->global(w, lane, u64(w, s, 0, lane), bytes, 16, GlobalAccess::write);
    begin_store(w, lane, {.group = 0, .pieces = {{to, offset, bytes}}});
  });
}
void bulk_commit(Warp& w, const Step&) {
  active_lanes(w, [&](uint32_t lane) { ++w.store_group[lane]; });
}
void bulk_wait(Warp& w, const Step& s) {
  uint32_t remaining = uint32_t(s.inst->src[0].bits);
  active_lanes(w, [&](uint32_t lane) {
    auto& list = w.stores[lane];
    size_t n = 0;
    for (; n < list.size() && list[n].group + remaining < w.store_group[lane]; ++n)
      for (auto& p : list[n].pieces) {
        std::memcpy(p.to, w.cta->shared.data.data() + p.from, p.bytes);
        w.cta->shared.lock(p.from, p.bytes, -1);
      }
    list.erase(list.begin(), list.begin() + std::ptrdiff_t(n));
    ++w.cta->engine->events;
  });
}

// --- tensor copies ------------------------------------------------------------------------------------------------
std::array<int32_t, 5> coordinates(Warp& w, const Step& s, size_t first, uint32_t lane, const TensorMapSpec& map) {
  std::array<int32_t, 5> c{};
  for (size_t i = first; i < s.inst->src.size(); ++i) c[i - first] = w.read<int32_t>(s.src[i])[lane];
  if (int64_t(c[0]) * size_of(map.type) % 16)
    w.fail(Kind::misaligned, lane,
           fmt::format("a tensor copy begins at element {} of a row, {} bytes in: not a multiple of 16, an illegal "
                       "instruction on a GPU",
                       c[0], int64_t(c[0]) * size_of(map.type)));
  return c;
}
TensorMapSpec read_map(Warp& w, uint32_t lane, uint64_t address, size_t rank) {
  const Engine& e = *w.cta->engine;
  uint64_t base = uint64_t(reinterpret_cast<uintptr_t>(e.args.data()));
  if (address < base || address + sizeof(TensorMap) > base + e.args.size())
    w.fail(Kind::bad_operand, lane, "a tensor map must be an argument of the kernel");
  TensorMapSpec map;
  std::memcpy(&map, reinterpret_cast<const void*>(address), sizeof map);
  if (std::string why = wrong_with(map); !why.empty()) w.fail(Kind::bad_operand, lane, "tensor map: " + why);
  if (map.rank != rank)
    w.fail(Kind::bad_operand, lane, fmt::format("{} coordinates for a tensor map of rank {}", rank, map.rank));
  return map;
}
void tensor_load(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    TensorMapSpec map = read_map(w, lane, u64(w, s, 1, lane), s.inst->src.size() - 3);
    uint32_t bytes = box_bytes(map);
    auto [cta, offset] = locate(w, lane, u32(w, s, 0, lane), bytes, 128, true);
    Found f = find(w, lane, u32(w, s, 2, lane), true);
    if (f.cta != cta)
      w.fail(Kind::bad_operand, lane, "the mbarrier of a tensor copy must be in the block that receives it");
    BulkLoad load{.to = cta, .pieces = {}, .bytes = bytes, .barrier = f.offset};
    for_each_chunk(map, coordinates(w, s, 3, lane, map), offset,
                   [&](uint32_t at, uint64_t from, uint32_t n, bool inside) {
                     load.pieces.push_back(
                         {at, inside ? w.cta->engine->global(w, lane, from, n, 1, GlobalAccess::read) : nullptr, n});
                   });
    begin(w, lane, std::move(load));
  });
}
void tensor_store(Warp& w, const Step& s) {
  active_lanes(w, [&](uint32_t lane) {
    TensorMapSpec map = read_map(w, lane, u64(w, s, 0, lane), s.inst->src.size() - 2);
    auto [cta, offset] = locate(w, lane, u32(w, s, 1, lane), box_bytes(map), 128, false);
    const std::array<int32_t, 5> first = coordinates(w, s, 2, lane, map);
    if (std::string why = wrong_with_store(map, first); !why.empty()) w.fail(Kind::bad_operand, lane, why);
    BulkStore store{.group = 0, .pieces = {}};
    for_each_chunk(map, first, offset, [&](uint32_t at, uint64_t to, uint32_t n, bool inside) {
      if (inside) store.pieces.push_back({w.cta->engine->global(w, lane, to, n, 1, GlobalAccess::write), at, n});
    });
    begin_store(w, lane, std::move(store));
  });
}
void tensor_prefetch(Warp&, const Step&) {}

}  // namespace

bool land(Cta& cta, uint32_t barrier) {
  Mbarrier& b = cta.mbarriers.at(barrier);
  bool any = false;
  if (auto it = cta.loads.find(barrier); it != cta.loads.end()) {
    for (auto& load : it->second) {
      if (load.source) {
        std::memcpy(cta.shared.data.data() + load.pieces[0].offset,
                    load.source->shared.data.data() + load.source_offset, load.bytes);
        load.source->shared.lock(load.source_offset, load.bytes, -1);
      }
      uint32_t count = ++cta.engine_count;
      for (auto& p : load.pieces) {
        uint8_t* to = cta.shared.data.data() + p.offset;
        if (p.from)
          std::memcpy(to, p.from, p.bytes);
        else if (!load.source)
          std::memset(to, 0, p.bytes);
        cta.shared.end_copy(p.offset, p.bytes, cta.copy_engine(), count);
      }
      if (cta.engine->clocks) {
        if (b.clocks.sum.empty()) b.clocks.sum.resize(cta.warps[0].clock[0].known->size());
        b.clocks.sum[cta.copy_engine()] = count;
      }
      b.bytes -= load.bytes;
      any = true;
    }
    cta.loads.erase(it);
  }
  if (auto it = cta.arrivals.find(barrier); it != cta.arrivals.end()) {
    auto list = std::move(it->second);
    cta.arrivals.erase(it);
    for (auto& a : list) {
      auto& copies = a.warp->copies[a.lane];
      size_t n = 0;
      for (; n < copies.size() && copies[n].number < a.copies_before; ++n) finish(*a.warp, a.lane, copies[n]);
      copies.erase(copies.begin(), copies.begin() + std::ptrdiff_t(n));
      if (cta.engine->clocks) b.clocks.add(a.warp->clock[a.lane], cta.cluster_thread(*a.warp, a.lane));
      --b.pending;
      any = true;
    }
  }
  if (any) {
    ++cta.engine->events;
    end_phase_if_done(cta, b);
  }
  return any;
}

Exec async(const Inst& i) {
  switch (i.op) {
    case Op::cp_async:
      return cp_async;
    case Op::cp_async_commit:
      return cp_async_commit;
    case Op::cp_async_wait:
      return cp_async_wait;
    case Op::cp_async_mbarrier:
      return cp_async_mbarrier;
    case Op::bulk_load:
      return bulk_load;
    case Op::bulk_store:
      return bulk_store;
    case Op::bulk_shared:
      return bulk_shared;
    case Op::tensor_load:
      return tensor_load;
    case Op::tensor_store:
      return tensor_store;
    case Op::tensor_prefetch:
      return tensor_prefetch;
    case Op::bulk_commit:
      return bulk_commit;
    case Op::bulk_wait:
      return bulk_wait;
    case Op::mbarrier_init:
      return mbarrier_init;
    case Op::mbarrier_inval:
      return mbarrier_inval;
    case Op::mbarrier_expect:
      return mbarrier_expect;
    case Op::mbarrier_arrive:
      return mbarrier_arrive;
    case Op::mbarrier_arrive_expect:
      return mbarrier_arrive_expect;
    case Op::mbarrier_test:
    case Op::mbarrier_try:
      return poll;
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine
