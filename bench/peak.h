// What one core can do at most: products per second of the instruction that the kernels of an instruction set are made
// of, with weights that come from the first cache, and bytes per second that it reads.
#pragma once
#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>
#include <vector>

#include "cpu/isa.h"

namespace heddle::bench {

// The least CPU time in seconds of some calls.
template <class Call>
double seconds_of(Call&& call) {
  double least = 1e9;
  for (int i = 0; i < 20; ++i) {
    const std::clock_t begin = std::clock();
    call();
    least = std::min(least, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

inline double bytes_per_second(const cpu::Isa& isa) {
  const std::vector<uint8_t> bytes(64 << 20, 1);  // more than the caches of a core
  volatile uint64_t keep = 0;
  return double(bytes.size()) / seconds_of([&] { keep = isa.read_all(bytes.data(), bytes.size()); });
}

constexpr int peak_rounds = 200000;

#if defined(__aarch64__)
// Operands are loaded each time: those that have long been there are read from the registers, which a Neoverse V1 does
// for two instructions in a cycle, not four.
#define HEDDLE_PEAK(op, type, products)                                                                                \
  for (int i = 0; i < peak_rounds; ++i)                                                                                \
    asm volatile(                                                                                                      \
        ".arch armv8.6-a\nldr q20, [%0]\nldr q21, [%0, 16]\n.irp sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "  \
        "14, 15\n" op " v\\sum\\().4s, v20." type ", v21." type "\n.endr"                                              \
        :                                                                                                              \
        : "r"(weights.data())                                                                                          \
        : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v20", \
          "v21");                                                                                                      \
  return 16.0 * products * peak_rounds

#if defined(__clang__)
__attribute__((target("dotprod,i8mm,bf16")))
#endif
inline double
peak_of(std::string_view isa, bool halves, const std::array<uint8_t, 64>& weights) {
  if (isa == "neon-i8mm" && halves) {
    HEDDLE_PEAK("bfmmla", "8h", 16);
  }
  if (isa == "neon-i8mm") {
    HEDDLE_PEAK("smmla", "16b", 32);
  }
  if (isa == "neon-dotprod" && !halves) {
    HEDDLE_PEAK("sdot", "16b", 16);
  }
  return 0;
}
#undef HEDDLE_PEAK
#elif defined(__x86_64__)
// Rows and bytes of a row of the tiles 0 to 7: palette 1, 16 rows of 64 bytes each.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, none[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
#define HEDDLE_CLOBBERED                                                                                              \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"
#define HEDDLE_PEAK(move, op, vector, products)                                                               \
  for (int i = 0; i < peak_rounds; ++i)                                                                       \
    asm volatile(move " %0, %%" vector "12\n.irp sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n" op " %%" vector \
                      "13, %%" vector "12, %%" vector "\\sum\n.endr"                                          \
                 :                                                                                            \
                 : "m"(weights)                                                                               \
                 : HEDDLE_CLOBBERED);                                                                         \
  return 12.0 * products * peak_rounds

inline double peak_of(std::string_view isa, bool halves, const std::array<uint8_t, 64>& weights) {
  if (isa == "avx512-amx") {
    const TileConfig config;
    TileConfig before;  // the kernels of this thread do not configure their registers again
    asm volatile("sttilecfg %0\nldtilecfg %1" : "=m"(before) : "m"(config));
    const int fewer = peak_rounds / 20;  // 16 cycles each
    for (int i = 0; i < fewer; ++i)
      if (halves)
        asm volatile(
            "tdpbf16ps %tmm6, %tmm4, %tmm0\ntdpbf16ps %tmm7, %tmm4, %tmm1\n"
            "tdpbf16ps %tmm6, %tmm5, %tmm2\ntdpbf16ps %tmm7, %tmm5, %tmm3");
      else
        asm volatile(
            "tdpbssd %tmm6, %tmm4, %tmm0\ntdpbssd %tmm7, %tmm4, %tmm1\n"
            "tdpbssd %tmm6, %tmm5, %tmm2\ntdpbssd %tmm7, %tmm5, %tmm3");
    asm volatile("ldtilecfg %0" : : "m"(before));
    return 4.0 * 16 * 16 * (halves ? 32 : 64) * fewer;
  }
  if (isa == "avx512-bf16" && halves) {
    HEDDLE_PEAK("vmovdqu64", "vdpbf16ps", "zmm", 32);
  }
  if (halves) return 0;
  if (isa == "avx512-bf16" || isa == "avx512-vnni") {
    HEDDLE_PEAK("vmovdqu64", "vpdpbusd", "zmm", 64);
  }
  if (isa == "avx-vnni") {
    HEDDLE_PEAK("vmovdqu", "%{vex%} vpdpbusd", "ymm", 32);
  }
  if (isa == "avx2") {
    for (int i = 0; i < peak_rounds; ++i)
      asm volatile(
          "vmovdqu %0, %%ymm12\n"
          "vpmaddubsw %%ymm13, %%ymm12, %%ymm8\nvpmaddubsw %%ymm13, %%ymm12, %%ymm9\n"
          "vpmaddubsw %%ymm13, %%ymm12, %%ymm10\nvpmaddubsw %%ymm13, %%ymm12, %%ymm11\n"
          "vpmaddwd %%ymm14, %%ymm8, %%ymm8\nvpmaddwd %%ymm14, %%ymm9, %%ymm9\n"
          "vpmaddwd %%ymm14, %%ymm10, %%ymm10\nvpmaddwd %%ymm14, %%ymm11, %%ymm11\n"
          "vpaddd %%ymm8, %%ymm0, %%ymm0\nvpaddd %%ymm9, %%ymm1, %%ymm1\n"
          "vpaddd %%ymm10, %%ymm2, %%ymm2\nvpaddd %%ymm11, %%ymm3, %%ymm3"
          :
          : "m"(weights)
          : HEDDLE_CLOBBERED);
    return 4.0 * 32 * peak_rounds;
  }
  return 0;
}
#undef HEDDLE_PEAK
#undef HEDDLE_CLOBBERED
#endif

// 0 where no such instruction is known. `halves`: weights of 16 bits.
inline double products_per_second(const cpu::Isa& isa, bool halves) {
  const std::array<uint8_t, 64> weights{};
  double products = 0;
  const double seconds = seconds_of([&] { products = peak_of(isa.name, halves, weights); });
  return products > 0 ? products / seconds : 0;
}

}  // namespace heddle::bench
