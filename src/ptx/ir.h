// The kernel as data: typed registers and a tree of instructions with structured regions instead of labels.
// verify.h, print.h and interpret.h each read a `const Kernel&` and nothing else.
#pragma once
#include <string>
#include <vector>

#include "ptx/types.h"

namespace heddle::ptx {

enum class Op : uint8_t {
  // Arithmetic. `type` is the type of the operation; dst[0] = f(src...).
  mov,       // also: read a special register; src[0] may be reg, imm or special
  bitcast,   // same size, other type: `from` -> `type`
  add,       // a + b              (round, ftz)
  sub,       // a - b
  mul,       // a * b: low half for integers
  mul_hi,    // high half of the integer product
  mul_wide,  // 16->32, 32->64 bits: `from` is the narrow type, `type` the wide
  mad,       // a * b + c, integers, low half
  mad_wide,  // narrow a, b (`from`), wide c and result (`type`)
  fma,       // a * b + c, one rounding (round, ftz)
  div,       // integers; f32/f64 with `round`, f32 also with `approx`
  rem,
  min,
  max,  // floats: the other operand if one is NaN, or NaN with `nan`; -0 < +0
  abs,
  neg,
  bit_and,  // b16/b32/b64 integers and predicates
  bit_or,
  bit_xor,
  bit_not,
  shl,           // amount in src[1] is u32 and clamps at the width
  shr,           // arithmetic for signed types
  funnel_left,   // shf.l.wrap.b32 d, lo, hi, amount
  funnel_right,  // shf.r.wrap.b32 d, lo, hi, amount
  bfe,           // bfe.{u32,s32,u64,s64} d, a, pos(u32), len(u32)
  bfi,           // bfi.{b32,b64} d, insert, base, pos, len
  prmt,          // prmt.b32 d, a, b, selector
  lop3,          // lop3.b32 d, a, b, c, table (src[3] immediate 0..255)
  popc,          // result u32, operand `from` (u32 or u64)
  clz,
  brev,    // bit reverse, b32 / b64
  dp4a,    // dp4a.{from}.{from_b} d(`type` s32/u32), a, b, c
  dp2a,    // `high` chooses dp2a.hi
  set,     // setp.cmp.type d(pred), a, b
  select,  // dst = src[2](pred) ? src[0] : src[1]
  cvt,     // `from` -> `type` with round, sat; two sources (hi, lo) for f32 pairs -> packed types
  pack,    // two parts of type `from`, lower first, into one register: 2 x 16 -> 32, 2 x 32 -> 64
  unpack,  // the reverse: dst has the two parts, lower first
  rcp,     // `approx`, or exact with round
  rsqrt,   // approx
  sqrt,    // `approx`, or exact with round
  ex2,     // approx (f32, f16, f16x2)
  lg2,
  sin,
  cos,
  tanh,
  // Memory. Address in src[0] (u64; u32 for shared) plus `offset` bytes.
  load,           // dst has `vec` values of `type`; src[1] = cache policy (u64) if `policy`
  store,          // src[1..] the values, then the cache policy if `policy`
  atom,           // dst[0] = old value; src[1] operand, src[2] the new value for cas (src[1] is the compare)
  red,            // atom without the old value
  prefetch,       // cache level in `level`: 1 or 2
  create_policy,  // dst u64; `l2` evict priority
  fence,          // order, scope
  fence_proxy,    // proxy fence: generic <-> async; `space` shared, global, or param for both
  fence_mbarrier_init,
  shared_address,          // dst u32 = base of the kernel's shared memory + imm src[0]
  dynamic_shared_address,  // dst u32 = first byte of the shared memory that the launch sizes
  constant_address,        // dst u64 = base of the kernel's constant data + imm src[0]
  param_address,           // dst u64 = generic address of the argument at imm src[0] (a tensor map)
  map_shared,              // mapa: dst u32 = the same shared address src[0] in block src[1] of the cluster
  // Across threads.
  shuffle,  // `shuffle` mode; src value(b32), lane/offset (u32), clamp imm; dst[1] optional pred
  vote,     // `vote` mode; src pred; dst pred, or u32 for ballot
  match,    // `match_all`: dst[0] mask, dst[1] pred; any: dst[0] mask
  redux,    // `atomic` names add/min/max/and/or/xor
  active_mask,
  elect,           // dst[0] = pred, true in one lane
  warp_sync,       // bar.warp.sync of the full warp
  barrier,         // src[0] id, src[1] threads (imm; absent: the whole block)
  barrier_arrive,  // src[0] id, src[1] threads
  barrier_reduce,  // dst = popc (u32) / and / or (pred) over the block; src[0] pred
  cluster_arrive,  // order: release or relaxed
  cluster_wait,
  grid_wait,    // griddepcontrol.wait
  grid_launch,  // griddepcontrol.launch_dependents
  nanosleep,
  // Asynchronous copies.
  cp_async,  // src: shared dst, global src [, source bytes u32: the rest is zero]; `bytes` 4, 8, 16
  cp_async_commit,
  cp_async_wait,      // src[0] = imm: groups that may remain
  cp_async_mbarrier,  // arrive on src[0] when this thread's copies are done; `noinc`
  bulk_load,          // global -> shared: src shared dst, global src, bytes, mbarrier
  bulk_store,         // shared -> global: src global dst, shared src, bytes
  bulk_shared,        // shared -> shared of a block in the cluster: dst, src, bytes, mbarrier (of that block)
  tensor_load,        // src: shared dst, map (u64), mbarrier, coordinates (s32) x rank
  tensor_store,       // src: map (u64), shared src, coordinates x rank
  tensor_prefetch,    // src: map
  bulk_commit,
  bulk_wait,      // src[0] imm; `read`: only the sources have been read
  mbarrier_init,  // src: address, count
  mbarrier_inval,
  mbarrier_expect,         // expect_tx: src address, bytes
  mbarrier_arrive,         // src: address [, count]; dst[0] optional u64 state
  mbarrier_arrive_expect,  // src: address, bytes
  mbarrier_test,           // test_wait.parity: dst pred; src address, parity
  mbarrier_try,            // try_wait.parity: the same, may suspend for a while
  // Matrix units.
  ldmatrix,  // dst `vec` registers u32; `transpose`
  stmatrix,  // src address, `vec` registers
  mma,       // m, n, k; type = accumulator, a_type, b_type; src = A regs, B regs, C regs
  wgmma,     // m64; src = A (regs or one u64 descriptor, a_shared), B descriptor, pred scale-d; dst = accumulator, in
             // place
  wgmma_fence,
  wgmma_commit,
  wgmma_wait,  // src[0] imm: groups that may remain
  setmaxnreg,  // `high`: inc, else dec; src[0] imm
  // Structure.
  when,            // src[0] pred: body, otherwise
  loop,            // head computes src[0]; body runs while it holds
  assume_uniform,  // dst = src, promised to be equal across `uniform`; the interpreter checks it
  trap,
};

enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  lane,
  warp,
  group,  // warp = tid.x / 32, group = tid.x / 128 (%warpid is not stable)
  cluster_rank,
  cluster_blocks,  // rank of the block in its cluster, blocks per cluster
  clusterid_x,
  clusterid_y,
  clusterid_z,
  smid,
  clock,
  globaltimer,
};

