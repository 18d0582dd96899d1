// The instruction sets to test: those that this machine supports, and those whose missing instructions are emulated.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "tests/cpu/emulated_instructions.h"

namespace heddle::test {

struct TestedIsa {
  std::string name;
  const cpu::Isa& (*isa)();
  bool is_emulated;  // some of its instructions take microseconds: tests of it are shorter
};

inline const std::vector<TestedIsa>& tested_isas() {
  static const std::vector<TestedIsa> all = [] {
    std::vector<TestedIsa> isas;
    const std::vector<std::string> here = cpu::isa_names();
    const auto has = [&](const std::string& name) { return std::ranges::find(here, name) != here.end(); };
    const auto add = [&](const std::string& name, const char* base, const cpu::Isa& (*isa)()) {
      if (!has(base)) return;
      isas.push_back({name, isa, !has(name)});
      if (!has(name)) emulate_instructions();
    };
#if defined(__x86_64__)
    add("avx512-amx", "avx512-vnni", cpu::isa_avx512_amx);
    add("avx512-bf16", "avx512-vnni", cpu::isa_avx512_bf16);
    add("avx512-vnni", "avx512-vnni", cpu::isa_avx512_vnni);
    add("avx-vnni", "avx2", cpu::isa_avx_vnni);
    add("avx2", "avx2", cpu::isa_avx2);
#elif defined(__aarch64__)
    add("neon-i8mm", "neon-i8mm", cpu::isa_neon_i8mm);
    add("neon-dotprod", "neon-dotprod", cpu::isa_neon_dotprod);
#endif
    add("plain", "plain", cpu::isa_plain);
    return isas;
  }();
  return all;
}

inline std::vector<std::string> tested_isa_names() {
  std::vector<std::string> names;
  for (const TestedIsa& each : tested_isas()) names.push_back(each.name);
  return names;
}
inline const TestedIsa& tested_isa_named(const std::string& name) {
  return *std::ranges::find(tested_isas(), name, &TestedIsa::name);
}
inline const cpu::Isa& tested_isa(const std::string& name) { return tested_isa_named(name).isa(); }

}  // namespace heddle::test
