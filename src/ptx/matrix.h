// The matrix units: warp-wide mma.sync with ldmatrix and stmatrix, and wgmma for a group of four warps (sm_90a).
#pragma once
#include "ptx/async.h"

namespace heddle::ptx {

// One warp's share of a Rows x Cols matrix operand: 32-bit registers with neighbouring elements, in the layout that
// the instruction of that shape wants.
template <class T, uint32_t Rows, uint32_t Cols>
struct Tile {
  static constexpr uint32_t regs = Rows * Cols * uint32_t(sizeof(T)) / 128;
  static_assert(regs >= 1 && regs * 128 == Rows * Cols * sizeof(T), "a tile is whole registers of a warp");
  std::array<U32, regs> reg;
};

namespace detail {
// What an accumulator register holds: one f32 or s32, or two f16.
template <class T>
using AccReg = std::conditional_t<std::same_as<T, heddle::f16>, f16x2, T>;
}  // namespace detail

// A matrix of sums that the matrix unit updates in place, spread over `Threads` threads (32: mma, 128: wgmma).
template <class T, uint32_t M, uint32_t N, uint32_t Threads>
struct Accumulator {
  static_assert(std::same_as<T, float> || std::same_as<T, int32_t> || std::same_as<T, heddle::f16>);
  using Reg = detail::AccReg<T>;
  static constexpr uint32_t regs = M * N / Threads / (std::same_as<T, heddle::f16> ? 2 : 1);

  explicit Accumulator(Code& k, Loc l = Loc::current()) {
    for (uint32_t i = 0; i < regs; ++i) var.emplace_back(k, Arg<Reg>(Reg{}, l));
  }
  // Register i, as a snapshot; for mma, row and column of each are in the PTX manual.
  Val<Reg> get(uint32_t i, Loc l = Loc::current()) const { return var.at(i).get(l); }
  void set(uint32_t i, Arg<Reg> v) { var.at(i) = v; }

  std::vector<Var<Reg>> var;
};
template <class T, uint32_t M, uint32_t N>
using Acc = Accumulator<T, M, N, 32>;
template <class T, uint32_t N>
using GroupAcc = Accumulator<T, 64, N, 128>;

// d += a * b
template <class T, class A, class B, uint32_t M, uint32_t N, uint32_t K>
void mma(Acc<T, M, N>& d, const Tile<A, M, K>& a, const Tile<B, K, N>& b, Loc l = Loc::current()) {
  Inst inst{.op = Op::mma, .type = type_of<T>, .m = M, .n = N, .k = K, .a_type = type_of<A>, .b_type = type_of<B>};
  for (auto& r : a.reg) inst.src.push_back(r.op);
  for (auto& r : b.reg) inst.src.push_back(r.op);
  for (auto& v : d.var) {
    inst.src.push_back(v.reg);
    inst.dst.push_back(v.reg);
  }
  a.reg[0].rec->append(std::move(inst), l);
}

// N matrices of 8 x 8 16-bit elements. Lane 8i + r names row r (16 bytes) of matrix i; every lane gets two
// neighbouring elements of row lane/4 of each matrix (of column lane/4 when transposed).
template <size_t N, class T>
std::array<U32, N> load_matrices(Shared<T> row, bool transpose = false, Loc l = Loc::current()) {
  static_assert(N == 1 || N == 2 || N == 4);
  Recorder& r = *row.base.rec;
  Inst inst{.op = Op::ldmatrix,
            .type = Type::u32,
            .src = {row.base.op},
            .offset = row.bytes,
            .vec = uint8_t(N),
            .transpose = transpose};
  std::array<U32, N> out;
  for (auto& v : out) {
    v = {&r, r.reg(Type::u32)};
    inst.dst.push_back(v.op);
  }
  r.append(std::move(inst), l);
  return out;
}
template <size_t N, class T>
void store_matrices(Shared<T> row, const std::array<U32, N>& v, bool transpose = false, Loc l = Loc::current()) {
  static_assert(N == 1 || N == 2 || N == 4);
  Inst inst{.op = Op::stmatrix,
            .type = Type::u32,
            .src = {row.base.op},
            .offset = row.bytes,
            .vec = uint8_t(N),
            .transpose = transpose};
  for (auto& x : v) inst.src.push_back(x.op);
  row.base.rec->append(std::move(inst), l);
}

// --- wgmma --------------------------------------------------------------------------------------------------------
// Where a matrix operand lies in shared memory. `leading` and `stride` are the byte distances of the PTX manual.
template <class T>
U64 matrix_descriptor(Shared<T> tile, uint32_t leading, uint32_t stride, Swizzle s, Loc l = Loc::current()) {
  constexpr uint64_t code[] = {0, 3, 2, 1};  // none, 32, 64, 128 bytes
  uint64_t rest = uint64_t(leading >> 4 & 0x3fff) << 16 | uint64_t(stride >> 4 & 0x3fff) << 32 | code[size_t(s)] << 62;
  U32 start = bit_field(tile.address(l), Arg<uint32_t>(4u, l), 14u);
  return widen(start, l) | Arg<uint64_t>(rest, l);
}

struct WgmmaOptions {
  bool transpose_a = false, transpose_b = false;  // MN-major in shared memory (16-bit types)
  bool negate_a = false, negate_b = false;        // floating types
};
// A GroupAcc of floats for any number of columns: a multiple of 8 up to 256.
struct GroupSums {
  GroupSums(Code& k, uint32_t columns, Loc l = Loc::current()) : n(columns) {
    for (uint32_t i = 0; i < n / 2; ++i) var.emplace_back(k, Arg<float>(0.0f, l));
  }
  F32 get(uint32_t i, Loc l = Loc::current()) const { return var.at(i).get(l); }
  void set(uint32_t i, Arg<float> v) { var.at(i) = v; }