enum class Space : uint8_t {
  param,
  global,
  shared,
  cluster,
  constant
};  // cluster: shared memory of any block of the cluster
enum class Round : uint8_t { none, rn, rz, rm, rp, rni, rzi, rmi, rpi, rna };  // cvt to integer uses the ...i forms
enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel, seq_cst, is_volatile };
enum class Scope : uint8_t { none, cta, cluster, gpu, sys };
enum class Atomic : uint8_t { add, min, max, bit_and, bit_or, bit_xor, exch, cas, inc, dec };
enum class ShuffleMode : uint8_t { xor_, idx, up, down };
enum class VoteMode : uint8_t { all, any, uni, ballot };
enum class ReduceMode : uint8_t { popc, all, any };
enum class L1 : uint8_t { normal, no_allocate, evict_first, evict_last, evict_unchanged };
enum class L2 : uint8_t { normal, evict_first, evict_last, evict_normal };
// How far a value is known to be the same, from everywhere to nowhere.
enum class Uniform : uint8_t { grid, cluster, block, group, warp, lane };

struct Operand {
  enum class Kind : uint8_t { none, reg, imm, special } kind = Kind::none;
  Type type = Type::none;
  uint32_t reg = 0;   // Kind::reg: index into Kernel::regs
  uint64_t bits = 0;  // Kind::imm: the value's bits, zero-extended (sign-extended never)
  Special special{};  // Kind::special
};

