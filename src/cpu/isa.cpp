// Which instruction sets this binary has and this machine can run.
#include "cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <fmt/ranges.h>

#include "base/error.h"
#include "cpu/cpu.h"

namespace heddle::cpu {
namespace {

#if defined(__x86_64__)
bool has_f16c() {  // not every compiler knows it by name
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 29);
}
bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
bool has_leaf_7_1(unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << bit);
}
bool has_avx_vnni() { return has_avx2() && has_leaf_7_1(4); }
bool has_avx512_bf16() { return has_avx512_vnni() && has_leaf_7_1(5); }
// Tiles of bytes and of bf16. A process must ask the system for the registers of tiles.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tiles = 1u << 24 | 1u << 25 | 1u << 22;
  if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles) != tiles) return false;
  constexpr int ask_for_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, ask_for_permission, tile_data) == 0;
}
#elif defined(__aarch64__)
bool has_dotprod() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
// And products of bf16, and of f16 into f32, which all machines with it have.
bool has_i8mm() {
  constexpr unsigned long matrices = HWCAP2_I8MM | HWCAP2_BF16;
  return has_dotprod() && (getauxval(AT_HWCAP) & HWCAP_ASIMDFHM) && (getauxval(AT_HWCAP2) & matrices) == matrices;
}
#endif

struct Known {
  const char* name;
  bool (*runs_here)();
  const Isa& (*isa)();  // to be called only where it runs: its code is compiled for its instructions
};

// Best first.
constexpr Known known[] = {
#if defined(__x86_64__)
    {"avx512-amx", has_amx, isa_avx512_amx},
    {"avx512-bf16", has_avx512_bf16, isa_avx512_bf16},
    {"avx512-vnni", has_avx512_vnni, isa_avx512_vnni},
    {"avx-vnni", has_avx_vnni, isa_avx_vnni},
    {"avx2", has_avx2, isa_avx2},
#elif defined(__aarch64__)
    {"neon-i8mm", has_i8mm, isa_neon_i8mm},
    {"neon-dotprod", has_dotprod, isa_neon_dotprod},
#endif
    {"plain", [] { return true; }, isa_plain},
};

}  // namespace

std::vector<std::string> built_isa_names() {
  std::vector<std::string> names;
  for (const Known& each : known) names.push_back(each.name);
  return names;
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Known& each : known)
    if (each.runs_here()) names.push_back(each.name);
  return names;
}

const Isa& choose_isa(const std::string& name) {
  for (const Known& each : known)
    if ((name == "auto" || name == each.name) && each.runs_here()) return each.isa();
  throw Error("this machine cannot run the instruction set {}; it has {}", name, fmt::join(isa_names(), ", "));
}

}  // namespace heddle::cpu