  uint32_t n;
  std::vector<Var<float>> var;
};
// d += a * b by one warp, for eight of its columns from `first` on.
template <class A, class B, uint32_t K>
void mma(GroupSums& d, uint32_t first, const Tile<A, 16, K>& a, const Tile<B, K, 8>& b, Loc l = Loc::current()) {
  Inst inst{.op = Op::mma, .type = Type::f32, .m = 16, .n = 8, .k = K, .a_type = type_of<A>, .b_type = type_of<B>};
  for (auto& r : a.reg) inst.src.push_back(r.op);
  for (auto& r : b.reg) inst.src.push_back(r.op);
  for (uint32_t i = first / 2; i < first / 2 + 4; ++i) {
    inst.src.push_back(d.var.at(i).reg);
    inst.dst.push_back(d.var.at(i).reg);
  }
  a.reg[0].rec->append(std::move(inst), l);
}
namespace detail {
template <class AB, class BB, class T>
void wgmma(std::vector<Var<T>>& d, uint32_t n, Type type, std::vector<Operand> a, bool a_shared, U64 b,
           const Arg<bool>& add, WgmmaOptions o) {
  Inst inst{.op = Op::wgmma,
            .type = type,
            .src = std::move(a),
            .m = 64,
            .n = uint16_t(n),
            .k = uint16_t(32 / sizeof(AB)),
            .a_type = type_of<AB>,
            .b_type = type_of<BB>,
            .a_shared = a_shared,
            .transpose_a = o.transpose_a,
            .transpose_b = o.transpose_b,
            .negate_a = o.negate_a,
            .negate_b = o.negate_b};
  inst.src.push_back(b.op);
  inst.src.push_back(add.op);
  for (auto& v : d) inst.dst.push_back(v.reg);
  b.rec->append(std::move(inst), add.loc);
}
inline std::vector<Operand> operands(const std::array<U32, 4>& a) { return {a[0].op, a[1].op, a[2].op, a[3].op}; }
}  // namespace detail
// d = a * b, plus the old d where `add` holds. Between wgmma_fence and wgmma_wait d belongs to the matrix unit.
template <class AB, class BB = AB, class T, uint32_t N>
void wgmma(GroupAcc<T, N>& d, U64 a, U64 b, Arg<bool> add, WgmmaOptions o = {}) {
  detail::wgmma<AB, BB>(d.var, N, type_of<T>, {a.op}, true, b, add, o);
}
template <class AB, class BB = AB, class T, uint32_t N>
void wgmma(GroupAcc<T, N>& d, const std::array<U32, 4>& a, U64 b, Arg<bool> add, WgmmaOptions o = {}) {
  detail::wgmma<AB, BB>(d.var, N, type_of<T>, detail::operands(a), false, b, add, o);
}
template <class AB>
void wgmma(GroupSums& d, U64 a, U64 b, Arg<bool> add, WgmmaOptions o = {}) {
  detail::wgmma<AB, AB>(d.var, d.n, Type::f32, {a.op}, true, b, add, o);
}
template <class AB>
void wgmma(GroupSums& d, const std::array<U32, 4>& a, U64 b, Arg<bool> add, WgmmaOptions o = {}) {
  detail::wgmma<AB, AB>(d.var, d.n, Type::f32, detail::operands(a), false, b, add, o);
}
// Before the first wgmma, and whenever registers it uses were written otherwise.
inline void wgmma_fence(Code& k, Loc l = Loc::current()) { k.append({.op = Op::wgmma_fence}, l); }
inline void wgmma_commit(Code& k, Loc l = Loc::current()) { k.append({.op = Op::wgmma_commit}, l); }
inline void wgmma_wait(Code& k, uint32_t remaining, Loc l = Loc::current()) {
  k.append({.op = Op::wgmma_wait, .src = {immediate(remaining)}}, l);
}
// Gives registers back to the block's pool, or takes more: 24 to 256, a multiple of 8.
inline void release_registers(Code& k, uint32_t keep, Loc l = Loc::current()) {
  k.append({.op = Op::setmaxnreg, .src = {immediate(keep)}}, l);
}
inline void take_registers(Code& k, uint32_t want, Loc l = Loc::current()) {
  k.append({.op = Op::setmaxnreg, .src = {immediate(want)}, .high = true}, l);
}

}  // namespace heddle::ptx
