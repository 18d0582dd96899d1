// Alignment and bounds of accesses, as far as an address can be followed: a base plus a number plus multiples of a
// step.
#include <algorithm>
#include <bit>

#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

// base + value + any multiple of `step`; step 0: exactly base + value. Steps are powers of two, so what is known
// survives arithmetic that wraps.
struct Known {
  enum class Base : uint8_t {
    number,    // no base
    opaque,    // anything; as an address it is taken to be a multiple of 16
    shared,    // the kernel's shared memory
    constant,  // the kernel's constants
    argument,  // the kernel's arguments
  } base = Base::opaque;
  int64_t value = 0;
  uint64_t step = 0;

  bool exact_number() const { return base == Base::number && step == 0; }
};
using Base = Known::Base;

uint64_t lowest_bit(uint64_t x) { return x & (0 - x); }
// The step of a sum: whichever is finer, 0 being none.
uint64_t finer(uint64_t a, uint64_t b) { return !a ? b : !b ? a : std::min(a, b); }

Known sum(const Known& a, const Known& b) {
  if (a.base != Base::number && b.base != Base::number) return {Base::opaque, 0, 1};
  return {a.base == Base::number ? b.base : a.base, int64_t(uint64_t(a.value) + uint64_t(b.value)),
          finer(a.step, b.step)};
}
Known negated(const Known& a) {
  if (a.base != Base::number) return {Base::opaque, 0, 1};
  return {Base::number, int64_t(0 - uint64_t(a.value)), a.step};
}
Known product_of(Known a, Known b) {
  if (a.exact_number()) std::swap(a, b);
  if (a.base != Base::number) a = {Base::number, 0, 1};
  if (!b.exact_number()) return {Base::number, 0, 1};
  const uint64_t factor = uint64_t(b.value);
  return {Base::number, int64_t(uint64_t(a.value) * factor), lowest_bit(a.step * factor)};
}
Known masked(const Known& a, const Known& mask) {
  if (!mask.exact_number() || a.base != Base::number) return {};
  if (!a.step) return {Base::number, a.value & mask.value, 0};
  return {Base::number, 0, std::max<uint64_t>(1, lowest_bit(uint64_t(mask.value)))};
}
// As a register of the type holds it: the upper bits go, and come back by sign or as zeros. A distance from a base is
// signed: adding 0xfffffffc is going back 4 bytes.
Known held_as(Known k, Type t) {
  if (size_of(t) == 8) return k;
  const unsigned gone = 64 - 8 * size_of(t);
  const bool by_sign = k.base != Base::number || is_signed(t);
  k.value = by_sign ? int64_t(uint64_t(k.value) << gone) >> gone : int64_t(uint64_t(k.value) << gone >> gone);
  return k;
}

const char* called(Base b) {
  switch (b) {
    case Base::number:
      return "address";
    case Base::opaque:
      return "base";
    case Base::shared:
      return "shared memory";
    case Base::constant:
      return "constants";
    case Base::argument:
      return "arguments";
  }
  return "?";
}

class Addresses {
 public:
  explicit Addresses(const Kernel& k) : kernel_(k), known_(k.regs.size()), writes_(k.regs.size(), 0) {
    each_instruction(k.body, [&](const Inst& i) {
      for (const Operand& d : i.dst) writes_[d.reg] = uint8_t(std::min(2, writes_[d.reg] + 1));
    });
  }
  void run() {
    each_instruction(kernel_.body, [&](const Inst& i) {
      check(i);
      // A register written once has one value wherever it is read; others are opaque.
      if (i.dst.size() == 1 && writes_[i.dst[0].reg] == 1) known_[i.dst[0].reg] = evaluate(i);
    });
  }

 private:
  Known of(const Operand& o) const {
    if (o.kind == Operand::Kind::reg) return known_[o.reg];
    if (o.kind == Operand::Kind::imm && is_integer(o.type)) return held_as({Base::number, int64_t(o.bits), 0}, o.type);
    return {};
  }

  Known evaluate(const Inst& i) const {
    auto src = [&](size_t n) { return of(i.src[n]); };
    auto exactly = [&](Base b) { return Known{b, int64_t(i.src[0].bits), 0}; };
    if (i.op == Op::shared_address) return exactly(Base::shared);
    if (i.op == Op::constant_address) return exactly(Base::constant);
    if (i.op == Op::param_address) return exactly(Base::argument);
    if (!is_integer(i.type)) return {};
    switch (i.op) {
      case Op::mov:
      case Op::assume_uniform:
      case Op::map_shared:
        return src(0);
      case Op::cvt:
        if (!is_integer(i.from) || i.sat) return {};
        return src(0).base == Base::number ? held_as(src(0), i.type) : Known{};
      case Op::add:
        return held_as(sum(src(0), src(1)), i.type);
      case Op::sub:
        return held_as(sum(src(0), negated(src(1))), i.type);
      case Op::mul:
      case Op::mul_wide:
        return held_as(product_of(src(0), src(1)), i.type);
      case Op::mad:
      case Op::mad_wide:
        return held_as(sum(product_of(src(0), src(1)), src(2)), i.type);
      case Op::shl: {
        const Known n = src(1);
        if (!n.exact_number() || n.value > 31) return {};
        return held_as(product_of(src(0), {Base::number, int64_t(1) << n.value, 0}), i.type);
      }
      case Op::bit_and:
        return i.src[1].kind == Operand::Kind::imm ? masked(src(0), src(1)) : Known{};
      default:
        return {};
    }
  }

