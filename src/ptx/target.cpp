// The known GPUs, and the lowest GPU and PTX version of every instruction. Versions and sizes are those of the PTX
// manual and the CUDA programming guide.
#include "ptx/target.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::ptx {

const std::vector<Target>& targets() {
  constexpr uint32_t KB = 1024;
  static const std::vector<Target> all{
      {"sm_75", 75, false, 63, 64 * KB},    {"sm_80", 80, false, 70, 163 * KB},   {"sm_86", 86, false, 71, 99 * KB},
      {"sm_89", 89, false, 78, 99 * KB},    {"sm_90", 90, false, 78, 227 * KB},   {"sm_90a", 90, true, 80, 227 * KB},
      {"sm_100", 100, false, 86, 227 * KB}, {"sm_100a", 100, true, 86, 227 * KB}, {"sm_120", 120, false, 87, 99 * KB},
      {"sm_120a", 120, true, 87, 99 * KB},
  };
  return all;
}

const Target& target(std::string_view name) {
  std::string known;
  for (const Target& t : targets()) {
    if (t.name == name) return t;
    known += (known.empty() ? "" : ", ") + t.name;
  }
  throw Error("unknown target {}; known are {}", name, known);
}

bool has(const Target& t, const Need& n) {
  if (n.only.empty()) return t.sm >= n.sm;
  return std::find(n.only.begin(), n.only.end(), t.name) != n.only.end();
}

// The lowest GPU and PTX version of every instruction. tests/ptx/target_test.cpp asks ptxas whether each of these
// is enough, and whether one less is refused.

namespace {

const Need everywhere{};                     // sm_75 and PTX 6.3: the lowest heddle knows
const Need hopper{.sm = 90, .version = 78};  // clusters
const Need bulk{.sm = 90, .version = 80};    // bulk copies, transaction barriers
const Need warp_group{.sm = 90, .version = 80, .only = {"sm_90a"}};

Need both(Need a, const Need& b) {
  a.sm = std::max(a.sm, b.sm);
  a.version = std::max(a.version, b.version);
  return a;
}

bool is_bf16(Type t) { return t == Type::bf16 || t == Type::bf16x2; }
bool is_f16(Type t) { return t == Type::f16 || t == Type::f16x2; }
bool is_fp8(Type t) { return t == Type::e4m3x2 || t == Type::e5m2x2 || t == Type::e4m3 || t == Type::e5m2; }

Need move(const Inst& i) {
  if (i.src.empty() || i.src[0].kind != Operand::Kind::special) return everywhere;
  switch (i.src[0].special) {
    case Special::cluster_rank:
    case Special::cluster_blocks:
    case Special::clusterid_x:
    case Special::clusterid_y:
    case Special::clusterid_z:
      return hopper;
    default:
      return everywhere;
  }
}

Need need_of_convert(const Inst& i) {
  if (is_fp8(i.type) || is_fp8(i.from)) return {.sm = 89, .version = 81};
  if (i.type == Type::f32 && i.from == Type::bf16) return everywhere;  // printed as a move
  if (is_packed(i.type) || i.type == Type::tf32) return {.sm = 80, .version = 70};
  if (is_bf16(i.type) && i.from == Type::f32) return {.sm = 80, .version = 70};
  if (is_bf16(i.type) || is_bf16(i.from)) return hopper;
  return everywhere;
}

Need access_needs(const Inst& i) {
  Need n;
  if (i.space == Space::cluster || i.scope == Scope::cluster) n = hopper;
  if (i.l1 != L1::normal) n = both(n, {.version = 74});
  if (i.l2_prefetch) n = both(n, {.sm = i.l2_prefetch == 256 ? 80u : 75u, .version = 74});
  if (i.policy) n = both(n, {.sm = 80, .version = 74});
  return n;
}

Need atomic_needs(const Inst& i) {
  const bool adds_bf16 = is_bf16(i.type) && i.atomic == Atomic::add;  // a swap moves bits of any type
  return i.space == Space::cluster || i.scope == Scope::cluster || adds_bf16 ? hopper : everywhere;
}

Need need_of_arrive(const Inst& i) {
  if (i.op == Op::mbarrier_arrive_expect || i.space == Space::cluster) return bulk;
  if (i.src.size() > 1) return hopper;                                      // a count
  return {.sm = 80, .version = i.dst.empty() ? Version(71) : Version(70)};  // without a result: 7.1
}

Need mma_needs(const Inst& i) {
  if (is_fp8(i.a_type)) return {.sm = 89, .version = i.type == Type::f16 || i.k == 16 ? Version(87) : Version(84)};
  if (i.a_type == Type::f16 && i.k == 8) return {.version = 65};
  if (is_integer(i.a_type) && i.m == 8) return {.version = 65};
  return {.sm = 80, .version = 70};
}

Need wgmma(const Inst& i) {
  Need n = warp_group;
  if (is_integer(i.a_type) && i.a_type != i.b_type) n.version = 84;  // s8 with u8
  return n;
}

}  // namespace

