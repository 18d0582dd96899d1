// What a grid being interpreted consists of: the lowered kernel, the engine, clusters, thread blocks, their barriers.
#pragma once
#include <deque>
#include <map>
#include <random>

#include "ptx/launch_chain.h"
#include "ptx/machine/machine.h"
#include "ptx/machine/shared.h"

namespace heddle::ptx::machine {

// A kernel lowered for the interpreter: a straight list of steps with jumps, operands resolved to register rows.

struct Program {
  explicit Program(const Kernel& kernel);
  Program(const Program&) = delete;

  const Kernel& kernel;
  std::vector<Step> steps;
  std::vector<uint8_t> constants;                      // rows of immediates
  std::vector<std::pair<Special, uint32_t>> specials;  // special registers the kernel reads, and their rows
  uint32_t file_bytes = 0;                             // of a warp's register file
  std::vector<uint32_t> pool;                          // rows of all operands; the steps point into it
};

struct Engine;
struct Cluster;

// A barrier of the block (bar.sync).
struct Barrier {
  uint32_t expected = 0, arrived = 0;  // threads; expected 0: none has arrived yet
  std::vector<Warp*> waiting;
  ClockSum clocks;
  uint32_t count = 0;  // barrier_reduce: threads whose predicate holds
};

struct Mbarrier {
  uint32_t expected = 0;  // arrivals per phase
  int64_t pending = 0;    // arrivals still to come in this phase
  int64_t bytes = 0;      // expected bytes that have not landed
  uint32_t phase = 0;
  uint32_t init_thread = 0, init_count = 0;  // the thread that initialised it, and its count then
  ClockSum clocks;
  ClockPtr done;  // what the last phase published
};

// A bulk or tensor copy into shared memory under way: it lands when a thread polls the barrier it reports to.
struct BulkLoad {
  Cta* to;
  struct Piece {
    uint32_t offset;      // in the shared memory of `to`
    const uint8_t* from;  // null: zeros
    uint32_t bytes;
  };
  std::vector<Piece> pieces;
  Cta* source = nullptr;  // shared -> shared: the source block
  uint32_t source_offset = 0;
  uint32_t bytes = 0;    // credited to the barrier
  uint32_t barrier = 0;  // offset of the barrier in `to`
};
// A cp.async.mbarrier.arrive under way: it arrives when the copies that its thread had begun have landed.
struct CopyArrival {
  Warp* warp;
  uint32_t lane;
  uint64_t copies_before;  // number of the first copy that it does not cover
};

struct Cta {
  Engine* engine = nullptr;
  Cluster* cluster = nullptr;
  Grid id;
  uint32_t rank = 0;  // in the cluster
  Shared shared;
  std::vector<Warp> warps;
  std::vector<std::vector<uint64_t>> files;  // register files
  std::array<Barrier, 16> barriers;
  std::map<uint32_t, Mbarrier> mbarriers;                 // offset -> state
  std::map<uint32_t, std::vector<BulkLoad>> loads;        // barrier offset -> copies that report to it
  std::map<uint32_t, std::vector<CopyArrival>> arrivals;  // barrier offset -> arrivals that wait for cp.async
  uint32_t engine_count = 0;                              // copies that have landed in this block
  uint32_t live = 0;                                      // warps not done
  bool waited = false;                                    // a thread has executed grid_wait
  bool started_next = false;                              // one has executed grid_launch, ordered behind no such wait

  uint32_t cluster_thread(const Warp& w, uint32_t lane) const;  // index in the cluster's clocks
  uint32_t copy_engine() const;                                 // its index in the cluster's clocks
};

struct Cluster {
  std::deque<Cta> blocks;
  // The cluster barrier: its phase ends when all threads have arrived.
  uint32_t phase = 0, arrived = 0;
  std::vector<Warp*> waiting;
  ClockSum clocks;
  ClockPtr done;  // what the last phase published
  std::map<std::pair<const Step*, uint32_t>, std::vector<uint64_t>>
      promised;                            // assume_uniform: (step, unit) -> values in order
  std::map<uint64_t, ClockPtr> published;  // address -> what releases at it published
  struct Wait {
    uint32_t thread, count;  // of the cluster, and its count then
  };
  std::vector<Wait> waits;  // for the launch before, by threads of this cluster
  uint32_t live = 0;        // warps not done
};

struct Engine {
  const Program& program;
  const Kernel& kernel;
  Grid grid;
  std::vector<uint8_t> args;
  Memory& memory;
  InterpretOptions options;
  InterpretStats stats;
  uint64_t events = 0;  // writes, arrivals, ends: what another warp may be waiting for
  std::mt19937_64 rng;
  const std::pair<uint64_t, uint64_t>* last_region = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> regions;  // [begin, end) of the buffers
  bool clocks = false;                                 // what threads know of each other is followed
  bool races = false;                                  // and races are looked for

  Engine(const Program& p, Grid g, const void* a, size_t bytes, Memory& m, const InterpretOptions& o);
  // The host address of [address, address + bytes) in global memory; fails with a report if it is not in a buffer.
  uint8_t* global(Warp& w, uint32_t lane, uint64_t address, uint64_t bytes, uint32_t align, GlobalAccess what);
  // Whether the lane is ordered behind a wait for the launch before this one.
  bool after_wait(Warp& w, uint32_t lane);
  // A turn for every cluster that is alive; true if one of them did more than an unsuccessful poll.
  bool round();
  bool done() const { return done_; }  // all blocks have ended
  [[noreturn]] void stuck(Report::Kind kind);

 private:
  void start(Cluster& c, uint64_t index);
  void start(Warp& w, Cta& cta, uint32_t index);
  bool turn(Cluster& c);
  void go(Warp& w, uint32_t steps);
  ClockPtr zero_;
  std::deque<Cluster> pool_;
  std::deque<Cluster*> alive_;
  std::vector<Cluster*> spare_;
  uint64_t next_ = 0;  // cluster to be started
  bool done_ = false;
};
// Runs queues of grids until all have ended, in turns: of each queue the next grid begins when the one before it has
// ended. Whose turn it is follows from the seed of the first grid.
void run(std::span<const std::vector<Engine*>> queues);

// Completes the copies and arrivals that report to the mbarrier at this offset. True if there were any.
bool land(Cta& cta, uint32_t barrier);

}  // namespace heddle::ptx::machine
