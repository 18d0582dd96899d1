// wgmma: one warp's 16 rows of the product of a warp group, and which registers it holds until the wait.
#include "ptx/machine/wgmma.h"

#include <algorithm>

#include "ptx/machine/cta.h"
#include "ptx/machine/matrix.h"
#include "ptx/tensor_map.h"

namespace heddle::ptx::machine {

namespace {

// Where a matrix lies. It is made of 16-byte chunks; eight rows of chunks repeat as a pattern of 128 bytes (no swizzle)
// or of 8 x width bytes.
struct Descriptor {
  uint32_t start, leading, stride;  // bytes
  Swizzle swizzle;
  uint32_t width;  // of a row of the pattern: 16, 32, 64 or 128 bytes
};

Descriptor decode_descriptor(const Warp& w, uint64_t bits) {
  if (bits >> 49 & 7)
    w.fail(Report::Kind::bad_operand, 0,
           fmt::format("wgmma: descriptor {:#018x} has base offset {}; the interpreter knows tiles on the boundary of "
                       "their pattern only",
                       bits, bits >> 49 & 7));
  constexpr Swizzle code[] = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};
  const Swizzle swizzle = code[bits >> 62];
  return {uint32_t(bits & 0x3fff) << 4, uint32_t(bits >> 16 & 0x3fff) << 4, uint32_t(bits >> 32 & 0x3fff) << 4, swizzle,
          16u << uint32_t(swizzle)};
}

// K-major: chunk `c` (of 2) of row `mn`.
uint32_t k_major(const Descriptor& d, uint32_t mn, uint32_t c) {
  const uint32_t next = d.swizzle == Swizzle::none ? d.leading : 16;
  return swizzled(d.swizzle, d.start + mn / 8 * d.stride + mn % 8 * d.width + c * next);
}
// MN-major: chunk `c` of column `k`. Without swizzle the two distances change their roles.
uint32_t mn_major(const Descriptor& d, uint32_t c, uint32_t k) {
  if (d.swizzle == Swizzle::none) return d.start + c * d.stride + k / 8 * d.leading + k % 8 * 16;
  const uint32_t across = d.width / 16;
  return swizzled(d.swizzle, d.start + c / across * d.leading + c % across * 16 + k / 8 * d.stride + k % 8 * d.width);
}

struct Matrix {
  Warp& w;
  Descriptor at;
  Type type;
  uint32_t k;
  bool transpose;

  // Lines [first, first + count) along m or n; element (line, i) goes to to[line * line_step + i * k_step].
  void read(uint32_t first, uint32_t count, double* to, uint32_t line_step, uint32_t k_step) const {
    const uint32_t per_chunk = 16 / size_of(type);
    uint8_t chunk[16];
    if (transpose) {
      for (uint32_t i = 0; i < k; ++i)
        for (uint32_t line = 0; line < count; line += per_chunk) {
          take(mn_major(at, (first + line) / per_chunk, i), chunk);
          decode(type, chunk, per_chunk, to + line * line_step + i * k_step, line_step);
        }
    } else {
      for (uint32_t line = 0; line < count; ++line)
        for (uint32_t c = 0; c < k / per_chunk; ++c) {
          take(k_major(at, first + line, c), chunk);
          decode(type, chunk, per_chunk, to + line * line_step + c * per_chunk * k_step, k_step);
        }
    }
  }

 private:
  // 16 bytes; they may not be written until the product is waited for.
  void take(uint32_t address, uint8_t* chunk) const {
    shared_read_async(w, address, chunk, 16);
    const SharedPlace place = locate(w, 0, address | w.cta->rank << shared_rank_shift, 16, 16, false);
    place.cta->shared.lock(place.offset, 16, 1);
    w.wgmma->sources.push_back({w.wgmma->committed + 1, place.cta, place.offset, 16});
  }
};

}  // namespace

void wgmma(Warp& w, const Step& step) {
  need_all_lanes(w);
  begin_wgmma(w, step);
  const Inst& inst = *step.inst;
  const uint32_t n = inst.n, k = inst.k, first = w.index % 4 * 16;
  const uint32_t* rest = step.src + (inst.a_shared ? 1 : 4);
  const auto descriptor = [&](uint32_t row) {
    return decode_descriptor(w, one_value<uint64_t>(w, row, "matrix descriptor"));
  };

  double a[16 * 32];   // (16, k)
  double b[32 * 256];  // (k, n)
  double sum[16 * 256];
  if (inst.a_shared)
    Matrix{w, descriptor(step.src[0]), inst.a_type, k, inst.transpose_a}.read(first, 16, a, k, 1);
  else
    load_fragment(w, inst.a_type, step.src, 4, 8, a);
  if (inst.negate_a != inst.negate_b)
    for (uint32_t i = 0; i < 16 * k; ++i) a[i] = -a[i];
  Matrix{w, descriptor(rest[0]), inst.b_type, k, inst.transpose_b}.read(0, n, b, 1, n);

  if (one_value<uint32_t>(w, rest[1], "predicate that adds to the old sum"))
    load_accumulator(w, inst.type, step.dst, inst.dst.size(), n, sum);
  else
    std::fill_n(sum, 16 * n, 0.0);
  multiply(16, n, k, a, b, sum);
  store_accumulator(w, inst.type, step.dst, inst.dst.size(), n, sum);
}

namespace {

WgmmaState& state(Warp& w) {
  if (!w.wgmma) w.wgmma = std::make_unique<WgmmaState>();
  return *w.wgmma;
}

std::string place_in_tile(const Inst* inst) { return fmt::format("{}:{}", inst->file, inst->line); }

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
                          place_in_tile(row.sum)));
    row.read = s.epoch;
  }
  for (size_t i = 0; i < inst.dst.size(); ++i) {
    auto& row = s.row(step.dst[i]);
    if (row.sum && s.pending(row.sum_group))
      fail(w, fmt::format("{} writes an accumulator of the wgmma at {} before a wgmma_wait for it", name(inst.op),
                          place_in_tile(row.sum)));
    if (row.factor && s.pending(row.factor_group))
      fail(w, fmt::format("{} writes a register that the wgmma at {} may still read: no wgmma_wait for it yet",
                          name(inst.op), place_in_tile(row.factor)));
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
                          place_in_tile(row.sum)));
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
                       place_in_tile(row.factor)));
    const bool same = row.sum && row.position == i && same_shape(*row.sum, inst);
    if (row.sum && s.pending(row.sum_group) && !same)
      fail(w,
           fmt::format("wgmma shares an accumulator with the one at {}, which has another shape and no wgmma_wait yet",
                       place_in_tile(row.sum)));
    if (row.sum && row.sum_epoch == s.epoch && !same)
      fail(w,
           fmt::format(
               "wgmma shares an accumulator with the one at {}, which has another shape, and no wgmma_fence is between",
               place_in_tile(row.sum)));
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
    fail(w, fmt::format("wgmma_wait does not wait for the wgmma at {}: no wgmma_commit since", place_in_tile(s.open)));
  const uint64_t remaining = step.inst->src[0].bits;
  if (s.committed > remaining) s.complete = std::max(s.complete, s.committed - uint32_t(remaining));
  auto done = s.sources.begin();
  for (; done != s.sources.end() && !s.pending(done->group); ++done)
    done->cta->shared.lock(done->offset, done->bytes, -1);
  s.sources.erase(s.sources.begin(), done);
}

}  // namespace heddle::ptx::machine
