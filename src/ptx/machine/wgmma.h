// Which registers a wgmma holds until wgmma_wait. The interpreter computes a product at once, but a GPU does not:
// until the wait, accumulators may not be touched and A registers not be written; and a wgmma may use registers that
// other instructions have touched only after a wgmma_fence.
#pragma once
#include <cstdint>
#include <vector>

namespace heddle::ptx {

struct Inst;
struct Kernel;
}  // namespace heddle::ptx

namespace heddle::ptx::machine {

struct Cta;
struct Step;
struct Warp;

// One per warp; made when it is first needed.
struct WgmmaState {
  struct Row {
    const Inst* sum = nullptr;  // the last wgmma that had it as accumulator
    uint32_t position = 0;      // and which of its accumulators it was
    uint32_t sum_group = 0;     // the group of that wgmma
    uint32_t sum_epoch = 0;
    const Inst* factor = nullptr;  // the last wgmma that had it in A
    uint32_t factor_group = 0;
    uint32_t read = 0, written = 0;  // epoch of the last access by another instruction
  };
  // A piece of shared memory that a wgmma reads until its group is waited for.
  struct Source {
    uint32_t group;
    Cta* cta;
    uint32_t offset, bytes;
  };

  std::vector<Row> rows;        // by row / 64: a row is at least 64 bytes
  std::vector<Source> sources;  // oldest first
  const Inst* open = nullptr;   // a wgmma that no commit has put in a group yet
  uint32_t epoch = 1;           // one more than the fences so far
  uint32_t committed = 0;       // groups so far; a wgmma now belongs to group committed + 1
  uint32_t complete = 0;        // groups that were waited for

  Row& row(uint32_t at) {
    if (rows.size() <= at / 64) rows.resize(at / 64 + 1);
    return rows[at / 64];
  }
  bool pending(uint32_t group) const { return group > complete; }
};

// The registers that a wgmma of the kernel has as accumulator or in A. Every other instruction that touches one of them
// runs check_wgmma_access first.
std::vector<uint32_t> registers_of_wgmma(const Kernel& kernel);
void check_wgmma_access(Warp& w, const Step& step);

// A wgmma is about to use its registers.
void begin_wgmma(Warp& w, const Step& step);
// The steps themselves.
void wgmma(Warp& w, const Step& step);  // wgmma.cpp
void wgmma_fence(Warp& w, const Step& step);
void wgmma_commit(Warp& w, const Step& step);
void wgmma_wait(Warp& w, const Step& step);

}  // namespace heddle::ptx::machine
