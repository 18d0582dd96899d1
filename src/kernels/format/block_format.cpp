// What all block formats have in common, and words of a block from any alignment.
#include "kernels/format/block_format.h"

#include "base/error.h"

namespace heddle::kernels {

using namespace ptx;

// What all block formats have in common.

BlockFormat::BlockFormat(quant::Format format, Traits t)
    : values(quant::block_values(format)),
      bytes(quant::block_bytes(format)),
      align(t.align),
      has_min(t.values_per_min > 0),
      values_per_min(t.values_per_min),
      shared_head(t.shared_head),
      apart(t.apart),
      fields(std::move(t.fields)) {}

Lane lane_of(Code& k, U32 index, uint32_t pieces, bool narrow, Loc l) {
  Recorder::Pin pin(k, l);
  U32 piece = narrow ? index >> 2u : index;
  return {.piece = piece & (pieces - 1), .words = narrow ? 1u : 4u, .quarter = narrow ? index & 3u : k.constant(0u)};
}

const BlockFormat& block_format(quant::Format format) {
  for (auto find :
       {block_of_32, super_block, super_block_of_two_bits, block_with_table, block_of_few_bits, block_with_grid})
    if (const BlockFormat* found = find(format)) return *found;
  if (quant::is_float(format)) throw Error("{} has no blocks", quant::name(format));
  throw Error("no kernel reads {}", quant::name(format));
}

std::vector<F32> to_floats(const Run& run, Loc l) {
  Recorder::Pin pin(*run.scale.rec, l);
  std::vector<F32> floats;
  for (U32 q : run.q) {
    U32 bytes = run.has_min ? q : q ^ 0x80808080u;
    for (uint32_t i = 0; i < 4; ++i)
      floats.push_back(byte_above_2_23(bytes, i) - (run.has_min ? 0x1p23f : 0x1p23f + 128));
  }
  return floats;
}

// Words from any alignment: wide accesses where possible, else aligned words combined by byte permutes.

namespace {

using Words = std::vector<U32>;

template <size_t N>
void load_aligned(Words& to, Global<uint8_t> at, uint32_t n, Access how) {
  for (uint32_t i = 0; i < n; i += N)
    for (U32 w : load_vec<N>(at.offset(4 * i).as<uint32_t>(), how)) to.push_back(w);
}

// Either the address is a multiple of 4, and the last word is read as two halves; or it is not, and the first half, the
// aligned words between and the last half are read: n - 1 words and two halves both times.
Words load_from_halves(Global<uint8_t> at, uint32_t n, Access how) {
  U64 address = at.address();
  Global<uint8_t> start{address};
  if (n == 1) return {permute_bytes(load_half(start, how), load_half(start.offset(2), how), 0x5410u)};
  U32 odd = to<uint32_t>(address) & 2u;
  Global<uint8_t> inner = start + odd;
  Words w;
  for (uint32_t i = 0; i + 1 < n; ++i) w.push_back(load(inner.offset(4 * i).as<uint32_t>(), how));
  // of the ends: low half the first of the run if it is odd, else of the last word; high half the last of the run
  U32 first = load_half(start + ((odd ^ 2u) * ((4 * n - 4) / 2)), how);
  U32 ends = permute_bytes(first, load_half(start.offset(4 * n - 2), how), 0x5410u);

  // selectors: the second word as it is (0x7654), or if odd 0x5410, 0x5432, 0x7632: halves that belong together
  U32 head = 0x7654u - odd * 0x1122u, middle = 0x7654u - odd * 0x1111u, tail = 0x7654u - odd * 0x0011u;
  Words result{permute_bytes(ends, w[0], head)};
  for (uint32_t i = 1; i + 1 < n; ++i) result.push_back(permute_bytes(w[i - 1], w[i], middle));
  result.push_back(permute_bytes(w[n - 2], ends, tail));
  return result;
}

// The aligned words from the one that holds the first byte on, and the up to 3 bytes that are still missing.
Words load_from_bytes(Global<uint8_t> at, uint32_t n, Access how) {
  U64 address = at.address();
  U32 skip = to<uint32_t>(address) & 3u;
  Global<uint8_t> down{address - widen(skip)};
  Words w;
  for (uint32_t i = 0; i < n; ++i) w.push_back(load(down.offset(4 * i).as<uint32_t>(), how));
  // bytes 0, 1, 2 of the next word; past the end of the run its last byte is read instead, and not used
  auto byte = [&](uint32_t i) { return load(down + min(skip + (4 * n - 1), 4 * n + i), how); };
  U32 next = permute_bytes(permute_bytes(byte(0), byte(1), 0x0040u), byte(2), 0x0410u);
  w.push_back(next);
  U32 selector = skip * 0x1111u + 0x3210u;
  Words result;
  for (uint32_t i = 0; i < n; ++i) result.push_back(permute_bytes(w[i], w[i + 1], selector));
  return result;
}

}  // namespace

U32 load_half(Global<uint8_t> at, Access how, Loc loc) { return to<uint32_t>(load(at.as<uint16_t>(), how, loc), loc); }

Words load_words(Global<uint8_t> at, uint32_t n, uint32_t align, Access how, Loc loc) {
  Recorder::Pin pin(*at.base.rec, loc);
  check(n == 1 || n == 2 || n == 4 || n == 8, "1, 2, 4 or 8 words");
  if (align == 1) return load_from_bytes(at, n, how);
  if (align == 2) return load_from_halves(at, n, how);
  Words words;
  if (align >= 16 && n % 4 == 0)
    load_aligned<4>(words, at, n, how);
  else if (align >= 8 && n % 2 == 0)
    load_aligned<2>(words, at, n, how);
  else
    for (uint32_t i = 0; i < n; ++i) words.push_back(load(at.offset(4 * i).as<uint32_t>(), how));
  return words;
}

// A byte b in the low half of the f16 1024 is 1024 + b.
std::vector<U32> BlockFormat::halves(const Raw& raw, const Lane& lane, float factor) const {
  std::vector<U32> all;
  for (const Run& run : decode_unsigned(raw, lane)) {
    F16x2 scale = twice_f16(run.scale * factor), less;
    if (run.has_min) less = twice_f16(-run.min * factor);
    for (U32 word : run.q)
      for (uint32_t selector : {0x4240u, 0x4341u}) {
        U32 bytes = run.has_min ? word : word ^ 0x80808080u;
        F16x2 above = bitcast<f16x2>(permute_bytes(bytes, 0x64646464u, selector));
        F16x2 q = above - f16x2{run.has_min ? 0x64006400u : 0x64806480u};
        all.push_back(bitcast<uint32_t>(run.has_min ? fma(q, scale, less) : q * scale));
      }
  }
  return all;
}

}  // namespace heddle::kernels
