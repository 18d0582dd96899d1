// The parts of verify: each reads a whole kernel and throws at the first thing that breaks its rule.
#pragma once
#include "base/error.h"
#include "ptx/target.h"

namespace heddle::ptx {

// In the order verify runs them; each may rely on those before it.
void verify_kernel(const Kernel& kernel);      // verify.cpp: name, block, cluster and memory sizes
void verify_types(const Kernel& kernel);       // verify_types.cpp: each instruction alone, its operands and modifiers
void verify_scope(const Kernel& kernel);       // verify_scope.cpp: no register is read where it may be unwritten
void verify_addresses(const Kernel& kernel);   // verify_address.cpp: alignment and bounds, as far as they are known
void verify_uniformity(const Kernel& kernel);  // verify_uniform.cpp: who may stand under which condition
void verify_waits(const Kernel& kernel);       // verify.cpp: what runs beside the threads is waited for
void verify_target(const Kernel& kernel, const Target& target);  // verify.cpp

// fn(inst) for every instruction, in source order: a region after the instruction that owns it.
template <class F>
void each_instruction(const Block& block, F&& fn) {
  for (const Inst& i : block) {
    fn(i);
    each_instruction(i.head, fn);
    each_instruction(i.body, fn);
    each_instruction(i.otherwise, fn);
  }
}

// "src/kernels/layer/norm.cpp:12: "; empty where the source is not known.
inline std::string place(const Inst& i) { return i.line ? fmt::format("{}:{}: ", i.file, i.line) : std::string(); }
// "kernel rms_norm: src/kernels/layer/norm.cpp:12: bar.sync: must be reached by ..."
template <class... Args>
[[noreturn]] void refuse(const Kernel& k, const Inst& i, fmt::format_string<Args...> why, Args&&... args) {
  throw Error("kernel {}: {}{}: {}", k.name, place(i), mnemonic(i), fmt::format(why, std::forward<Args>(args)...));
}

}  // namespace heddle::ptx
