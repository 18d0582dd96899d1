// Which widths, addresses, orders and cache hints verify takes of loads, stores, atomics and fences.
#include "tests/ptx/single_instruction.h"

namespace heddle::ptx {
namespace {

using namespace single;

Inst load(T t, Space s, uint8_t vec = 1) {
  const T held = t == T::u8 ? T::u32 : t == T::s8 ? T::s32 : t;
  const Operand address =
      s == Space::param ? imm(T::u64, 0) : reg(s == Space::shared || s == Space::cluster ? T::u32 : T::u64);
  return {.op = Op::load, .type = t, .dst = {vec, reg(held)}, .src = {address}, .space = s, .vec = vec};
}
Inst store(T t, Space s, uint8_t vec = 1) {
  Inst i = load(t, s, vec);
  i.op = Op::store;
  i.src.insert(i.src.end(), i.dst.begin(), i.dst.end());
  i.dst.clear();
  return i;
}
Inst with_order(Inst i, Order o, Scope s) {
  i.order = o;
  i.scope = s;
  return i;
}

TEST(VerifyMemory, WidthsOfAnAccess) {
  EXPECT_TRUE(takes(load(T::u8, Space::global, 4)));
  EXPECT_TRUE(takes(load(T::f32, Space::shared, 4)));
  EXPECT_TRUE(takes(load(T::f64, Space::cluster, 2)));
  EXPECT_TRUE(refuses(load(T::f64, Space::global, 4), {"4 values of 8 bytes; an access has at most 16"}));
  EXPECT_TRUE(refuses(load(T::f32, Space::global, 3), {"3 values at once"}));
  EXPECT_TRUE(refuses(load(T::pred, Space::global), {"the type is pred"}));
  EXPECT_TRUE(refuses(load(T::e4m3, Space::global), {"the type is e4m3"}));
  Inst i = load(T::f32, Space::global, 2);
  i.dst.pop_back();
  EXPECT_TRUE(refuses(i, {"has 1 results"}));
  i = load(T::u8, Space::global);
  i.dst[0] = reg(T::u16);  // a register holds bytes widened to 32 bits
  EXPECT_TRUE(refuses(i, {"result 0 is u16, expected u32"}));
}

TEST(VerifyMemory, AddressesBySpace) {
  Inst i = load(T::f32, Space::shared);
  i.src[0] = reg(T::u64);
  EXPECT_TRUE(refuses(i, {"source 0 is u64, expected u32"}));
  i = load(T::f32, Space::global);
  i.src[0] = reg(T::u32);
  EXPECT_TRUE(refuses(i, {"source 0 is u32, expected u64"}));
  i.src[0] = imm(T::u64, 64);
  EXPECT_TRUE(refuses(i, {"source 0 is not a register"}));
  EXPECT_TRUE(takes(load(T::u64, Space::param)));
  i = load(T::u64, Space::param);
  i.src[0] = reg(T::u64);
  EXPECT_TRUE(refuses(i, {"source 0 is not an immediate"}));
}

TEST(VerifyMemory, OffsetsFit32Bits) {
  Inst i = load(T::f32, Space::global);
  i.offset = (int64_t(1) << 31) - 4;
  EXPECT_TRUE(takes(i));
  i.offset = int64_t(1) << 31;
  EXPECT_TRUE(refuses(i, {"the offset 2147483648 does not fit 32 bits"}));
  i.offset = -(int64_t(1) << 31);
  EXPECT_TRUE(takes(i));
}

TEST(VerifyMemory, ConstantsAndArgumentsAreNotWritten) {
  EXPECT_TRUE(takes(store(T::f32, Space::global)));
  EXPECT_TRUE(refuses(store(T::f32, Space::constant), {"const space cannot be written"}));
  EXPECT_TRUE(refuses(store(T::f32, Space::param), {"param space cannot be written"}));
  Inst i{.op = Op::atom,
         .type = T::u32,
         .dst = {reg(T::u32)},
         .src = {reg(T::u64), reg(T::u32)},
         .space = Space::constant,
         .order = Order::relaxed,
         .scope = Scope::gpu};
  EXPECT_TRUE(refuses(i, {"const space has no atomics"}));
}

TEST(VerifyMemory, OrdersAndScopes) {
  EXPECT_TRUE(takes(with_order(load(T::u32, Space::global), Order::acquire, Scope::gpu)));
  EXPECT_TRUE(takes(with_order(store(T::u32, Space::global), Order::release, Scope::sys)));
  EXPECT_TRUE(takes(with_order(load(T::u32, Space::shared), Order::is_volatile, Scope::none)));
  EXPECT_TRUE(refuses(with_order(load(T::u32, Space::global), Order::release, Scope::gpu), {"the order is release"}));
  EXPECT_TRUE(refuses(with_order(store(T::u32, Space::global), Order::acquire, Scope::gpu), {"the order is acquire"}));
  EXPECT_TRUE(refuses(with_order(load(T::u32, Space::global), Order::acquire, Scope::none), {"acquire needs a scope"}));
  EXPECT_TRUE(refuses(with_order(load(T::u32, Space::global), Order::weak, Scope::gpu), {"weak takes no scope"}));
  EXPECT_TRUE(
      refuses(with_order(load(T::u32, Space::global), Order::is_volatile, Scope::gpu), {"volatile takes no scope"}));
  EXPECT_TRUE(
      refuses(with_order(load(T::u32, Space::constant), Order::relaxed, Scope::gpu), {"const space has no orders"}));
  Inst fence{.op = Op::fence, .order = Order::acq_rel, .scope = Scope::cluster};
  EXPECT_TRUE(takes(fence));
  EXPECT_TRUE(takes(with_order(fence, Order::seq_cst, Scope::cta)));
  EXPECT_TRUE(refuses(with_order(fence, Order::relaxed, Scope::cta), {"the order is relaxed"}));
  EXPECT_TRUE(refuses(with_order(fence, Order::acq_rel, Scope::none), {"needs a scope"}));
}

TEST(VerifyMemory, CacheHints) {
  Inst i = load(T::u32, Space::global);
  i.nc = true;
  i.l1 = L1::no_allocate;
  i.l2_prefetch = 128;
  i.policy = true;
  i.src.push_back(reg(T::u64));
  EXPECT_TRUE(takes(i));
  EXPECT_TRUE(refuses(with_order(i, Order::relaxed, Scope::gpu), {"nc is for weak loads from global memory"}));
  i = load(T::u32, Space::shared);
  i.nc = true;
  EXPECT_TRUE(refuses(i, {"nc is for weak loads from global memory"}));
  i = store(T::u32, Space::global);
  i.nc = true;
  EXPECT_TRUE(refuses(i, {"nc is for weak loads"}));
  i = load(T::u32, Space::shared);
  i.l1 = L1::evict_last;
  EXPECT_TRUE(refuses(i, {"L1 hints"}));
  i = with_order(load(T::u32, Space::global), Order::is_volatile, Scope::none);
  i.l1 = L1::evict_last;
  EXPECT_TRUE(refuses(i, {"not volatile"}));
  i = load(T::u32, Space::global);
  i.l2_prefetch = 32;
  EXPECT_TRUE(refuses(i, {"L2 prefetch of 32 bytes"}));
  i = store(T::u32, Space::global);
  i.l2_prefetch = 64;
  EXPECT_TRUE(refuses(i, {"L2 prefetch is for loads"}));
  i = load(T::u32, Space::global);
  i.policy = true;
  EXPECT_TRUE(refuses(i, {"has 1 sources"}));
  Inst prefetch{.op = Op::prefetch, .src = {reg(T::u64)}, .space = Space::global, .level = 2};
  EXPECT_TRUE(takes(prefetch));
  prefetch.level = 3;
  EXPECT_TRUE(refuses(prefetch, {"cache level 3"}));
}

TEST(VerifyMemory, AtomicsByTypeAndOperation) {
  auto atom = [](Op op, Atomic a, T t) {
    Inst i{.op = op,
           .type = t,
           .src = {reg(T::u64), reg(t)},
           .space = Space::global,
           .order = Order::relaxed,
           .scope = Scope::gpu,
           .atomic = a};
    if (op == Op::atom) i.dst = {reg(t)};
    if (a == Atomic::cas) i.src.push_back(reg(t));
    return i;
  };
  for (T t : {T::u32, T::s32, T::u64, T::f32, T::f64, T::f16x2}) EXPECT_TRUE(takes(atom(Op::atom, Atomic::add, t)));
  for (T t : {T::u16, T::pred, T::tf32}) EXPECT_TRUE(refuses(atom(Op::atom, Atomic::add, t), {"no atomic add on"}));
  EXPECT_TRUE(takes(atom(Op::red, Atomic::max, T::s64)));
  EXPECT_TRUE(refuses(atom(Op::red, Atomic::max, T::f32), {"no atomic max on f32"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::bit_xor, T::u64)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::bit_xor, T::f32), {"no atomic xor on f32"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::exch, T::f32)));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::cas, T::u64)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::cas, T::u16), {"no atomic cas on u16"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::inc, T::u32)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::dec, T::u64), {"no atomic dec on u64"}));
  EXPECT_TRUE(refuses(atom(Op::red, Atomic::exch, T::u32), {"exch without its old value"}));
  Inst cas = atom(Op::atom, Atomic::cas, T::u32);
  cas.src.pop_back();
  EXPECT_TRUE(refuses(cas, {"has 2 sources"}));
  EXPECT_TRUE(takes(with_order(atom(Op::atom, Atomic::add, T::u32), Order::acq_rel, Scope::gpu)));
  EXPECT_TRUE(
      refuses(with_order(atom(Op::red, Atomic::add, T::u32), Order::acq_rel, Scope::gpu), {"the order is acq_rel"}));
  EXPECT_TRUE(
      refuses(with_order(atom(Op::atom, Atomic::add, T::u32), Order::weak, Scope::none), {"the order is weak"}));
}