Need need(const Inst& i) {
  switch (i.op) {
    case Op::mov:
      return move(i);
    case Op::bitcast:
    case Op::div:
    case Op::rem:
    case Op::mul_hi:
    case Op::mul_wide:
    case Op::mad:
    case Op::mad_wide:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::bit_not:
    case Op::shl:
    case Op::shr:
    case Op::funnel_left:
    case Op::funnel_right:
    case Op::bfe:
    case Op::bfi:
    case Op::prmt:
    case Op::lop3:
    case Op::popc:
    case Op::clz:
    case Op::brev:
    case Op::dp4a:
    case Op::dp2a:
    case Op::select:
    case Op::pack:
    case Op::unpack:
    case Op::rcp:
    case Op::rsqrt:
    case Op::sqrt:
    case Op::lg2:
    case Op::sin:
    case Op::cos:
      return everywhere;
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::set:
      return is_bf16(i.type) ? hopper : everywhere;
    case Op::fma:
      return is_bf16(i.type) ? Need{.sm = 80, .version = 70} : everywhere;
    case Op::min:
    case Op::max:
      return is_bf16(i.type) || is_f16(i.type) || i.nan ? Need{.sm = 80, .version = 70} : everywhere;
    case Op::abs:
      if (is_f16(i.type)) return {.version = 65};
      [[fallthrough]];
    case Op::neg:
      return is_bf16(i.type) ? Need{.sm = 80, .version = 70} : everywhere;
    case Op::ex2:
      return is_bf16(i.type) ? hopper : is_f16(i.type) ? Need{.version = 70} : everywhere;
    case Op::tanh:
      return is_bf16(i.type) ? hopper : Need{.version = 70};
    case Op::cvt:
      return need_of_convert(i);

    case Op::load:
    case Op::store:
      return access_needs(i);
    case Op::atom:
    case Op::red:
      return atomic_needs(i);
    case Op::fence:
      return i.scope == Scope::cluster ? hopper : everywhere;
    case Op::create_policy:
      return {.sm = 80, .version = 74};
    case Op::fence_proxy:
    case Op::fence_mbarrier_init:
      return bulk;
    case Op::param_address:
      return {.version = 77};
    case Op::map_shared:
      return hopper;
    case Op::prefetch:
    case Op::shared_address:
    case Op::dynamic_shared_address:
    case Op::constant_address:
      return everywhere;

    case Op::shuffle:
    case Op::vote:
    case Op::match:
    case Op::active_mask:
    case Op::warp_sync:
    case Op::barrier:
    case Op::barrier_arrive:
    case Op::barrier_reduce:
    case Op::nanosleep:
      return everywhere;
    case Op::redux:
      return {.sm = 80, .version = 70};
    case Op::elect:
    case Op::cluster_arrive:
    case Op::cluster_wait:
      return bulk;
    case Op::grid_wait:
    case Op::grid_launch:
      return hopper;

    case Op::cp_async:
    case Op::cp_async_commit:
    case Op::cp_async_wait:
    case Op::cp_async_mbarrier:
    case Op::mbarrier_init:
    case Op::mbarrier_inval:
      return {.sm = 80, .version = 70};
    case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_expect:
      return need_of_arrive(i);
    case Op::mbarrier_test:
      return {.sm = 80, .version = 71};
    case Op::mbarrier_try:
      return hopper;
    case Op::bulk_load:
    case Op::bulk_store:
    case Op::bulk_shared:
    case Op::tensor_load:
    case Op::tensor_store:
    case Op::tensor_prefetch:
    case Op::bulk_commit:
    case Op::bulk_wait:
    case Op::mbarrier_expect:
      return bulk;

    case Op::ldmatrix:
      return {.version = 65};
    case Op::stmatrix:
      return hopper;
    case Op::mma:
      return mma_needs(i);
    case Op::wgmma:
      return wgmma(i);
    case Op::wgmma_fence:
    case Op::wgmma_commit:
    case Op::wgmma_wait:
      return warp_group;
    case Op::setmaxnreg:
      return {.sm = 90, .version = 80, .only = {"sm_90a", "sm_100a", "sm_120a"}};

    case Op::when:
    case Op::loop:
    case Op::assume_uniform:
    case Op::trap:
      return everywhere;
  }
  return everywhere;
}

}  // namespace heddle::ptx
