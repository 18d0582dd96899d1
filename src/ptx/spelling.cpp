// One switch per modifier.
#include "ptx/spelling.h"

namespace heddle::ptx {

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
