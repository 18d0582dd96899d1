// The forms of what passes between threads, and of copies that run beside them.
#include "ptx/spelling.h"
#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

void expect_shuffle(Form& f) {
  const Inst& i = f.inst;
  f.expect(in(i.type, held) && size_of(i.type) == 4, "a shuffle moves 4-byte values, not {}", name(i.type));
  f.dst(i.type);
  if (f.results_left()) f.dst(Type::pred);
  f.src(i.type);
  f.src(Type::u32);
  f.expect(i.src[1].kind != Operand::Kind::imm || i.src[1].bits < 32, "lane {} of a warp of 32", i.src[1].bits);
  f.expect(!(f.src_imm(Type::u32).bits & ~uint64_t(0x1f1f)), "the clamp is {:#x}, expected bits 0-4 and 8-12",
           i.src[2].bits);
}

void reduce_warp(Form& f) {
  const Inst& i = f.inst;
  f.type_in(set_of({Type::u32, Type::s32}));
  switch (i.atomic) {
    case Atomic::add:
    case Atomic::min:
    case Atomic::max:
      break;
    case Atomic::bit_and:
    case Atomic::bit_or:
    case Atomic::bit_xor:
      f.expect(i.type == Type::u32, "{} is for u32", spell(i.atomic));
      break;
    default:
      f.expect(false, "{} is not a reduction of a warp", spell(i.atomic));
  }
  f.dst(i.type);
  f.src(i.type);
}

void expect_barrier(Form& f, bool count_needed) {
  const uint64_t id = f.src_imm(Type::u32).bits;
  f.expect(id < 16, "barrier {}, a block has 0 to 15", id);
  if (!count_needed && !f.sources_left()) return;
  const uint64_t count = f.src_imm(Type::u32).bits;
  f.expect(count > 0 && count % 32 == 0 && count <= f.kernel.threads(),
           "{} threads, expected whole warps of a block of {}", count, f.kernel.threads());
}

void in_cluster(Form& f, const char* what) {
  f.expect(f.kernel.cluster() > 1, "{} in a kernel without a cluster", what);
}

// A source in bytes that a bulk copy moves.
void bulk_bytes(Form& f) {
  const Operand& o = f.inst.src[f.inst.src.size() - f.sources_left()];
  f.src(Type::u32);
  f.expect(o.kind != Operand::Kind::imm || (o.bits && o.bits % 16 == 0), "{} bytes, expected a multiple of 16", o.bits);
}

// A source that an mbarrier counts: arrivals from 1, or bytes, up to 2^20 - 1.
void mbarrier_count(Form& f, uint64_t least) {
  const Operand& o = f.inst.src[1];
  f.src(Type::u32);
  f.expect(o.kind != Operand::Kind::imm || (o.bits >= least && o.bits < 1 << 20), "counts {}, expected {} to 1048575",
           o.bits, least);
}

void expect_arrive(Form& f) {
  const Inst& i = f.inst;
  f.expect(i.space == Space::shared || i.space == Space::cluster, "an mbarrier is not in {} space", spell(i.space));
  if (i.space == Space::cluster) in_cluster(f, "an mbarrier of another block");
  if (i.op == Op::mbarrier_arrive && f.results_left()) {
    f.expect(i.space == Space::shared, "an arrival in another block returns no state");
    f.dst(Type::u64);
  }
  f.src_reg(Type::u32);
  if (i.op == Op::mbarrier_arrive_expect)
    mbarrier_count(f, 0);
  else if (f.sources_left())
    mbarrier_count(f, 1);
}

void expect_poll(Form& f) {
  f.dst(Type::pred);
  f.src_reg(Type::u32);
  f.src(Type::u32);
  const Operand& parity = f.inst.src[1];
  f.expect(parity.kind != Operand::Kind::imm || parity.bits < 2, "parity {}, expected 0 or 1", parity.bits);
}

void expect_coordinates(Form& f) {
  f.expect(f.sources_left() >= 1 && f.sources_left() <= 5, "{} coordinates, expected 1 to 5", f.sources_left());
  while (f.sources_left()) f.src(Type::s32);
}

