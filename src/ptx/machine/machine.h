// What the files of the interpreter share: a lowered step, a warp's registers, vector clocks, and how an instruction is
// executed.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ptx/interpret.h"
#include "ptx/ir.h"
#include "ptx/machine/wgmma.h"

namespace heddle::ptx::machine {

// Vector clocks: which accesses of other threads a thread knows of. A thread's accesses carry its own count; a barrier
// or an arrival publishes what a thread knows, a wait learns it. Two accesses are ordered if the later thread knows the
// earlier.

// Entry per thread of the cluster, then one per block for its copy engine. Shared by all threads that know the same.
using Clock = std::vector<uint32_t>;
using ClockPtr = std::shared_ptr<const Clock>;

struct ThreadClock {
  ClockPtr known;
  uint32_t own = 1;        // count of the accesses made now
  ClockPtr fence_known;    // what it knew, and
  uint32_t fence_own = 0;  // its own count, at its last proxy fence
  ClockPtr seen;           // published where it read with relaxed order: learnt at the next fence
  bool fenced = false;     // has executed a fence: its relaxed writes publish
};

inline void join_into(Clock& a, const Clock& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
}
inline ClockPtr join(const ClockPtr& a, const ClockPtr& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  auto sum = std::make_shared<Clock>(*a);
  join_into(*sum, *b);
  return sum;
}

// What several threads publish together.
struct ClockSum {
  Clock sum;
  ClockPtr last;  // merged last: most threads that arrive together know the same

  void add(ThreadClock& t, uint32_t thread) {
    if (sum.empty()) sum.resize(t.known->size());
    if (t.known != last) {
      join_into(sum, *t.known);
      last = t.known;
    }
    sum[thread] = std::max(sum[thread], t.own++);
  }
  ClockPtr take() const { return std::make_shared<const Clock>(sum); }
};

// A register is a row of 32 values, one per lane, in the register file of each warp; predicates are rows of uint32_t
// holding 0 or 1; 8-bit values are held widened to 32 bits; f16 and bf16 rows hold uint16_t bits, f32 rows float.
// An immediate is a row of equal values in the program's constant rows.

// An asynchronous copy of one thread: global -> shared (cp.async).
struct Copy {
  uint64_t number;  // of the thread's copies
  uint32_t group;
  uint32_t to;
  uint64_t from;
  uint32_t bytes, valid;
  const Inst* inst;
};
// A bulk or tensor store of one thread: shared -> global.
struct BulkStore {
  struct Piece {
    uint8_t* to;
    uint32_t from, bytes;  // offset in shared memory
  };
  uint32_t group;
  std::vector<Piece> pieces;
};

struct Warp;
struct Step;
using Exec = void (*)(Warp&, const Step&);

// One instruction with its operands resolved to rows.
enum class Control : uint8_t { none, when, otherwise, end_when, loop, test, again, end };
struct Step {
  Exec exec = nullptr;  // null: a control step
  const Inst* inst = nullptr;
  Control control = Control::none;
  uint32_t target = 0;            // control: where to go when no lane is left, or back to the loop's head
  const uint32_t* dst = nullptr;  // row of each destination, as in inst->dst
  const uint32_t* src = nullptr;  // row of each source, as in inst->src
};

struct Cta;  // a thread block: its shared memory, barriers, pending copies (cta.h)

inline constexpr uint32_t constant_row = 0x80000000u;  // set in a row number: it lies in the constant rows

struct Warp {
  uint32_t mask = 0;  // active lanes
  uint8_t* regs = nullptr;
  const uint8_t* constants = nullptr;
  Cta* cta = nullptr;
  uint32_t index = 0;        // in the block
  const Step* at = nullptr;  // being executed

  // Where the warp stands; the engine and the steps that wait use these.
  enum class State : uint8_t { ready, waiting, done } state = State::ready;
  bool yielded = false;  // polled without success: let others run
  uint32_t pc = 0;
  struct Frame {
    uint32_t outer, other;  // mask before the region; mask of the else branch
  };
  std::vector<Frame> frames;
  std::array<ThreadClock, 32> clock;         // what each lane knows of the others
  std::array<std::vector<Copy>, 32> copies;  // cp.async under way, oldest first
  std::array<uint64_t, 32> copies_begun{};
  std::array<uint32_t, 32> copy_group{};          // the group that the next commit closes
  std::array<std::vector<BulkStore>, 32> stores;  // bulk stores under way
  std::array<uint32_t, 32> store_group{};
  std::unique_ptr<WgmmaState> wgmma;                   // null until the warp touches a register of a wgmma
  bool cluster_arrived = false;                        // at the cluster barrier, and has not waited yet
  uint32_t cluster_ticket = 0;                         // the phase it arrived in
  uint32_t after_wait = 0;                             // lanes known to be ordered behind a wait for the launch before
  std::unordered_map<const Step*, uint32_t> promises;  // assume_uniform: how often each was passed

  // The 32 values of a row. T must have the size of the register: uint32_t for predicates and 8-bit values.
  template <class T>
  T* write(uint32_t row) const {
    return reinterpret_cast<T*>(regs + row);
  }
  template <class T>
  const T* read(uint32_t row) const {
    return reinterpret_cast<const T*>(row & constant_row ? constants + (row & ~constant_row) : regs + row);
  }
  uint32_t thread(uint32_t lane) const { return index * 32 + lane; }  // in the block
  bool active(uint32_t lane) const { return mask >> lane & 1; }
  uint32_t first_active() const { return uint32_t(__builtin_ctz(mask)); }
  [[noreturn]] void fail(Report::Kind kind, uint32_t lane, const std::string& what) const;
};

// Lanes do not depend on each other: a destination row may be a source row, but never a shifted one.
#ifdef __clang__
#define HEDDLE_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define HEDDLE_LANES _Pragma("GCC ivdep")
#endif

// d[lane] = f(lane) in every active lane.
template <class D, class F>
inline void each_lane(Warp& w, uint32_t dst, F f) {
  D* d = w.write<D>(dst);
  if (w.mask == ~0u) {
    HEDDLE_LANES for (uint32_t i = 0; i < 32; ++i) d[i] = f(i);
  } else {
    for (uint32_t i = 0; i < 32; ++i)
      if (w.mask >> i & 1) d[i] = f(i);
  }
}

// Each chooses the function that executes an instruction; null if it is not of that family.
Exec arithmetic(const Inst& inst);  // arithmetic.cpp: add .. tanh but for cvt
Exec conversion(const Inst& inst);  // conversion.cpp: cvt, bitcast, pack, unpack
Exec matrix(const Inst& inst);      // matrix.cpp: ldmatrix, stmatrix, mma, wgmma and its fences and groups, setmaxnreg
Exec memory(const Inst& inst);      // memory.cpp
Exec across(const Inst& inst);      // across.cpp: shuffles, votes, barriers
Exec async(const Inst& inst);       // async.cpp: copies and mbarriers

// --- shared memory, for the families that touch it (shared.cpp). Checks bounds, alignment, races, initialisation and
// pending copies; fails with a report. `address` is a shared address as a register holds it.
// Reads / writes `bytes` on behalf of `lane`.
void shared_read(Warp& w, uint32_t lane, uint32_t address, void* to, uint32_t bytes, uint32_t align);
void shared_write(Warp& w, uint32_t lane, uint32_t address, const void* from, uint32_t bytes, uint32_t align);
// The same for the matrix unit and the copy engine, which act for the whole warp group or block: `w` is the warp that
// started the operation.
void shared_read_async(Warp& w, uint32_t address, void* to, uint32_t bytes);

}  // namespace heddle::ptx::machine
