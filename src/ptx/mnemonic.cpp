// The opcode with its modifiers, in the order PTX wants them: one function per family of instructions.
// Any instruction has a name here, also one that PTX would refuse: verify uses it in messages.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ptx/spelling.h"
#include "ptx/target.h"

namespace heddle::ptx {
namespace {

// "add", "rn", "", "f32" -> "add.rn.f32"
template <class... Parts>
std::string dotted(std::string first, Parts... parts) {
  auto append = [&](std::string_view part) {
    if (!part.empty()) first.append(".").append(part);
  };
  (append(parts), ...);
  return first;
}

const char* ftz(const Inst& i) { return i.ftz ? "ftz" : ""; }
const char* when_set(bool flag, const char* text) { return flag ? text : ""; }

std::string arithmetic(const char* opcode, const Inst& i) {
  return dotted(opcode, when_set(i.approx, "approx"), spell(i.round), ftz(i), when_set(i.nan, "NaN"), name(i.type));
}

// mul.lo and mad.lo for integers, rounded for floats.
std::string product(const char* opcode, const Inst& i) {
  return is_integer(i.type) ? dotted(opcode, "lo", name(i.type)) : arithmetic(opcode, i);
}

std::string negate(const char* opcode, const Inst& i) { return dotted(opcode, ftz(i), as_signed(i.type)); }

// dp4a and dp2a name their operands by register type, whatever the parts are.
const char* dot_type(Type t) { return is_signed(t) ? "s32" : "u32"; }

// Does every value of `from` fit `to`? Then PTX refuses to saturate.
bool holds(Type to, Type from) {
  if (!is_integer(to) || !is_integer(from)) return false;
  if (is_signed(from)) return is_signed(to) && size_of(to) >= size_of(from);
  return is_signed(to) ? size_of(to) > size_of(from) : size_of(to) >= size_of(from);
}

std::string convert(const Inst& i) {
  // bf16 is the upper half of an f32. The move is exact and runs everywhere; cvt.f32.bf16 begins with sm_80.
  if (i.type == Type::f32 && i.from == Type::bf16) return "mov.b32";
  const bool fp8 = i.type == Type::e4m3x2 || i.type == Type::e5m2x2;
  const char* saturate = fp8 ? "satfinite" : holds(i.type, i.from) ? "" : "sat";
  return dotted("cvt", spell(i.round), ftz(i), when_set(i.sat, saturate), name(i.type), name(i.from));
}

std::string vector(const Inst& i) { return i.vec == 1 ? "" : fmt::format("v{}", i.vec); }

std::string l2_prefetch(const Inst& i) { return i.l2_prefetch ? fmt::format("L2::{}B", i.l2_prefetch) : ""; }

std::string access(const char* opcode, const Inst& i) {
  return dotted(opcode, spell(i.order), spell(i.scope), spell(i.space), when_set(i.nc, "nc"), spell(i.l1),
                when_set(i.policy, "L2::cache_hint"), l2_prefetch(i), vector(i), plain(i.type));
}

// Bitwise operations and exchanges are untyped; a sum wraps, so s64 (which add does not know) is u64.
std::string atomic(const char* opcode, const Inst& i) {
  const bool half = is_float(i.type) && i.type != Type::f32 && i.type != Type::f64;
  const char* type = name(i.type);
  switch (i.atomic) {
    case Atomic::bit_and:
    case Atomic::bit_or:
    case Atomic::bit_xor:
    case Atomic::exch:
    case Atomic::cas:
      type = untyped(i.type);
      break;
    case Atomic::add:
      if (i.type == Type::s64) type = "u64";
      break;
    case Atomic::min:
    case Atomic::max:
    case Atomic::inc:
    case Atomic::dec:
      break;
  }
  return dotted(opcode, spell(i.order), spell(i.scope), spell(i.space), spell(i.atomic),
                when_set(half && i.atomic == Atomic::add, "noftz"), type);
}

// One-way fences begin with PTX 8.6 and sm_90; a two-way one is at least as strong.
std::string fence_text(const Inst& i) {
  const bool one_way = i.order == Order::acquire || i.order == Order::release;
  return dotted("fence", one_way ? "acq_rel" : spell(i.order), spell(i.scope));
}

std::string fence_proxy_text(const Inst& i) {
  switch (i.space) {
    case Space::shared:
      return "fence.proxy.async.shared::cta";
    case Space::global:
      return "fence.proxy.async.global";
    default:
      return "fence.proxy.async";
  }
}

std::string barrier_reduce_text(const Inst& i) {
  switch (i.reduce) {
    case ReduceMode::popc:
      return "bar.red.popc.u32";
    case ReduceMode::all:
      return "bar.red.and.pred";
    case ReduceMode::any:
      return "bar.red.or.pred";
  }
  return "?";
}

// The type of a bitwise reduction is untyped, that of the others is the operand's.
std::string redux_text(const Inst& i) {
  const bool bits = i.atomic == Atomic::bit_and || i.atomic == Atomic::bit_or || i.atomic == Atomic::bit_xor;
  return dotted("redux.sync", spell(i.atomic), bits ? "b32" : name(i.type));
}

// An mbarrier of another block is in .shared::cluster, and the arrival is ordered for the whole cluster.
std::string arrive_text(const Inst& i) {
  if (i.op == Op::mbarrier_arrive && i.space != Space::cluster) return "mbarrier.arrive.shared.b64";
  return dotted("mbarrier.arrive", when_set(i.op == Op::mbarrier_arrive_expect, "expect_tx"), "release",
                i.space == Space::cluster ? "cluster.shared::cluster" : "cta.shared::cta", "b64");
}

std::string tensor(const Inst& i) {
  const size_t others = i.op == Op::tensor_load ? 3 : 2;  // sources that are no coordinates
  const std::string rank = fmt::format("{}d", i.src.size() - std::min(others, i.src.size()));
  return i.op == Op::tensor_load
             ? dotted("cp.async.bulk.tensor", rank, "shared::cluster.global.tile.mbarrier::complete_tx::bytes")
             : dotted("cp.async.bulk.tensor", rank, "global.shared::cta.tile.bulk_group");
}

std::string matrices(const char* opcode, const Inst& i) {
  return dotted(opcode, "sync.aligned.m8n8", fmt::format("x{}", i.vec), when_set(i.transpose, "trans"), "shared.b16");
}

std::string shape(const Inst& i) { return fmt::format("m{}n{}k{}", i.m, i.n, i.k); }

}  // namespace

std::string mnemonic(const Inst& i) {
  switch (i.op) {
    case Op::mov:
    case Op::assume_uniform:
      return dotted("mov", plain(i.type));
    case Op::bitcast:
    case Op::pack:
    case Op::unpack:
      return dotted("mov", untyped(i.type));
    case Op::add:
      return arithmetic("add", i);
    case Op::sub:
      return arithmetic("sub", i);
    case Op::mul:
      return product("mul", i);
    case Op::mul_hi:
      return dotted("mul.hi", name(i.type));
    case Op::mul_wide:
      return dotted("mul.wide", name(i.from));
    case Op::mad:
      return product("mad", i);
    case Op::mad_wide:
      return dotted("mad.wide", name(i.from));
    case Op::fma:
      return arithmetic("fma", i);
    case Op::div:
      return arithmetic("div", i);
    case Op::rem:
      return dotted("rem", name(i.type));
    case Op::min:
      return arithmetic("min", i);
    case Op::max:
      return arithmetic("max", i);
    case Op::abs:
      return negate("abs", i);
    case Op::neg:
      return negate("neg", i);
    case Op::bit_and:
      return dotted("and", untyped(i.type));
    case Op::bit_or:
      return dotted("or", untyped(i.type));
    case Op::bit_xor:
      return dotted("xor", untyped(i.type));
    case Op::bit_not:
      return dotted("not", untyped(i.type));
    case Op::shl:
      return dotted("shl", untyped(i.type));
    case Op::shr:
      return dotted("shr", name(i.type));
    case Op::funnel_left:
      return "shf.l.wrap.b32";
    case Op::funnel_right:
      return "shf.r.wrap.b32";
    case Op::bfe:
      return dotted("bfe", name(i.type));
    case Op::bfi:
      return dotted("bfi", untyped(i.type));
    case Op::prmt:
      return "prmt.b32";
    case Op::lop3:
      return "lop3.b32";
    case Op::popc:
      return dotted("popc", untyped(i.from));
    case Op::clz:
      return dotted("clz", untyped(i.from));
    case Op::brev:
      return dotted("brev", untyped(i.type));
    case Op::dp4a:
      return dotted("dp4a", dot_type(i.from), dot_type(i.from_b));
    case Op::dp2a:
      return dotted("dp2a", i.high ? "hi" : "lo", dot_type(i.from), dot_type(i.from_b));
    case Op::set:
      return dotted("setp", spell(i.compare), ftz(i), name(i.type));
    case Op::select:
      return i.type == Type::pred ? "or.pred" : dotted("selp", plain(i.type));
    case Op::cvt:
      return convert(i);
    case Op::rcp:
      return arithmetic("rcp", i);
    case Op::rsqrt:
      return arithmetic("rsqrt", i);
    case Op::sqrt:
      return arithmetic("sqrt", i);
    case Op::ex2:
      return arithmetic("ex2", i);
    case Op::lg2:
      return arithmetic("lg2", i);
    case Op::sin:
      return arithmetic("sin", i);
    case Op::cos:
      return arithmetic("cos", i);
    case Op::tanh:
      return arithmetic("tanh", i);

    case Op::load:
      return access("ld", i);
    case Op::store:
      return access("st", i);
    case Op::atom:
      return atomic("atom", i);
    case Op::red:
      return atomic("red", i);
    case Op::prefetch:
      return i.level == 1 ? "prefetch.global.L1" : "prefetch.global.L2";
    case Op::create_policy:
      return dotted("createpolicy.fractional", spell(i.l2), "b64");
    case Op::fence:
      return fence_text(i);
    case Op::fence_proxy:
      return fence_proxy_text(i);
    case Op::fence_mbarrier_init:
      return "fence.mbarrier_init.release.cluster";
    case Op::shared_address:
    case Op::dynamic_shared_address:
      return "mov.u32";
    case Op::constant_address:
      return "mov.u64";
    case Op::param_address:
      return "cvta.param.u64";
    case Op::map_shared:
      return "mapa.shared::cluster.u32";

    case Op::shuffle:
      return dotted("shfl.sync", spell(i.shuffle), "b32");
    case Op::vote:
      return dotted("vote.sync", spell(i.vote), i.vote == VoteMode::ballot ? "b32" : "pred");
    case Op::match:
      return dotted(i.match_all ? "match.all.sync" : "match.any.sync", untyped(i.type));
    case Op::redux:
      return redux_text(i);
    case Op::active_mask:
      return "activemask.b32";
    case Op::elect:
      return "elect.sync";
    case Op::warp_sync:
      return "bar.warp.sync";
    case Op::barrier:
      return "bar.sync";
    case Op::barrier_arrive:
      return "bar.arrive";
    case Op::barrier_reduce:
      return barrier_reduce_text(i);
    case Op::cluster_arrive:
      return dotted("barrier.cluster.arrive", spell(i.order), "aligned");
    case Op::cluster_wait:
      return dotted("barrier.cluster.wait", spell(i.order), "aligned");
    case Op::grid_wait:
      return "griddepcontrol.wait";
    case Op::grid_launch:
      return "griddepcontrol.launch_dependents";
    case Op::nanosleep:
      return "nanosleep.u32";

    case Op::cp_async:
      return dotted("cp.async", i.through_l1 ? "ca" : "cg", "shared.global");
    case Op::cp_async_commit:
      return "cp.async.commit_group";
    case Op::cp_async_wait:
      return "cp.async.wait_group";
    case Op::cp_async_mbarrier:
      return dotted("cp.async.mbarrier.arrive", when_set(i.noinc, "noinc"), "shared.b64");
    case Op::bulk_load:
      return dotted("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                    when_set(i.policy, "L2::cache_hint"));
    case Op::bulk_store:
      return "cp.async.bulk.global.shared::cta.bulk_group";
    case Op::bulk_shared:
      return "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
    case Op::tensor_load:
    case Op::tensor_store:
      return tensor(i);
    case Op::tensor_prefetch:
      return "prefetch.tensormap";
    case Op::bulk_commit:
      return "cp.async.bulk.commit_group";
    case Op::bulk_wait:
      return dotted("cp.async.bulk.wait_group", when_set(i.read, "read"));
    case Op::mbarrier_init:
      return "mbarrier.init.shared.b64";
    case Op::mbarrier_inval:
      return "mbarrier.inval.shared.b64";
    case Op::mbarrier_expect:
      return "mbarrier.expect_tx.relaxed.cta.shared::cta.b64";
    case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_expect:
      return arrive_text(i);
    case Op::mbarrier_test:
      return "mbarrier.test_wait.parity.shared.b64";
    case Op::mbarrier_try:
      return "mbarrier.try_wait.parity.shared.b64";

    case Op::ldmatrix:
      return matrices("ldmatrix", i);
    case Op::stmatrix:
      return matrices("stmatrix", i);
    case Op::mma:
      return dotted("mma.sync.aligned", shape(i), "row.col", name(i.type), name(i.a_type), name(i.b_type),
                    name(i.type));
    case Op::wgmma:
      return dotted("wgmma.mma_async.sync.aligned", shape(i), name(i.type), name(i.a_type), name(i.b_type));
    case Op::wgmma_fence:
      return "wgmma.fence.sync.aligned";
    case Op::wgmma_commit:
      return "wgmma.commit_group.sync.aligned";
    case Op::wgmma_wait:
      return "wgmma.wait_group.sync.aligned";
    case Op::setmaxnreg:
      return dotted("setmaxnreg", i.high ? "inc" : "dec", "sync.aligned.u32");

    case Op::when:
    case Op::loop:
      return name(i.op);
    case Op::trap:
      return "trap";
  }
  return "?";
}

}  // namespace heddle::ptx
