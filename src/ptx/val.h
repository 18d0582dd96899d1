// Values of a kernel under construction, and where their instructions are appended.
#pragma once
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ptx/ir.h"

namespace heddle::ptx {

// Where instructions are appended while a kernel is built, and where in the C++ source each was written.

// A place in the source. A default argument `Loc loc = Loc::current()` is the caller's line, also
// when it is the default argument of a converting constructor: that is how operators know theirs.
struct Loc {
  const char* file = "";
  uint32_t line = 0;
  static constexpr Loc current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

// One per kernel; regions swap `block`.
struct Recorder {
  Kernel kernel;
  Block* block = &kernel.body;
  Loc last, pinned;

  // While it lives, all instructions belong to one line: that of the caller of a piece such as warp_sum, not its own.
  struct Pin {
    Pin(Recorder& r, Loc at) : rec(r), before(r.pinned) {
      if (!before.line) rec.pinned = at;
    }
    ~Pin() { rec.pinned = before; }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    Recorder& rec;
    Loc before;
  };

  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Operand reg(Type t) {
    kernel.regs.push_back(t);
    return {.kind = Operand::Kind::reg, .type = t, .reg = uint32_t(kernel.regs.size() - 1)};
  }
  Inst& append(Inst inst, Loc loc) {
    if (pinned.line) loc = pinned;
    if (!loc.line) loc = last;  // unary operators cannot know their line; the instruction before is close enough
    last = loc;
    inst.file = loc.file;
    inst.line = loc.line;
    return block->emplace_back(std::move(inst));
  }
  // Appends `inst` with a fresh result register of type `result`.
  Operand emit(Inst inst, Type result, Loc loc) {
    Operand dst = reg(result);
    inst.dst = {dst};
    append(std::move(inst), loc);
    return dst;
  }
  Block record(auto&& fn) {
    Block inner, *outer = std::exchange(block, &inner);
    fn();
    block = outer;
    return inner;
  }
};

template <class T>
Operand immediate(T v) {
  Operand o{.kind = Operand::Kind::imm, .type = type_of<T>};
  std::memcpy(&o.bits, &v, sizeof v);
  return o;
}

// Values of a kernel under construction. Val never changes; Var does, and reading a Var takes a snapshot.

// An immutable typed register.
template <class T>
struct Val {
  Recorder* rec = nullptr;
  Operand op;
};
using Pred = Val<bool>;
using U16 = Val<uint16_t>;
using S16 = Val<int16_t>;
using U32 = Val<uint32_t>;
using S32 = Val<int32_t>;
using U64 = Val<uint64_t>;
using S64 = Val<int64_t>;
using F16 = Val<heddle::f16>;
using BF16 = Val<heddle::bf16>;
using F16x2 = Val<f16x2>;
using BF16x2 = Val<bf16x2>;
using F32 = Val<float>;
using F64 = Val<double>;
using TF32 = Val<tf32>;
using E4M3x2 = Val<e4m3x2>;
using E5M2x2 = Val<e5m2x2>;

template <class T>
concept AnyInt = std::same_as<T, uint16_t> || std::same_as<T, int16_t> || std::same_as<T, uint32_t> ||
    std::same_as<T, int32_t> || std::same_as<T, uint64_t> || std::same_as<T, int64_t>;
template <class T>
concept WideInt = AnyInt<T> && sizeof(T) >= 4;
template <class T>
concept AnyPacked = std::same_as<T, f16x2> || std::same_as<T, bf16x2>;
template <class T>
concept AnyFloat = std::same_as<T, heddle::f16> || std::same_as<T, heddle::bf16> || std::same_as<T, float> ||
    std::same_as<T, double> || AnyPacked<T>;
template <class T>
concept Bits = AnyInt<T> || std::same_as<T, bool>;
template <class T>
concept Number = AnyInt<T> || AnyFloat<T>;

// An operand: a Val<T>, or a host constant that becomes an immediate. Remembers the line it was written on.
template <class T>
struct Arg {
  Operand op;
  Loc loc;
  Recorder* rec = nullptr;  // null for a constant
  Arg(const Val<T>& v, Loc at = Loc::current()) : op(v.op), loc(at), rec(v.rec) {}
  Arg(T constant, Loc at = Loc::current()) : op(immediate(constant)), loc(at) {}
};
template <class T>
using C = std::type_identity_t<Arg<T>>;  // an operand that converts; T is deduced from the others

// A mutable register. Born initialised, so no read precedes a write; get() takes a snapshot, so a Val
// read earlier does not change when the Var does.
template <class T>
struct Var {
  Var(Recorder& r, Arg<T> init) : rec(&r) {
    reg = rec->emit({.op = Op::mov, .type = type_of<T>, .src = {init.op}}, type_of<T>, init.loc);
  }
  Var(const Var&) = delete;
  Var(Var&&) = default;
  Val<T> get(Loc loc = Loc::current()) const {
    return {rec, rec->emit({.op = Op::mov, .type = type_of<T>, .src = {reg}}, type_of<T>, loc)};
  }
  void operator=(C<T> v) { write({.op = Op::mov, .type = type_of<T>, .src = {v.op}}, v.loc); }
  void operator+=(C<T> v) requires Number<T> {
    write({.op = Op::add, .type = type_of<T>, .src = {reg, v.op}, .round = rounding()}, v.loc);
  }
  void operator*=(C<T> v) requires Number<T> {
    write({.op = Op::mul, .type = type_of<T>, .src = {reg, v.op}, .round = rounding()}, v.loc);
  }
  // this += a * b, one rounding.
  void add_product(Val<T> a, C<T> b) requires AnyFloat<T> {
    write({.op = Op::fma, .type = type_of<T>, .src = {a.op, b.op, reg}, .round = Round::rn}, b.loc);
  }

  Recorder* rec;
  Operand reg;

 private:
  static constexpr Round rounding() { return is_float(type_of<T>) ? Round::rn : Round::none; }
  void write(Inst inst, Loc loc) {
    inst.dst = {reg};
    rec->append(std::move(inst), loc);
  }
};

}  // namespace heddle::ptx
