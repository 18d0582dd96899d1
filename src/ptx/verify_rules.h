// The rules of verify: those about a whole kernel, and what rules about a single instruction have in common.
#pragma once
#include <initializer_list>

#include "base/error.h"
#include "ptx/target.h"

namespace heddle::ptx {

// The rules about a kernel: each reads all of it and throws at the first instruction that breaks the rule.

// In the order verify runs them; each may rely on those before it.
void verify_kernel(const Kernel& kernel);      // verify.cpp: name, block, cluster and memory sizes
void verify_types(const Kernel& kernel);       // verify_types.cpp: each instruction alone, its operands and modifiers
void verify_scope(const Kernel& kernel);       // verify.cpp: no register is read where it may be unwritten
void verify_addresses(const Kernel& kernel);   // verify_address.cpp: alignment and bounds, as far as they are known
void verify_uniformity(const Kernel& kernel);  // verify_uniform.cpp: which instruction may stand under which condition
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

// The form of one instruction: a rule takes its operands one by one and says which modifiers it reads; what is left
// over is refused.

// A set of types.
using Types = uint32_t;
constexpr Types set_of(std::initializer_list<Type> list) {
  Types s = 0;
  for (Type t : list) s |= Types(1) << unsigned(t);
  return s;
}
constexpr bool in(Type t, Types s) { return s >> unsigned(t) & 1; }

inline constexpr Types signed_ints = set_of({Type::s16, Type::s32, Type::s64});
inline constexpr Types words = set_of({Type::u32, Type::s32, Type::u64, Type::s64});  // 32- and 64-bit integers
inline constexpr Types integers = words | set_of({Type::u16, Type::s16});
inline constexpr Types scalars = set_of({Type::f16, Type::bf16, Type::f32, Type::f64});
inline constexpr Types packed = set_of({Type::f16x2, Type::bf16x2});
inline constexpr Types floats = scalars | packed;
inline constexpr Types wide_floats = set_of({Type::f32, Type::f64});
inline constexpr Types held =
    integers | floats | set_of({Type::tf32, Type::e4m3x2, Type::e5m2x2});  // all but predicates

// Modifiers and fields that an instruction may or may not read.
enum Field : uint32_t {
  reads_round = 1,
  reads_ftz = 2,
  reads_sat = 4,
  reads_approx = 8,
  reads_offset = 16,
  reads_order = 32,
  reads_scope = 64,
  reads_policy = 128,
  reads_vec = 256,
  reads_regions = 512,
  reads_nan = 1024,
};

class Form {
 public:
  Form(const Kernel& k, const Inst& i) : kernel(k), inst(i) {}

  template <class... Args>
  void expect(bool ok, fmt::format_string<Args...> why, Args&&... args) const {
    if (!ok) [[unlikely]]
      refuse(fmt::format(why, std::forward<Args>(args)...));
  }
  void type_in(Types allowed) const;
  // The next result, the next source. A source is a register or an immediate unless said otherwise.
  void dst(Type t);
  void src(Type t);
  void src_reg(Type t);
  const Operand& src_imm(Type t);
  void src_special(Type t);  // also a special register
  size_t results_left() const { return inst.dst.size() - dst_; }
  size_t sources_left() const { return inst.src.size() - src_; }

  void reads(uint32_t fields) { fields_ |= fields; }
  void round_in(std::initializer_list<Round> allowed);  // reads it
  void ftz_for(Types types);                            // reads it
  // Nothing may be left.
  void end() const;

  const Kernel& kernel;
  const Inst& inst;

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  const Operand& next();
  void check(const Operand& o, Type t, const char* what, size_t index) const;
  size_t dst_ = 0, src_ = 0;
  uint32_t fields_ = 0;
};

// Each checks the instruction if it is of its family, else returns false.
bool arithmetic_form(Form& f);  // verify_arithmetic.cpp
bool memory_form(Form& f);      // verify_memory.cpp
bool across_form(Form& f);      // verify_across.cpp: warps, barriers, asynchronous copies
bool matrix_form(Form& f);      // verify_matrix.cpp

}  // namespace heddle::ptx
