#include "ptx/machine/wgmma_state.h"

#include <algorithm>

#include "ptx/machine/cta.h"
#include "ptx/machine/matrix_numbers.h"

namespace heddle::ptx::machine {

namespace {

WgmmaState& state(Warp& w) {
  if (!w.wgmma) w.wgmma = std::make_unique<WgmmaState>();
  return *w.wgmma;
}

std::string place(const Inst* inst) { return fmt::format("{}:{}", inst->file, inst->line); }

bool same_shape(const Inst& a, const Inst& b) { return a.n == b.n && a.k == b.k && a.type == b.type; }

uint32_t a_registers(const Inst& wgmma) { return wgmma.a_shared ? 0 : 4; }

// Collects over the whole tree.
void collect(const ptx::Block& block, std::vector<uint32_t>& found) {
  for (const Inst& inst : block) {
    if (inst.op == Op::wgmma) {
      for (const Operand& d : inst.dst) found.push_back(d.reg);
      for (uint32_t i = 0; i < a_registers(inst); ++i)
        if (inst.src[i].kind == Operand::Kind::reg) found.push_back(inst.src[i].reg);
    }
    for (const ptx::Block* inner : {&inst.body, &inst.otherwise, &inst.head}) collect(*inner, found);
  }
}

[[noreturn]] void fail(const Warp& w, const std::string& what) {
  w.fail(Report::Kind::not_waited, w.first_active(), what);
}

}  // namespace

std::vector<uint32_t> registers_of_wgmma(const Kernel& kernel) {
  std::vector<uint32_t> found;
  collect(kernel.body, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void check_wgmma_access(Warp& w, const Step& step) {
  WgmmaState& s = state(w);
  const Inst& inst = *step.inst;
  for (size_t i = 0; i < inst.src.size(); ++i) {
    if (inst.src[i].kind != Operand::Kind::reg || step.src[i] & constant_row) continue;
    auto& row = s.row(step.src[i]);
    if (row.sum && s.pending(row.sum_group))
      fail(w, fmt::format("{} reads an accumulator of the wgmma at {} before a wgmma_wait for it", name(inst.op),
                          place(row.sum)));
    row.read = s.epoch;
  }
  for (size_t i = 0; i < inst.dst.size(); ++i) {
    auto& row = s.row(step.dst[i]);
    if (row.sum && s.pending(row.sum_group))
      fail(w, fmt::format("{} writes an accumulator of the wgmma at {} before a wgmma_wait for it", name(inst.op),
                          place(row.sum)));
    if (row.factor && s.pending(row.factor_group))
      fail(w, fmt::format("{} writes a register that the wgmma at {} may still read: no wgmma_wait for it yet",
                          name(inst.op), place(row.factor)));
    row.written = s.epoch;
  }
}

void begin_wgmma(Warp& w, const Step& step) {
  WgmmaState& s = state(w);
  const Inst& inst = *step.inst;
  const uint32_t group = s.committed + 1;
  if (s.epoch == 1) fail(w, "the first wgmma needs a wgmma_fence before it");

  for (uint32_t i = 0; i < a_registers(inst); ++i) {
    if (step.src[i] & constant_row) continue;
    auto& row = s.row(step.src[i]);
    if (row.sum && s.pending(row.sum_group))
      fail(w, fmt::format("wgmma takes A from an accumulator of the wgmma at {} before a wgmma_wait for it",
                          place(row.sum)));
    if (row.written == s.epoch || (row.sum && row.sum_epoch == s.epoch))
      fail(w, "wgmma takes A from a register that was written since the last wgmma_fence");
    row.factor = &inst;
    row.factor_group = group;
  }
  for (uint32_t i = 0; i < inst.dst.size(); ++i) {
    auto& row = s.row(step.dst[i]);
    if (row.factor && s.pending(row.factor_group))
      fail(w,
           fmt::format("wgmma accumulates in a register that the wgmma at {} may still read: no wgmma_wait for it yet",
                       place(row.factor)));
    const bool same = row.sum && row.position == i && same_shape(*row.sum, inst);
    if (row.sum && s.pending(row.sum_group) && !same)
      fail(w,
           fmt::format("wgmma shares an accumulator with the one at {}, which has another shape and no wgmma_wait yet",
                       place(row.sum)));
    if (row.sum && row.sum_epoch == s.epoch && !same)
      fail(w,
           fmt::format(
               "wgmma shares an accumulator with the one at {}, which has another shape, and no wgmma_fence is between",
               place(row.sum)));
    if (row.written == s.epoch || row.read == s.epoch)
      fail(w, fmt::format("wgmma accumulates in a register that was {} since the last wgmma_fence",
                          row.written == s.epoch ? "written" : "read"));
    row.sum = &inst;
    row.position = i;
    row.sum_group = group;
    row.sum_epoch = s.epoch;
  }
  s.open = &inst;
}

void wgmma_fence(Warp& w, const Step&) {
  need_all_lanes(w);
  ++state(w).epoch;
}

void wgmma_commit(Warp& w, const Step&) {
  need_all_lanes(w);
  WgmmaState& s = state(w);
  ++s.committed;
  s.open = nullptr;
}

void wgmma_wait(Warp& w, const Step& step) {
  need_all_lanes(w);
  WgmmaState& s = state(w);
  if (s.open)
    fail(w, fmt::format("wgmma_wait does not wait for the wgmma at {}: no wgmma_commit since", place(s.open)));
  const uint64_t remaining = step.inst->src[0].bits;
  if (s.committed > remaining) s.complete = std::max(s.complete, s.committed - uint32_t(remaining));
  auto done = s.sources.begin();
  for (; done != s.sources.end() && !s.pending(done->group); ++done)
    done->cta->shared.lock(done->offset, done->bytes, -1);
  s.sources.erase(s.sources.begin(), done);
}

}  // namespace heddle::ptx::machine
