// What a load, a store, an atomic or a fence may ask for: types by space, orders with their scopes, cache hints.
#include "ptx/spelling.h"
#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

// A register holds 8-bit values widened.
Type loaded(Type t) { return t == Type::u8 ? Type::u32 : t == Type::s8 ? Type::s32 : t; }

bool is_shared(Space s) { return s == Space::shared || s == Space::cluster; }

void expect_address(Form& f) {
  if (f.inst.space == Space::param)
    f.expect(f.src_imm(Type::u64).bits == 0, "the address of an argument is 0 plus its offset");
  else
    f.src_reg(is_shared(f.inst.space) ? Type::u32 : Type::u64);
  f.reads(reads_offset);
  f.expect(f.inst.offset == int32_t(f.inst.offset), "the offset {} does not fit 32 bits", f.inst.offset);
  f.expect(f.inst.space != Space::cluster || f.kernel.cluster() > 1,
           "shared memory of other blocks in a kernel without a cluster");
}

// A scope stands with every order that reaches other threads, and with no other.
void ordered(Form& f, std::initializer_list<Order> allowed) {
  f.reads(reads_order | reads_scope);
  bool ok = false;
  for (Order o : allowed) ok |= f.inst.order == o;
  const char* order = f.inst.order == Order::weak ? "weak" : spell(f.inst.order);
  f.expect(ok, "the order is {}, which it cannot have", order);
  const bool scoped = f.inst.order != Order::weak && f.inst.order != Order::is_volatile;
  f.expect(scoped == (f.inst.scope != Scope::none), "{} {} scope", order, scoped ? "needs a" : "takes no");
}

void expect_access(Form& f, bool is_load) {
  const Inst& i = f.inst;
  const bool global = i.space == Space::global, read_only = i.space == Space::param || i.space == Space::constant;
  f.type_in(held | set_of({Type::u8, Type::s8}));
  f.expect(is_load || !read_only, "{} space cannot be written", spell(i.space));
  expect_address(f);
  f.reads(reads_vec | reads_policy);
  f.expect(i.vec == 1 || i.vec == 2 || i.vec == 4, "{} values at once, expected 1, 2 or 4", i.vec);
  f.expect(i.vec * size_of(i.type) <= 16, "{} values of {} bytes; an access has at most 16", i.vec, size_of(i.type));
  for (uint8_t v = 0; v < i.vec; ++v) is_load ? f.dst(loaded(i.type)) : f.src(loaded(i.type));
  if (i.policy) f.src(Type::u64);

  if (read_only) f.expect(i.order == Order::weak && i.scope == Scope::none, "{} space has no orders", spell(i.space));
  if (is_load)
    ordered(f, {Order::weak, Order::relaxed, Order::acquire, Order::is_volatile});
  else
    ordered(f, {Order::weak, Order::relaxed, Order::release, Order::is_volatile});
  f.expect(!i.nc || (is_load && global && i.order == Order::weak), "nc is for weak loads from global memory");
  const bool hints = i.policy || i.l1 != L1::normal;
  f.expect(!hints || (global && i.order != Order::is_volatile),
           "L1 hints and cache policies are for global memory, and not volatile");
  f.expect(i.l2_prefetch == 0 || (is_load && global), "L2 prefetch is for loads from global memory");
  f.expect(i.l2_prefetch == 0 || i.l2_prefetch == 64 || i.l2_prefetch == 128 || i.l2_prefetch == 256,
           "L2 prefetch of {} bytes, expected 64, 128 or 256", i.l2_prefetch);
}

Types atomic_types(Atomic a) {
  switch (a) {
    case Atomic::add:
      return words | floats;
    case Atomic::min:
    case Atomic::max:
    case Atomic::bit_and:
    case Atomic::bit_or:
    case Atomic::bit_xor:
      return words;
    case Atomic::exch:
    case Atomic::cas:
      return words | wide_floats | packed;  // bits of 4 or 8 bytes
    case Atomic::inc:
    case Atomic::dec:
      return set_of({Type::u32});
  }
  return 0;
}

void expect_atomic(Form& f, bool returns) {
  const Inst& i = f.inst;
  f.expect(i.space == Space::global || is_shared(i.space), "{} space has no atomics", spell(i.space));
  f.expect(in(i.type, atomic_types(i.atomic)), "there is no atomic {} on {}", spell(i.atomic), name(i.type));
  f.expect(returns || (i.atomic != Atomic::exch && i.atomic != Atomic::cas), "{} without its old value",
           spell(i.atomic));
  if (returns)
    ordered(f, {Order::relaxed, Order::acquire, Order::release, Order::acq_rel});
  else
    ordered(f, {Order::relaxed, Order::release});
  if (returns) f.dst(i.type);
  expect_address(f);
  f.src(i.type);
  if (i.atomic == Atomic::cas) f.src(i.type);
}

}  // namespace

bool memory_form(Form& f) {
  const Inst& i = f.inst;
  switch (i.op) {
    case Op::load:
      expect_access(f, true);
      break;
    case Op::store:
      expect_access(f, false);
      break;
    case Op::atom:
      expect_atomic(f, true);
      break;
    case Op::red:
      expect_atomic(f, false);
      break;
    case Op::prefetch:
      f.expect(i.space == Space::global, "only global memory can be prefetched");
      f.expect(i.level == 1 || i.level == 2, "cache level {}, expected 1 or 2", i.level);
      expect_address(f);
      break;
    case Op::create_policy:
      f.dst(Type::u64);
      break;
    case Op::fence:
      ordered(f, {Order::acq_rel, Order::seq_cst});
      break;
    case Op::fence_proxy:
      f.expect(i.space == Space::shared || i.space == Space::global || i.space == Space::param,
               "{} space has no proxy fence", spell(i.space));
      break;
    case Op::fence_mbarrier_init:
      break;
    case Op::shared_address:
      f.dst(Type::u32);
      f.expect(f.src_imm(Type::u32).bits <= f.kernel.shared_bytes, "byte {} of shared memory; the kernel has {}",
               i.src[0].bits, f.kernel.shared_bytes);
      break;
    case Op::dynamic_shared_address:
      f.dst(Type::u32);
      f.expect(f.kernel.dynamic_shared, "the kernel has no run-time sized shared memory");
      break;
    case Op::constant_address:
      f.dst(Type::u64);
      f.expect(f.src_imm(Type::u64).bits <= f.kernel.constants.size(), "byte {} of the constants; the kernel has {}",
               i.src[0].bits, f.kernel.constants.size());
      break;
    case Op::param_address: {  // of a tensor map: 128 bytes, 64-byte aligned
      f.dst(Type::u64);
      const uint64_t at = f.src_imm(Type::u64).bits;
      f.expect(at <= f.kernel.args_bytes && f.kernel.args_bytes - at >= 128,
               "a tensor map at byte {} ends outside the {} bytes of arguments", at, f.kernel.args_bytes);
      f.expect(at % 64 == 0 && f.kernel.args_align >= 64,
               "a tensor map at byte {} of arguments aligned to {}; expected 64", at, f.kernel.args_align);
      break;
    }
    case Op::map_shared:
      f.expect(f.kernel.cluster() > 1, "shared memory of other blocks in a kernel without a cluster");
      f.dst(Type::u32);
      f.src_reg(Type::u32);
      f.src(Type::u32);
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace heddle::ptx
