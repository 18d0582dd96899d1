// A block's shared memory with a shadow: which bytes were written by which thread, which threads have read them
// since, and which belong to a copy under way. A granule is 4 bytes; accesses of 1 or 2 bytes split it into its bytes.
#pragma once
#include <unordered_map>

#include "ptx/machine/machine.h"

namespace heddle::ptx::machine {

inline constexpr uint32_t shared_base = 1024;      // first byte's address, as on sm_90: 0 is not a valid address
inline constexpr uint32_t shared_rank_shift = 24;  // the block's rank in the cluster stands above the address

// Which accesses may meet without a race: atomics and relaxed or stronger ones.
enum class Strength : uint8_t { weak, strong };

class Shared {
 public:
  struct Readers {
    uint32_t warp, count, mask;  // lanes of one warp of the cluster that read at that count
  };
  struct Granule {
    uint32_t writer = 0, written = 0;  // thread of the cluster and its count; written 0: not since the start
    Readers readers{0, 0, 0};
    uint8_t initialised = 0;   // a bit per byte
    bool pending : 1 = false;  // the destination of a copy under way
    bool mbarrier : 1 = false;
    bool strong_write : 1 = false, strong_reads : 1 = false;
    bool split : 1 = false, many_readers : 1 = false;
    uint16_t locked = 0;  // sources of stores and matrix products under way
  };

  void reset(uint32_t bytes) {
    data.assign(bytes, 0xCC);
    granules_.assign((bytes + 3) / 4, {});
    bytes_.clear();
    more_readers_.clear();
  }
  uint32_t size() const { return uint32_t(data.size()); }

  // Checks an access at `offset` by `lane` of `w` and notes it; fails with a report.
  void note_read(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes, Strength s);
  void note_write(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes, Strength s);
  void note_atomic(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes);
  // A read by the matrix unit or the copy engine, started by `lane`: ordinary writes must have been fenced.
  void note_async_read(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes);
  // A copy into [offset, offset + bytes), started by `lane`: checked as a write, then closed to all until landed.
  void begin_copy(Warp& w, uint32_t lane, uint32_t offset, uint32_t bytes);
  // The copy landed; a thread that knows `count` of `writer` may read it.
  void end_copy(uint32_t offset, uint32_t bytes, uint32_t writer, uint32_t count);
  // The source of a store under way may not be written.
  void lock(uint32_t offset, uint32_t bytes, int change);
  void set_mbarrier(uint32_t offset, bool is);

  std::vector<uint8_t> data;

 private:
  template <class F>
  void each(uint32_t offset, uint32_t bytes, F f);
  void read(Warp& w, uint32_t lane, uint32_t offset, Granule& g, uint8_t want, Strength s);
  void write(Warp& w, uint32_t lane, uint32_t offset, Granule& g, uint8_t bits, Strength s);
  void check_free(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, bool writing) const;
  void check_writer(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, Strength s) const;
  void check_readers(Warp& w, uint32_t lane, uint32_t offset, const Granule& g, uint64_t key, Strength s) const;

  std::vector<Granule> granules_;
  std::unordered_map<uint32_t, std::array<Granule, 4>> bytes_;       // of split granules
  std::unordered_map<uint64_t, std::vector<Readers>> more_readers_;  // offset * 2 + split -> readers of other warps
};

// The block and the offset of a shared address; fails if it is outside. `any_block`: of the cluster, else the own one.
struct SharedPlace {
  Cta* cta;
  uint32_t offset;
};
SharedPlace locate(Warp& w, uint32_t lane, uint32_t address, uint32_t bytes, uint32_t align, bool any_block);

}  // namespace heddle::ptx::machine