struct Inst;
using Block = std::vector<Inst>;

// One instruction. Each Op above says which fields it reads; the others keep their defaults.
struct Inst {
  Op op{};
  Type type = Type::none;
  Type from = Type::none;    // cvt, bitcast, wide products, dp4a/dp2a (type of a), popc, clz
  Type from_b = Type::none;  // dp4a/dp2a (type of b)
  std::vector<Operand> dst{}, src{};
  int64_t offset = 0;  // bytes added to the address in src[0]
  Space space{};
  uint8_t vec = 1;    // load, store: values per thread; ldmatrix: matrices
  uint8_t bytes = 0;  // cp_async
  Round round = Round::none;
  Compare compare{};
  Order order = Order::weak;
  Scope scope = Scope::none;
  Atomic atomic{};
  ShuffleMode shuffle{};
  VoteMode vote{};
  ReduceMode reduce{};
  L1 l1{};
  L2 l2{};
  uint16_t l2_prefetch = 0;  // load: 0, 64, 128 or 256 bytes
  uint8_t level = 0;         // prefetch
  bool approx = false, ftz = false, sat = false;
  bool nan = false;     // min, max of f32: NaN if one operand is
  bool nc = false;      // load: the data does not change while the kernel runs
  bool policy = false;  // load, store, bulk_load: the last source is a cache policy
  bool high = false;    // dp2a.hi; setmaxnreg.inc
  bool match_all = false;
  bool noinc = false;
  bool read = false;
  bool transpose = false;   // ldmatrix, stmatrix
  bool through_l1 = false;  // cp_async: .ca instead of .cg
  // mma, wgmma
  uint16_t m = 0, n = 0, k = 0;
  Type a_type = Type::none, b_type = Type::none;
  bool a_shared = false;                          // wgmma: A comes from a descriptor
  bool transpose_a = false, transpose_b = false;  // wgmma, 16-bit types in shared memory: MN-major
  bool negate_a = false, negate_b = false;        // wgmma, floating types
  Uniform uniform{};                              // assume_uniform
  Block body{}, otherwise{}, head{};              // when: then / else; loop: head, body
  const char* file = "";                          // where in the C++ source it was written
  uint32_t line = 0;
};

// Blocks of a launch, or the place of one.
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

struct Kernel {
  std::string name;
  uint32_t threads_x = 0, threads_y = 1, threads_z = 1;  // block size, known when the kernel is built
  uint32_t min_blocks = 0;                               // per SM; 0: unset
  uint32_t max_registers = 0;                            // per thread; 0: unset
  uint32_t cluster_x = 1, cluster_y = 1, cluster_z = 1;  // 1 x 1 x 1: no cluster
  uint32_t args_bytes = 0;
  uint32_t args_align = 8;
  uint32_t shared_bytes = 0;  // shared memory whose size is known when the kernel is built
  uint32_t shared_align = 16;
  bool dynamic_shared = false;     // followed by shared memory whose size the launch sets
  std::vector<uint8_t> constants;  // the kernel's constant space
  std::vector<Type> regs;          // register id -> type
  Block body;

  uint32_t threads() const { return threads_x * threads_y * threads_z; }
  uint32_t cluster() const { return cluster_x * cluster_y * cluster_z; }
  // Above 48 KB, or with a run-time sized part, all shared memory is asked for at launch.
  bool shared_at_launch() const { return dynamic_shared || shared_bytes > 48 * 1024; }
};

// Where the run-time sized part of shared memory begins, in bytes from the start of shared memory.
inline uint32_t dynamic_shared_offset(const Kernel& k) { return (k.shared_bytes + 15) / 16 * 16; }

const char* name(Op op);  // "mul_wide", as spelled above

}  // namespace heddle::ptx