TEST(VerifyMemory, AddressesOfMemoryExist) {
  auto make = [](Op op, T t, uint64_t at) { return Inst{.op = op, .type = t, .dst = {reg(t)}, .src = {imm(t, at)}}; };
  EXPECT_TRUE(takes(make(Op::shared_address, T::u32, 1024)));
  EXPECT_TRUE(refuses(make(Op::shared_address, T::u32, 1025), {"byte 1025 of shared memory; the kernel has 1024"}));
  EXPECT_TRUE(takes(make(Op::constant_address, T::u64, 48)));
  EXPECT_TRUE(refuses(make(Op::constant_address, T::u64, 65), {"byte 65 of the constants"}));
  EXPECT_TRUE(takes(make(Op::param_address, T::u64, 128)));
  EXPECT_TRUE(refuses(make(Op::param_address, T::u64, 192), {"a tensor map at byte 192 ends outside the 256 bytes"}));
  EXPECT_TRUE(refuses(make(Op::param_address, T::u64, 32), {"expected 64"}));
  const Inst dynamic{.op = Op::dynamic_shared_address, .type = T::u32, .dst = {reg(T::u32)}};
  EXPECT_TRUE(takes(dynamic));
  Kernel k = with(dynamic);
  k.dynamic_shared = false;
  EXPECT_TRUE(refused(k, {"no run-time sized shared memory"}));
}

TEST(VerifyMemory, ClusterInstructionsNeedACluster) {
  const Inst insts[] = {
      load(T::f32, Space::cluster),
      {.op = Op::map_shared, .type = T::u32, .dst = {reg(T::u32)}, .src = {reg(T::u32), imm(T::u32, 1)}},
      {.op = Op::cluster_arrive, .order = Order::release},
      {.op = Op::cluster_wait, .order = Order::acquire},
      {.op = Op::mbarrier_arrive, .src = {reg(T::u32)}, .space = Space::cluster},
      {.op = Op::bulk_shared, .src = {reg(T::u32), reg(T::u32), imm(T::u32, 16), reg(T::u32)}},
  };
  for (const Inst& i : insts) {
    EXPECT_TRUE(takes(i));
    EXPECT_TRUE(refused(with(i, 128, 1), {"table.cpp:77: ", "in a kernel without a cluster"}));
  }
}

}  // namespace
}  // namespace heddle::ptx