  void check(const Inst& i) const {
    switch (i.op) {
      case Op::load:
      case Op::store: {
        const uint32_t bytes = i.vec * size_of(i.type);
        return access(i, i.src[0], i.space, i.offset, bytes, bytes);
      }
      case Op::atom:
      case Op::red:
        return access(i, i.src[0], i.space, i.offset, size_of(i.type), size_of(i.type));
      case Op::ldmatrix:  // every lane names a row of 16 bytes
      case Op::stmatrix:
        return access(i, i.src[0], Space::shared, i.offset, 16, 16);
      case Op::cp_async:
        access(i, i.src[0], Space::shared, 0, i.bytes, i.bytes);
        return access(i, i.src[1], Space::global, 0, i.bytes, i.bytes);
      case Op::bulk_load:
        access(i, i.src[0], Space::shared, 0, bulk_bytes(i), 16);
        access(i, i.src[1], Space::global, 0, 16, 16);
        return mbarrier(i, i.src[3]);
      case Op::bulk_store:
        access(i, i.src[0], Space::global, 0, 16, 16);
        return access(i, i.src[1], Space::shared, 0, bulk_bytes(i), 16);
      case Op::bulk_shared:
        access(i, i.src[0], Space::cluster, 0, bulk_bytes(i), 16);
        access(i, i.src[1], Space::shared, 0, bulk_bytes(i), 16);
        return mbarrier(i, i.src[3]);
      case Op::tensor_load:
        access(i, i.src[0], Space::shared, 0, 16, 128);
        return mbarrier(i, i.src[2]);
      case Op::tensor_store:
        return access(i, i.src[1], Space::shared, 0, 16, 128);
      case Op::cp_async_mbarrier:
      case Op::mbarrier_init:
      case Op::mbarrier_inval:
      case Op::mbarrier_expect:
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_expect:
      case Op::mbarrier_test:
      case Op::mbarrier_try:
        return mbarrier(i, i.src[0]);
      default:
        return;
    }
  }
  static uint64_t bulk_bytes(const Inst& i) { return i.src[2].kind == Operand::Kind::imm ? i.src[2].bits : 16; }
  void mbarrier(const Inst& i, const Operand& at) const { access(i, at, Space::shared, 0, 8, 8); }

  void access(const Inst& i, const Operand& address, Space space, int64_t offset, uint64_t bytes,
              uint64_t align) const {
    Known at = of(address);
    if (space == Space::param) at = {Base::argument, 0, 0};
    if (at.base == Base::argument && space != Space::param)
      refuse(kernel_, i, "the address of an argument is for tensor copies, not for {}", name(i.op));
    if (at.base == Base::constant && space != Space::constant)
      refuse(kernel_, i, "an address of the constants is used in another space");

    if (at.base == Base::shared && align > kernel_.shared_align)
      refuse(kernel_, i, "needs shared memory aligned to {} bytes, the kernel's is aligned to {}", align,
             kernel_.shared_align);
    const uint64_t certain = std::min<uint64_t>(at.base == Base::opaque ? 16 : align, finer(at.step, align));
    const int64_t position = int64_t(uint64_t(at.value) + uint64_t(offset));
    if (uint64_t(position) % certain)
      refuse(kernel_, i, "{} + {}{} is not a multiple of {}", called(at.base), position,
             at.step ? fmt::format(" + n * {}", at.step) : "", align);
    if (at.step) return;
    if (at.base == Base::shared) inside(i, at.base, position, bytes, kernel_.shared_bytes);
    if (at.base == Base::constant) inside(i, at.base, position, bytes, kernel_.constants.size());
    if (at.base == Base::argument) inside(i, at.base, position, bytes, kernel_.args_bytes);
  }
  void inside(const Inst& i, Base base, int64_t position, uint64_t bytes, uint64_t size) const {
    if (position < 0 || uint64_t(position) + bytes > size)
      refuse(kernel_, i, "{} bytes at byte {} of {} bytes of {}", bytes, position, size, called(base));
  }

  const Kernel& kernel_;
  std::vector<Known> known_;
  std::vector<uint8_t> writes_;  // 0, 1, or 2 for more
};

}  // namespace

void verify_addresses(const Kernel& k) { Addresses(k).run(); }

}  // namespace heddle::ptx