void copy(Form& f) {
  const Inst& i = f.inst;
  f.expect(i.bytes == 4 || i.bytes == 8 || i.bytes == 16, "{} bytes, expected 4, 8 or 16", i.bytes);
  f.expect(i.through_l1 || i.bytes == 16, "{} bytes past L1, which copies 16", i.bytes);
  f.src_reg(Type::u32);
  f.src_reg(Type::u64);
  if (!f.sources_left()) return;
  f.src(Type::u32);
  f.expect(i.src[2].kind != Operand::Kind::imm || i.src[2].bits <= i.bytes, "{} bytes valid of {}", i.src[2].bits,
           i.bytes);
}

}  // namespace

bool across_form(Form& f) {
  const Inst& i = f.inst;
  switch (i.op) {
    case Op::shuffle:
      expect_shuffle(f);
      break;
    case Op::vote:
      f.dst(i.vote == VoteMode::ballot ? Type::u32 : Type::pred);
      f.src_reg(Type::pred);
      break;
    case Op::match:
      f.type_in(set_of({Type::u32, Type::u64}));
      f.dst(Type::u32);
      if (i.match_all) f.dst(Type::pred);
      f.src(i.type);
      break;
    case Op::redux:
      reduce_warp(f);
      break;
    case Op::active_mask:
      f.dst(Type::u32);
      break;
    case Op::elect:
      f.dst(Type::pred);
      break;
    case Op::warp_sync:
      break;
    case Op::barrier:
      expect_barrier(f, false);
      break;
    case Op::barrier_arrive:
      expect_barrier(f, true);
      break;
    case Op::barrier_reduce:
      f.dst(i.reduce == ReduceMode::popc ? Type::u32 : Type::pred);
      f.src_reg(Type::pred);
      break;
    case Op::cluster_arrive:
      in_cluster(f, "a cluster barrier");
      f.reads(reads_order);
      f.expect(i.order == Order::release || i.order == Order::relaxed, "an arrival is release or relaxed");
      break;
    case Op::cluster_wait:
      in_cluster(f, "a cluster barrier");
      f.reads(reads_order);
      f.expect(i.order == Order::acquire, "a wait is acquire");
      break;
    case Op::grid_wait:
    case Op::grid_launch:
      break;
    case Op::nanosleep:
      f.src(Type::u32);
      break;

    case Op::cp_async:
      copy(f);
      break;
    case Op::cp_async_commit:
    case Op::bulk_commit:
      break;
    case Op::cp_async_wait:
    case Op::bulk_wait:
      f.src_imm(Type::u32);
      break;
    case Op::cp_async_mbarrier:
      f.src_reg(Type::u32);
      break;
    case Op::bulk_load:
      f.reads(reads_policy);
      f.src_reg(Type::u32);
      f.src_reg(Type::u64);
      bulk_bytes(f);
      f.src_reg(Type::u32);
      if (i.policy) f.src(Type::u64);
      break;
    case Op::bulk_store:
      f.src_reg(Type::u64);
      f.src_reg(Type::u32);
      bulk_bytes(f);
      break;
    case Op::bulk_shared:
      in_cluster(f, "a copy between blocks");
      f.src_reg(Type::u32);
      f.src_reg(Type::u32);
      bulk_bytes(f);
      f.src_reg(Type::u32);
      break;
    case Op::tensor_load:
      f.src_reg(Type::u32);
      f.src_reg(Type::u64);
      f.src_reg(Type::u32);
      expect_coordinates(f);
      break;
    case Op::tensor_store:
      f.src_reg(Type::u64);
      f.src_reg(Type::u32);
      expect_coordinates(f);
      break;
    case Op::tensor_prefetch:
      f.src_reg(Type::u64);
      break;
    case Op::mbarrier_init:
      f.src_reg(Type::u32);
      mbarrier_count(f, 1);
      break;
    case Op::mbarrier_inval:
      f.src_reg(Type::u32);
      break;
    case Op::mbarrier_expect:
      f.src_reg(Type::u32);
      mbarrier_count(f, 0);
      break;
    case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_expect:
      expect_arrive(f);
      break;
    case Op::mbarrier_test:
    case Op::mbarrier_try:
      expect_poll(f);
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace heddle::ptx
