// The tables of names: one switch per enum.
#include "ptx/spelling.h"

namespace heddle::ptx {

const char* name(Type t) {
  switch (t) {
    case Type::none:
      return "none";
    case Type::pred:
      return "pred";
    case Type::u8:
      return "u8";
    case Type::s8:
      return "s8";
    case Type::u16:
      return "u16";
    case Type::s16:
      return "s16";
    case Type::u32:
      return "u32";
    case Type::s32:
      return "s32";
    case Type::u64:
      return "u64";
    case Type::s64:
      return "s64";
    case Type::f16:
      return "f16";
    case Type::bf16:
      return "bf16";
    case Type::f16x2:
      return "f16x2";
    case Type::bf16x2:
      return "bf16x2";
    case Type::f32:
      return "f32";
    case Type::f64:
      return "f64";
    case Type::tf32:
      return "tf32";
    case Type::e4m3x2:
      return "e4m3x2";
    case Type::e5m2x2:
      return "e5m2x2";
    case Type::e4m3:
      return "e4m3";
    case Type::e5m2:
      return "e5m2";
  }
  return "?";
}

const char* plain(Type t) { return is_integer(t) || t == Type::f32 || t == Type::f64 ? name(t) : untyped(t); }

const char* untyped(Type t) {
  if (t == Type::pred) return "pred";
  switch (size_of(t)) {
    case 1:
      return "b8";
    case 2:
      return "b16";
    case 4:
      return "b32";
    case 8:
      return "b64";
  }
  return "?";
}

const char* as_signed(Type t) {
  switch (t) {
    case Type::u16:
      return "s16";
    case Type::u32:
      return "s32";
    case Type::u64:
      return "s64";
    default:
      return name(t);
  }
}

const char* name(Op op) {
  switch (op) {
    case Op::mov:
      return "mov";
    case Op::bitcast:
      return "bitcast";
    case Op::add:
      return "add";
    case Op::sub:
      return "sub";
    case Op::mul:
      return "mul";
    case Op::mul_hi:
      return "mul_hi";
    case Op::mul_wide:
      return "mul_wide";
    case Op::mad:
      return "mad";
    case Op::mad_wide:
      return "mad_wide";
    case Op::fma:
      return "fma";
    case Op::div:
      return "div";
    case Op::rem:
      return "rem";
    case Op::min:
      return "min";
    case Op::max:
      return "max";
    case Op::abs:
      return "abs";
    case Op::neg:
      return "neg";
    case Op::bit_and:
      return "bit_and";
    case Op::bit_or:
      return "bit_or";
    case Op::bit_xor:
      return "bit_xor";
    case Op::bit_not:
      return "bit_not";
    case Op::shl:
      return "shl";
    case Op::shr:
      return "shr";
    case Op::funnel_left:
      return "funnel_left";
    case Op::funnel_right:
      return "funnel_right";
    case Op::bfe:
      return "bfe";
    case Op::bfi:
      return "bfi";
    case Op::prmt:
      return "prmt";
    case Op::lop3:
      return "lop3";
    case Op::popc:
      return "popc";
    case Op::clz:
      return "clz";
    case Op::brev:
      return "brev";
    case Op::dp4a:
      return "dp4a";
    case Op::dp2a:
      return "dp2a";
    case Op::set:
      return "set";
    case Op::select:
      return "select";
    case Op::cvt:
      return "cvt";
    case Op::pack:
      return "pack";
    case Op::unpack:
      return "unpack";
    case Op::rcp:
      return "rcp";
    case Op::rsqrt:
      return "rsqrt";
    case Op::sqrt:
      return "sqrt";
    case Op::ex2:
      return "ex2";
    case Op::lg2:
      return "lg2";
    case Op::sin:
      return "sin";
    case Op::cos:
      return "cos";
    case Op::tanh:
      return "tanh";
    case Op::load:
      return "load";
    case Op::store:
      return "store";
    case Op::atom:
      return "atom";
    case Op::red:
      return "red";
    case Op::prefetch:
      return "prefetch";
    case Op::create_policy:
      return "create_policy";
    case Op::fence:
      return "fence";
    case Op::fence_proxy:
      return "fence_proxy";
    case Op::fence_mbarrier_init:
      return "fence_mbarrier_init";
    case Op::shared_address:
      return "shared_address";
    case Op::dynamic_shared_address:
      return "dynamic_shared_address";
    case Op::constant_address:
      return "constant_address";
    case Op::param_address:
      return "param_address";
    case Op::map_shared:
      return "map_shared";
    case Op::shuffle:
      return "shuffle";
    case Op::vote:
      return "vote";
    case Op::match:
      return "match";
    case Op::redux:
      return "redux";
    case Op::active_mask:
      return "active_mask";
    case Op::elect:
      return "elect";
    case Op::warp_sync:
      return "warp_sync";
    case Op::barrier:
      return "barrier";
    case Op::barrier_arrive:
      return "barrier_arrive";
    case Op::barrier_reduce:
      return "barrier_reduce";
    case Op::cluster_arrive:
      return "cluster_arrive";
    case Op::cluster_wait:
      return "cluster_wait";
    case Op::grid_wait:
      return "grid_wait";
    case Op::grid_launch:
      return "grid_launch";
    case Op::nanosleep:
      return "nanosleep";
    case Op::cp_async:
      return "cp_async";
    case Op::cp_async_commit:
      return "cp_async_commit";
    case Op::cp_async_wait:
      return "cp_async_wait";
    case Op::cp_async_mbarrier:
      return "cp_async_mbarrier";
    case Op::bulk_load:
      return "bulk_load";
    case Op::bulk_store:
      return "bulk_store";
    case Op::bulk_shared:
      return "bulk_shared";
    case Op::tensor_load:
      return "tensor_load";
    case Op::tensor_store:
      return "tensor_store";
    case Op::tensor_prefetch:
      return "tensor_prefetch";
    case Op::bulk_commit:
      return "bulk_commit";
    case Op::bulk_wait:
      return "bulk_wait";
    case Op::mbarrier_init:
      return "mbarrier_init";
    case Op::mbarrier_inval:
      return "mbarrier_inval";
    case Op::mbarrier_expect:
      return "mbarrier_expect";
    case Op::mbarrier_arrive:
      return "mbarrier_arrive";
    case Op::mbarrier_arrive_expect:
      return "mbarrier_arrive_expect";
    case Op::mbarrier_test:
      return "mbarrier_test";
    case Op::mbarrier_try:
      return "mbarrier_try";
    case Op::ldmatrix:
      return "ldmatrix";
    case Op::stmatrix:
      return "stmatrix";
    case Op::mma:
      return "mma";
    case Op::wgmma:
      return "wgmma";
    case Op::wgmma_fence:
      return "wgmma_fence";
    case Op::wgmma_commit:
      return "wgmma_commit";
    case Op::wgmma_wait:
      return "wgmma_wait";
    case Op::setmaxnreg:
      return "setmaxnreg";
    case Op::when:
      return "when";
    case Op::loop:
      return "loop";
    case Op::assume_uniform:
      return "assume_uniform";
    case Op::trap:
      return "trap";
  }
  return "?";
}

const char* spell(Space s) {
  switch (s) {
    case Space::param:
      return "param";
    case Space::global:
      return "global";
    case Space::shared:
      return "shared";
    case Space::cluster:
      return "shared::cluster";
    case Space::constant:
      return "const";
  }
  return "?";
}

const char* spell(Round r) {
  switch (r) {
    case Round::none:
      return "";
    case Round::rn:
      return "rn";
    case Round::rz:
      return "rz";
    case Round::rm:
      return "rm";
    case Round::rp:
      return "rp";
    case Round::rni:
      return "rni";
    case Round::rzi:
      return "rzi";
    case Round::rmi:
      return "rmi";
    case Round::rpi:
      return "rpi";
    case Round::rna:
      return "rna";
  }
  return "?";
}

const char* spell(Compare c) {
  switch (c) {
    case Compare::eq:
      return "eq";
    case Compare::ne:
      return "ne";
    case Compare::lt:
      return "lt";
    case Compare::le:
      return "le";
    case Compare::gt:
      return "gt";
    case Compare::ge:
      return "ge";
    case Compare::equ:
      return "equ";
    case Compare::neu:
      return "neu";
    case Compare::ltu:
      return "ltu";
    case Compare::leu:
      return "leu";
    case Compare::gtu:
      return "gtu";
    case Compare::geu:
      return "geu";
    case Compare::num:
      return "num";
    case Compare::nan:
      return "nan";
  }
  return "?";
}

const char* spell(Order o) {
  switch (o) {
    case Order::weak:
      return "";
    case Order::relaxed:
      return "relaxed";
    case Order::acquire:
      return "acquire";
    case Order::release:
      return "release";
    case Order::acq_rel:
      return "acq_rel";
    case Order::seq_cst:
      return "sc";
    case Order::is_volatile:
      return "volatile";
  }
  return "?";
}

const char* spell(Scope s) {
  switch (s) {
    case Scope::none:
      return "";
    case Scope::cta:
      return "cta";
    case Scope::cluster:
      return "cluster";
    case Scope::gpu:
      return "gpu";
    case Scope::sys:
      return "sys";
  }
  return "?";
}

const char* spell(Atomic a) {
  switch (a) {
    case Atomic::add:
      return "add";
    case Atomic::min:
      return "min";
    case Atomic::max:
      return "max";
    case Atomic::bit_and:
      return "and";
    case Atomic::bit_or:
      return "or";
    case Atomic::bit_xor:
      return "xor";
    case Atomic::exch:
      return "exch";
    case Atomic::cas:
      return "cas";
    case Atomic::inc:
      return "inc";
    case Atomic::dec:
      return "dec";
  }
  return "?";
}

const char* spell(ShuffleMode m) {
  switch (m) {
    case ShuffleMode::xor_:
      return "bfly";
    case ShuffleMode::idx:
      return "idx";
    case ShuffleMode::up:
      return "up";
    case ShuffleMode::down:
      return "down";
  }
  return "?";
}

const char* spell(VoteMode m) {
  switch (m) {
    case VoteMode::all:
      return "all";
    case VoteMode::any:
      return "any";
    case VoteMode::uni:
      return "uni";
    case VoteMode::ballot:
      return "ballot";
  }
  return "?";
}

const char* spell(L1 l) {
  switch (l) {
    case L1::normal:
      return "";
    case L1::no_allocate:
      return "L1::no_allocate";
    case L1::evict_first:
      return "L1::evict_first";
    case L1::evict_last:
      return "L1::evict_last";
    case L1::evict_unchanged:
      return "L1::evict_unchanged";
  }
  return "?";
}

const char* spell(L2 l) {
  switch (l) {
    case L2::normal:
    case L2::evict_normal:
      return "L2::evict_normal";
    case L2::evict_first:
      return "L2::evict_first";
    case L2::evict_last:
      return "L2::evict_last";
  }
  return "?";
}

const char* spell(Special s) {
  switch (s) {
    case Special::tid_x:
    case Special::warp:
    case Special::group:
      return "%tid.x";
    case Special::tid_y:
      return "%tid.y";
    case Special::tid_z:
      return "%tid.z";
    case Special::ntid_x:
      return "%ntid.x";
    case Special::ntid_y:
      return "%ntid.y";
    case Special::ntid_z:
      return "%ntid.z";
    case Special::ctaid_x:
      return "%ctaid.x";
    case Special::ctaid_y:
      return "%ctaid.y";
    case Special::ctaid_z:
      return "%ctaid.z";
    case Special::nctaid_x:
      return "%nctaid.x";
    case Special::nctaid_y:
      return "%nctaid.y";
    case Special::nctaid_z:
      return "%nctaid.z";
    case Special::lane:
      return "%laneid";
    case Special::cluster_rank:
      return "%cluster_ctarank";
    case Special::cluster_blocks:
      return "%cluster_nctarank";
    case Special::clusterid_x:
      return "%clusterid.x";
    case Special::clusterid_y:
      return "%clusterid.y";
    case Special::clusterid_z:
      return "%clusterid.z";
    case Special::smid:
      return "%smid";
    case Special::clock:
      return "%clock64";
    case Special::globaltimer:
      return "%globaltimer";
  }
  return "?";
}

}  // namespace heddle::ptx
