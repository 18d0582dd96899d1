#include "ptx/machine/shared.h"

#include "ptx/machine/cta.h"

namespace heddle::ptx::machine {
namespace {

using Kind = Report::Kind;

std::string thread_name(const Cta& cta, uint32_t thread) {
  uint32_t threads = cta.engine->kernel.threads(), rank = thread / threads;
  if (thread >= threads * uint32_t(cta.cluster->blocks.size())) return "a copy";
  return rank == cta.rank ? fmt::format("thread {}", thread % threads)
                          : fmt::format("thread {} of block {} of the cluster", thread % threads, rank);
}

bool knows(const ThreadClock& c, uint32_t self, uint32_t thread, uint32_t count) {
  return thread == self || (*c.known)[thread] >= count;
}

}  // namespace

// f(granule, bytes wanted as bits, offset). A whole granule that is split is seen as its four bytes.
template <class F>
void Shared::each(uint32_t offset, uint32_t bytes, F f) {
  for (uint32_t end = offset + bytes; offset < end;) {
    uint32_t index = offset / 4, first = offset % 4, n = std::min(4 - first, end - offset);
    Granule& g = granules_[index];
    if (n == 4 && !g.split) {
      f(g, uint8_t(15), offset);
    } else {
      if (!g.split) {
        auto& parts = bytes_[index];
        for (uint32_t i = 0; i < 4; ++i) {
          parts[i] = g;
          parts[i].initialised = g.initialised >> i & 1;
          parts[i].split = true;
          if (g.many_readers) more_readers_[uint64_t(index * 4 + i) * 2 + 1] = more_readers_[uint64_t(index * 4) * 2];
        }
        g.split = true;
      }
      auto& parts = bytes_[index];
      for (uint32_t i = 0; i < n; ++i) f(parts[first + i], uint8_t(1), offset + i);
    }
    offset += n;
  }
}

void Shared::check_free(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, bool writing) const {
  if (g.pending)
    w.fail(Kind::not_waited, lane,
           fmt::format("shared byte {} is the destination of a copy that was not waited for", offset));
  if (writing && g.locked)
    w.fail(Kind::not_waited, lane,
           fmt::format("shared byte {} is the source of a store or product that was not waited for", offset));
  if (g.mbarrier) w.fail(Kind::bad_operand, lane, fmt::format("shared byte {} belongs to an mbarrier", offset));
}

void Shared::check_writer(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, Strength s) const {
  if (!g.written || (g.strong_write && s == Strength::strong)) return;
  const Cta& cta = *w.cta;
  uint32_t self = cta.cluster_thread(w, lane);
  if (knows(w.clock[lane], self, g.writer, g.written)) return;
  if (g.writer >= uint32_t(cta.cluster->blocks.size()) * cta.engine->kernel.threads())
    w.fail(Kind::not_waited, lane,
           fmt::format("shared byte {} was brought by a copy whose mbarrier this thread has not waited for", offset));
  w.fail(Kind::race, lane,
         fmt::format("shared byte {} was written by {} with nothing in between that orders the two", offset,
                     thread_name(cta, g.writer)));
}

void Shared::check_readers(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, uint64_t key, Strength s) const {
  if (!g.readers.mask || (g.strong_reads && s == Strength::strong)) return;
  const Cta& cta = *w.cta;
  uint32_t self = cta.cluster_thread(w, lane);
  auto check = [&](const Readers& r) {
    for (uint32_t m = r.mask; m; m &= m - 1) {
      uint32_t t = r.warp * 32 + uint32_t(__builtin_ctz(m));
      if (!knows(w.clock[lane], self, t, r.count))
        w.fail(Kind::race, lane,
               fmt::format("shared byte {} is written after {} read it, with nothing in between that orders the two",
                           offset, thread_name(cta, t)));
    }
  };
  check(g.readers);
  if (g.many_readers)
    for (auto& r : more_readers_.at(key)) check(r);
}

void Shared::read(Warp& w, uint32_t lane, uint32_t offset, Granule& g, uint8_t want, Strength s) {
  check_free(w, lane, offset, g, false);
  if ((g.initialised & want) != want)
    w.fail(Kind::uninitialised, lane,
           fmt::format("shared byte {} is read before anything wrote it",
                       offset + uint32_t(__builtin_ctz(uint32_t(~g.initialised & want)))));
  if (!w.cta->engine->races) return;
  check_writer(w, lane, offset, g, s);
  const ThreadClock& c = w.clock[lane];
  uint32_t self = w.cta->cluster_thread(w, lane), warp = self / 32, bit = 1u << self % 32;
  if (g.readers.mask && g.readers.warp == warp && g.readers.count == c.own) {
    g.readers.mask |= bit;
    g.strong_reads = g.strong_reads && s == Strength::strong;
    return;
  }
  bool ordered = true;  // are all noted reads known to this thread? then it can stand for them
  for (uint32_t m = g.readers.mask; m && ordered; m &= m - 1)
    ordered = knows(c, self, g.readers.warp * 32 + uint32_t(__builtin_ctz(m)), g.readers.count);
  uint64_t key = uint64_t(offset) * 2 + g.split;
  if (ordered && !g.many_readers) {
    g.readers = {warp, c.own, bit};
    g.strong_reads = s == Strength::strong;
    return;
  }
  auto& more = more_readers_[key];
  if (!g.many_readers) more.clear();
  g.many_readers = true;
  g.strong_reads = g.strong_reads && s == Strength::strong;
  for (auto& r : more)
    if (r.warp == warp && r.count == c.own) return void(r.mask |= bit);
  more.push_back({warp, c.own, bit});
}

void Shared::write(Warp& w, uint32_t lane, uint32_t offset, Granule& g, uint8_t bits, Strength s) {
  check_free(w, lane, offset, g, true);
  if (w.cta->engine->races) {
    check_writer(w, lane, offset, g, s);
    check_readers(w, lane, offset, g, uint64_t(offset) * 2 + g.split, s);
    g.writer = w.cta->cluster_thread(w, lane);
    g.written = w.clock[lane].own;
    g.strong_write = s == Strength::strong;
    g.readers.mask = 0;
    g.many_readers = false;
  }
  g.initialised |= bits;
}

void Shared::note_read(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes, Strength s) {
  each(offset, bytes, [&](Granule& g, uint8_t want, uint32_t at) { read(w, lane, at, g, want, s); });
}
void Shared::note_write(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes, Strength s) {
  each(offset, bytes, [&](Granule& g, uint8_t bits, uint32_t at) { write(w, lane, at, g, bits, s); });
}
void Shared::note_atomic(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes) {
  each(offset, bytes, [&](Granule& g, uint8_t want, uint32_t at) {
    if ((g.initialised & want) != want)
      w.fail(Kind::uninitialised, lane, fmt::format("atomic on shared byte {} before anything wrote it", at));
    write(w, lane, at, g, want, Strength::strong);
  });
}

void Shared::note_async_read(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes) {
  const ThreadClock& c = w.clock[lane];
  const Cta& cta = *w.cta;
  uint32_t self = cta.cluster_thread(w, lane), threads = cta.engine->kernel.threads();
  each(offset, bytes, [&](Granule& g, uint8_t want, uint32_t at) {
    read(w, lane, at, g, want, Strength::weak);
    if (!cta.engine->races || !g.written || g.writer >= uint32_t(cta.cluster->blocks.size()) * threads) return;
    // The fence may be the writer's, after the write, or the reader's, after it learnt of the write.
    const Warp& writer = cta.cluster->blocks[g.writer / threads].warps[g.writer % threads / 32];
    if (writer.clock[g.writer % 32].fence_own > g.written) return;
    if (c.fence_known && (g.writer == self ? c.fence_own > g.written : (*c.fence_known)[g.writer] >= g.written)) return;
    w.fail(Kind::no_proxy_fence, lane,
           fmt::format("shared byte {} was written by {} and is read by the copy engine or matrix unit without a "
                       "fence_async_shared in between",
                       at, thread_name(cta, g.writer)));
  });
}

void Shared::begin_copy(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes) {
  each(offset, bytes, [&](Granule& g, uint8_t bits, uint32_t at) {
    write(w, lane, at, g, bits, Strength::weak);
    g.pending = true;
  });
}
void Shared::end_copy(uint32_t offset, uint32_t bytes, uint32_t writer, uint32_t count) {
  each(offset, bytes, [&](Granule& g, uint8_t, uint32_t) {
    g.pending = false;
    g.writer = writer;
    g.written = count;
    g.strong_write = false;
  });
}
void Shared::lock(uint32_t offset, uint32_t bytes, int change) {
  each(offset, bytes, [&](Granule& g, uint8_t, uint32_t) { g.locked = uint16_t(g.locked + change); });
}
void Shared::set_mbarrier(uint32_t offset, bool is) {
  each(offset, 8, [&](Granule& g, uint8_t, uint32_t) {
    g.mbarrier = is;
    if (!is) g.initialised = 0;
  });
}

SharedPlace locate(Warp& w, uint32_t lane, uint32_t address, uint32_t bytes, uint32_t align, bool any_block) {
  Cta* cta = w.cta;
  uint32_t rank = address >> shared_rank_shift, low = address & ((1u << shared_rank_shift) - 1);
  uint32_t offset = low - shared_base;
  if (rank != cta->rank) {
    if (!any_block)
      w.fail(Kind::out_of_bounds, lane,
             fmt::format("shared address {:#x} is not in this block's shared memory", address));
    if (rank >= cta->cluster->blocks.size())
      w.fail(Kind::out_of_bounds, lane,
             fmt::format("shared address {:#x} names block {} of a cluster of {}", address, rank,
                         cta->cluster->blocks.size()));
    cta = &cta->cluster->blocks[rank];
    if (!cta->live)
      w.fail(Kind::out_of_bounds, lane,
             fmt::format("block {} of the cluster has ended, its shared memory is gone", rank));
  }
  if (low < shared_base || uint64_t(offset) + bytes > cta->shared.size())
    w.fail(Kind::out_of_bounds, lane,
           fmt::format("{} bytes at shared offset {} of {}", bytes, int64_t(low) - int64_t(shared_base),
                       cta->shared.size()));
  if (offset % align)
    w.fail(Kind::misaligned, lane, fmt::format("shared offset {} is not a multiple of {}", offset, align));
  return {cta, offset};
}

void shared_read(Warp& w, uint32_t lane, uint32_t address, void* to, uint32_t bytes, uint32_t align) {
  auto [cta, offset] = locate(w, lane, address, bytes, align, false);
  cta->shared.note_read(w, lane, offset, bytes, Strength::weak);
  std::memcpy(to, cta->shared.data.data() + offset, bytes);
}
void shared_write(Warp& w, uint32_t lane, uint32_t address, const void* from, uint32_t bytes, uint32_t align) {
  auto [cta, offset] = locate(w, lane, address, bytes, align, false);
  cta->shared.note_write(w, lane, offset, bytes, Strength::weak);
  std::memcpy(cta->shared.data.data() + offset, from, bytes);
  ++w.cta->engine->events;
}
void shared_read_async(Warp& w, uint32_t address, void* to, uint32_t bytes) {
  // Descriptors hold 18 bits of the address: always the own block.
  uint32_t own = (address & ((1u << 18) - 1)) | w.cta->rank << shared_rank_shift, lane = w.first_active();
  auto [cta, offset] = locate(w, lane, own, bytes, 1, false);
  cta->shared.note_async_read(w, lane, offset, bytes);
  std::memcpy(to, cta->shared.data.data() + offset, bytes);
}

}  // namespace heddle::ptx::machine
