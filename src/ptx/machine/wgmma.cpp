// wgmma: one warp's 16 rows of the product of a warp group, with matrices in shared memory found by descriptor.
#include <algorithm>

#include "ptx/machine/cta.h"
#include "ptx/machine/matrix_numbers.h"
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

}  // namespace heddle::ptx::machine
