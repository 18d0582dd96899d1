// The processor reports an instruction that it lacks as SIGILL. The handler decodes it, changes the registers that the
// kernel saved and will restore, and goes on behind it. Registers of tiles are kept here, for each thread.
#include "tests/cpu/emulated_instructions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace heddle::test {
namespace {

// The number of a general register of an instruction to its place in the saved ones.
constexpr int saved_general[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// What XSAVE calls its components, and where each begins.
enum Component { sse = 1, avx = 2, zmm_high = 6, zmm_16_to_31 = 7 };
uint32_t component_offset(Component component) {
  unsigned size = 0, offset = 0, c = 0, d = 0;
  __get_cpuid_count(0xd, component, &size, &offset, &c, &d);
  return offset;
}
struct Offsets {
  uint32_t avx = component_offset(Component::avx), zmm_high = component_offset(Component::zmm_high),
           zmm_16_to_31 = component_offset(Component::zmm_16_to_31);
};
const Offsets offsets;

// The vector registers that the system saved.
class Vectors {
 public:
  explicit Vectors(void* area) : area_(static_cast<uint8_t*>(area)) {}

  void read(int index, void* to, uint32_t bytes) const {
    for (uint32_t at = 0; at < bytes;) {
      const Segment segment = segment_of(index, at);
      const uint32_t count = bytes - at < segment.bytes ? bytes - at : segment.bytes;
      if (present() >> segment.component & 1)
        std::memcpy(static_cast<uint8_t*>(to) + at, segment.place, count);
      else  // not saved where it is zero
        std::memset(static_cast<uint8_t*>(to) + at, 0, count);
      at += count;
    }
  }
  // What lies above becomes zero, as it does in the processor.
  void write(int index, const void* from, uint32_t bytes) {
    uint8_t all[64] = {};
    std::memcpy(all, from, bytes);
    for (uint32_t at = 0; at < sizeof all;) {
      const Segment segment = segment_of(index, at);
      if (!(present() >> segment.component & 1)) {
        if (at >= bytes) break;  // zero already
        clear(segment.component);
      }
      std::memcpy(segment.place, all + at, segment.bytes);
      at += segment.bytes;
    }
  }

 private:
  struct Segment {
    Component component;
    uint8_t* place;
    uint32_t bytes;
  };
  Segment segment_of(int index, uint32_t at) const {
    if (index >= 16) return {zmm_16_to_31, area_ + offsets.zmm_16_to_31 + (index - 16) * 64 + at, 64 - at};
    if (at < 16) return {sse, area_ + 160 + index * 16, 16};
    if (at < 32) return {avx, area_ + offsets.avx + index * 16, 16};
    return {zmm_high, area_ + offsets.zmm_high + index * 32, 32};
  }
  uint64_t present() const {
    uint64_t bits;
    std::memcpy(&bits, area_ + 512, sizeof bits);
    return bits;
  }
  // A component that was not saved is there from now on, with zeros.
  void clear(Component component) {
    uint8_t* const begin = segment_of(component == zmm_16_to_31 ? 16 : 0, component == avx        ? 16
                                                                          : component == zmm_high ? 32
                                                                                                  : 0)
                               .place;
    std::memset(begin, 0, component == zmm_16_to_31 ? 1024 : component == zmm_high ? 512 : 256);
    const uint64_t bits = present() | uint64_t(1) << component;
    std::memcpy(area_ + 512, &bits, sizeof bits);
  }
  uint8_t* area_;
};

struct Tile {
  uint8_t rows = 0;
  uint16_t row_bytes = 0;
  uint8_t data[16][64];
};
thread_local Tile tiles[8];

// One instruction with a VEX or EVEX prefix, decoded.
struct Instruction {
  bool is_evex = false, wide = false, masked = false, broadcast = false;
  int map = 0, prefix = 0, opcode = 0, length_bits = 0;  // prefix: 0 none, 1 66, 2 F3, 3 F2
  int reg = 0, other = 0;                                // the operands in ModRM.reg and in vvvv
  bool in_memory = false;
  int rm = 0;                        // a register, unless it is in memory
  uint64_t address = 0, stride = 0;  // stride: the index register with its scale, which is in `address` as well
  const uint8_t* end = nullptr;
};

// False: no such instruction. `code` is where it begins.
bool decode(const uint8_t* code, const greg_t* general, Instruction& to) {
  const uint8_t* at = code;
  const int r = ~at[1] >> 7 & 1, x = ~at[1] >> 6 & 1, b = ~at[1] >> 5 & 1;
  int high_r = 0, high_v = 0;
  if (at[0] == 0xc4) {
    to.map = at[1] & 31;
    to.wide = at[2] >> 7;
    to.other = ~at[2] >> 3 & 15;
    to.length_bits = at[2] >> 2 & 1;
    to.prefix = at[2] & 3;
    at += 3;
  } else if (at[0] == 0x62) {
    to.is_evex = true;
    high_r = ~at[1] >> 4 & 1;
    to.map = at[1] & 7;
    to.wide = at[2] >> 7;
    to.other = ~at[2] >> 3 & 15;
    to.prefix = at[2] & 3;
    to.length_bits = at[3] >> 5 & 3;
    to.broadcast = at[3] >> 4 & 1;
    high_v = ~at[3] >> 3 & 1;
    to.masked = at[3] & 0x87;
    at += 4;
  } else {
    return false;
  }
  to.other |= high_v << 4;
  to.opcode = *at++;
  const int mode = *at >> 6, low = *at & 7;
  to.reg = (*at++ >> 3 & 7) | r << 3 | high_r << 4;
  if (mode == 3) {
    to.rm = low | b << 3 | (to.is_evex ? x << 4 : 0);
    to.end = at;
    return true;
  }

  to.in_memory = true;
  bool has_base = true;
  int base = low | b << 3;
  if (low == 4) {
    const int scale = *at >> 6, index = (*at >> 3 & 7) | x << 3;
    base = (*at & 7) | b << 3;
    has_base = mode != 0 || (*at & 7) != 5;
    ++at;
    if (index != 4) to.stride = uint64_t(general[saved_general[index]]) << scale;
  } else if (mode == 0 && low == 5) {
    int32_t displacement;
    std::memcpy(&displacement, at, 4);
    to.end = at + 4;
    to.address = reinterpret_cast<uint64_t>(to.end) + int64_t(displacement);
    return true;
  }
  int64_t displacement = 0;
  if (mode == 1) {
    displacement = int8_t(*at++);
    if (to.is_evex) displacement *= to.broadcast ? 4 : 16 << to.length_bits;
  } else if (mode == 2 || !has_base) {
    int32_t four;
    std::memcpy(&four, at, 4);
    displacement = four;
    at += 4;
  }
  to.address = (has_base ? uint64_t(general[saved_general[base]]) : 0) + to.stride + uint64_t(displacement);
  to.end = at;
  return true;
}

float f32_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
// Products of bf16 take what is subnormal for zero, and give zero for it.
float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }
float f32_of_bf16(uint16_t bits) { return flushed(f32_of(uint32_t(bits) << 16)); }
float multiply_add(float a, float b, float sum) { return flushed(std::fma(a, b, sum)); }
uint16_t bf16_of(float value) {
  const uint32_t bits = bits_of(flushed(value));
  if (std::isnan(value)) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// sum (rows of a, row_bytes / 4 of b) += a b, for bytes with signs.
void add_products_of_bytes(Tile& sum, const Tile& a, const Tile& b) {
  typedef int32_t Words __attribute__((vector_size(64)));
  for (int m = 0; m < sum.rows; ++m) {
    Words total;
    std::memcpy(&total, sum.data[m], 64);
    for (int k = 0; k < a.row_bytes / 4; ++k) {
      Words four;
      std::memcpy(&four, b.data[k], 64);
      for (int byte = 0; byte < 4; ++byte) total += (four << (24 - 8 * byte) >> 24) * int8_t(a.data[m][4 * k + byte]);
    }
    std::memcpy(sum.data[m], &total, sum.row_bytes);
  }
}
// The same for bf16, which are summed in f32, even and odd ones apart.
void add_products_of_bf16(Tile& sum, const Tile& a, const Tile& b) {
  const auto value = [](const Tile& tile, int row, int index) {
    uint16_t bits;
    std::memcpy(&bits, tile.data[row] + 2 * index, 2);
    return f32_of_bf16(bits);
  };
  for (int m = 0; m < sum.rows; ++m)
    for (int n = 0; n < sum.row_bytes / 4; ++n) {
      float even = 0, odd = 0, total;
      for (int k = 0; k < a.row_bytes / 4; ++k) {
        even = multiply_add(value(a, m, 2 * k), value(b, k, 2 * n), even);
        odd = multiply_add(value(a, m, 2 * k + 1), value(b, k, 2 * n + 1), odd);
      }
      std::memcpy(&total, sum.data[m] + 4 * n, 4);
      total = flushed(flushed(total) + flushed(even + odd));
      std::memcpy(sum.data[m] + 4 * n, &total, 4);
    }
}

void load_config(const uint8_t* from) {
  for (int i = 0; i < 8; ++i) {
    tiles[i] = {};
    std::memcpy(&tiles[i].row_bytes, from + 16 + 2 * i, 2);
    tiles[i].rows = from[48 + i];
  }
}

// One that uses registers of tiles.
bool compute_tiles(const Instruction& i) {
  if (i.is_evex || i.map != 2 || i.wide || i.length_bits != 0) return false;
  const auto row = [&](int index) { return reinterpret_cast<uint8_t*>(i.address + uint64_t(index) * i.stride); };
  Tile& tile = tiles[i.reg & 7];
  if (i.opcode == 0x49 && i.prefix == 0 && i.in_memory) {
    load_config(row(0));
  } else if (i.opcode == 0x49 && i.prefix == 3 && !i.in_memory) {
    std::memset(tile.data, 0, sizeof tile.data);
  } else if (i.opcode == 0x4b && i.prefix == 3) {
    std::memset(tile.data, 0, sizeof tile.data);
    for (int r = 0; r < tile.rows; ++r) std::memcpy(tile.data[r], row(r) - i.stride, tile.row_bytes);
  } else if (i.opcode == 0x4b && i.prefix == 2) {
    for (int r = 0; r < tile.rows; ++r) std::memcpy(row(r) - i.stride, tile.data[r], tile.row_bytes);
  } else if (i.opcode == 0x5e && i.prefix == 3 && !i.in_memory) {
    add_products_of_bytes(tile, tiles[i.rm & 7], tiles[i.other & 7]);
  } else if (i.opcode == 0x5c && i.prefix == 2 && !i.in_memory) {
    add_products_of_bf16(tile, tiles[i.rm & 7], tiles[i.other & 7]);
  } else {
    return false;
  }
  return true;
}

// One that uses vectors: vpdpbusd (AVX-VNNI), vdpbf16ps and vcvtne2ps2bf16.
bool compute_vectors(const Instruction& i, Vectors& vectors) {
  if (i.map != 2 || i.wide || i.masked || i.length_bits > 2) return false;
  const bool is_vpdpbusd = !i.is_evex && i.opcode == 0x50 && i.prefix == 1;
  const bool is_vdpbf16ps = i.is_evex && i.opcode == 0x52 && i.prefix == 2;
  const bool is_vcvtne2ps2bf16 = i.is_evex && i.opcode == 0x72 && i.prefix == 3;
  if (!is_vpdpbusd && !is_vdpbf16ps && !is_vcvtne2ps2bf16) return false;  // another may read less memory
  uint8_t a[64], b[64], to[64];
  const uint32_t bytes = 16 << i.length_bits;
  vectors.read(i.other, a, bytes);
  if (!i.in_memory)
    vectors.read(i.rm, b, bytes);
  else if (i.broadcast)
    for (uint32_t at = 0; at < bytes; at += 4) std::memcpy(b + at, reinterpret_cast<const void*>(i.address), 4);
  else
    std::memcpy(b, reinterpret_cast<const void*>(i.address), bytes);
  vectors.read(i.reg, to, bytes);
  const auto bf16_of_vector = [](const uint8_t* from, uint32_t index) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * index, 2);
    return f32_of_bf16(bits);
  };
  if (is_vpdpbusd) {
    for (uint32_t at = 0; at < bytes; at += 4) {
      int32_t sum;
      std::memcpy(&sum, to + at, 4);
      for (int byte = 0; byte < 4; ++byte) sum += a[at + byte] * int8_t(b[at + byte]);
      std::memcpy(to + at, &sum, 4);
    }
  } else if (is_vdpbf16ps) {
    for (uint32_t lane = 0; lane < bytes / 4; ++lane) {
      float sum;
      std::memcpy(&sum, to + 4 * lane, 4);
      for (const uint32_t index : {2 * lane + 1, 2 * lane})
        sum = multiply_add(bf16_of_vector(a, index), bf16_of_vector(b, index), flushed(sum));
      std::memcpy(to + 4 * lane, &sum, 4);
    }
  } else {
    for (uint32_t index = 0; index < bytes / 2; ++index) {
      const bool is_low = index < bytes / 4;
      float value;
      std::memcpy(&value, is_low ? b + 4 * index : a + (4 * index - bytes), 4);
      const uint16_t bits = bf16_of(value);
      std::memcpy(to + 2 * index, &bits, 2);
    }
  }
  vectors.write(i.reg, to, bytes);
  return true;
}

void handle(int, siginfo_t*, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  greg_t& next = machine.gregs[REG_RIP];
  Vectors vectors(machine.fpregs);
  // Coming here takes two microseconds: often the next instruction is one of these as well.
  bool computed = false;
  for (Instruction i; decode(reinterpret_cast<const uint8_t*>(next), machine.gregs, i) &&
                      (compute_tiles(i) || compute_vectors(i, vectors));
       i = {}) {
    next = reinterpret_cast<greg_t>(i.end);
    computed = true;
  }
  if (!computed) signal(SIGILL, SIG_DFL);  // it is met again
}

}  // namespace

void emulate_instructions() {
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace heddle::test
#else
namespace heddle::test {
void emulate_instructions() {}
}  // namespace heddle::test
#endif
