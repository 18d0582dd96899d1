// Where instructions are appended while a kernel is built, and where in the C++ source each was written.
#pragma once
#include <cstring>
#include <utility>

#include "ptx/ir.h"

namespace heddle::ptx {

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

}  // namespace heddle::ptx
