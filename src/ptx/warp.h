// Traffic between the threads of a warp. All 32 lanes must take part.
#pragma once
#include "ptx/code.h"

namespace heddle::ptx {

template <class T>
concept Word = sizeof(T) == 4 && type_of<T> != Type::none;  // what one shuffle moves

namespace detail {
template <class T>
Val<T> shuffle(ShuffleMode mode, Val<T> v, const Arg<uint32_t>& lane, uint32_t width, Operand* in_range) {
  // The clamp operand holds the segment mask in bits 8-12 and the last lane of a segment in bits 0-4 (0 for `up`).
  uint32_t clamp = (32 - width) << 8 | (mode == ShuffleMode::up ? 0 : 31);
  Inst inst{.op = Op::shuffle, .type = type_of<T>, .src = {v.op, lane.op, immediate(clamp)}, .shuffle = mode};
  Operand dst = v.rec->reg(type_of<T>);
  inst.dst = {dst};
  if (in_range) inst.dst.push_back(*in_range = v.rec->reg(Type::pred));
  v.rec->append(std::move(inst), lane.loc);
  return {v.rec, dst};
}
}  // namespace detail

// The value of lane (own ^ mask), of lane `from`, of the lane `by` below or above. Within segments of `width` lanes;
// a lane that would read outside its segment keeps its own value.
template <Word T>
Val<T> shuffle_xor(Val<T> v, Arg<uint32_t> mask, uint32_t width = 32) {
  return detail::shuffle(ShuffleMode::xor_, v, mask, width, nullptr);
}
template <Word T>
Val<T> shuffle(Val<T> v, Arg<uint32_t> from, uint32_t width = 32) {
  return detail::shuffle(ShuffleMode::idx, v, from, width, nullptr);
}
template <Word T>
Val<T> shuffle_up(Val<T> v, Arg<uint32_t> by, uint32_t width = 32) {
  return detail::shuffle(ShuffleMode::up, v, by, width, nullptr);
}
template <Word T>
Val<T> shuffle_down(Val<T> v, Arg<uint32_t> by, uint32_t width = 32) {
  return detail::shuffle(ShuffleMode::down, v, by, width, nullptr);
}
template <class T>
struct Shuffled {
  Val<T> value;
  Pred in_range;  // the source lane was inside the segment
};
template <Word T>
Shuffled<T> shuffle_checked(ShuffleMode mode, Val<T> v, Arg<uint32_t> lane, uint32_t width = 32) {
  Operand p;
  Val<T> r = detail::shuffle(mode, v, lane, width, &p);
  return {r, {v.rec, p}};
}

inline Pred vote_all(Pred p, Loc l = Loc::current()) {
  return detail::unary<bool>(p, {.op = Op::vote, .type = Type::pred, .vote = VoteMode::all}, l);
}
inline Pred vote_any(Pred p, Loc l = Loc::current()) {
  return detail::unary<bool>(p, {.op = Op::vote, .type = Type::pred, .vote = VoteMode::any}, l);
}
inline Pred vote_uniform(Pred p, Loc l = Loc::current()) {
  return detail::unary<bool>(p, {.op = Op::vote, .type = Type::pred, .vote = VoteMode::uni}, l);
}
inline U32 ballot(Pred p, Loc l = Loc::current()) {
  return detail::unary<uint32_t>(p, {.op = Op::vote, .type = Type::u32, .vote = VoteMode::ballot}, l);
}
// The lanes that hold the same value as this one.
template <class T>
requires(std::same_as<T, uint32_t> || std::same_as<T, uint64_t>) U32 match_any(Val<T> v, Loc l = Loc::current()) {
  return detail::unary<uint32_t>(v, {.op = Op::match, .type = type_of<T>}, l);
}
struct MatchAll {
  U32 mask;  // all lanes if every one holds the same value, else 0
  Pred all;
};
template <class T>
requires(std::same_as<T, uint32_t> || std::same_as<T, uint64_t>) MatchAll match_all(Val<T> v, Loc l = Loc::current()) {
  Operand mask = v.rec->reg(Type::u32), all = v.rec->reg(Type::pred);
  v.rec->append({.op = Op::match, .type = type_of<T>, .dst = {mask, all}, .src = {v.op}, .match_all = true}, l);
  return {{v.rec, mask}, {v.rec, all}};
}
// One instruction for the sum, minimum, ... of all lanes (integers, sm_80).
template <class T>
requires(std::same_as<T, uint32_t> || std::same_as<T, int32_t>) Val<T> warp_reduce(Atomic what, Val<T> v,
                                                                                   Loc l = Loc::current()) {
  return detail::unary<T>(v, {.op = Op::redux, .type = type_of<T>, .atomic = what}, l);
}

// --- written once for every kernel --------------------------------------------------------------------------------
namespace detail {
// All lanes of a segment of `width` join their values. Every pair of lanes joins the same two values, so all get the
// same bits; over a whole warp this is declared to the verifier.
template <class T, class Join>
Val<T> warp_join(Val<T> v, uint32_t width, Join join, Loc l) {
  Recorder::Pin pin(*v.rec, l);
  for (uint32_t mask = width / 2; mask; mask /= 2) v = join(v, shuffle_xor(v, mask));
  if (width < 32) return v;
  return unary<T>(v, {.op = Op::assume_uniform, .type = type_of<T>, .uniform = Uniform::warp}, {});
}
// One barrier before the result is read and none after: inside a loop the next round wants a barrier before it.
template <class T, class Join>
Val<T> block_join(Code& k, Val<T> v, Join join, Loc l) {
  Recorder::Pin pin(k, l);
  v = warp_join(v, 32, join, l);
  if (k.warps() == 1) return v;
  auto partial = k.shared<T>(k.warps());
  auto put = [&] { store(partial + k.warp(), v); };
  k.when(k.lane() == 0u, put);
  k.barrier();
  Val<T> all = load(partial);
  for (uint32_t w = 1; w < k.warps(); ++w) all = join(all, load(partial.offset(w)));
  return k.assume_uniform(all, Uniform::block);
}
}  // namespace detail

// Every lane (of a segment of `width`), every thread of the block gets the result.
template <Word T>
Val<T> warp_sum(Val<T> v, uint32_t width = 32, Loc l = Loc::current()) {
  return detail::warp_join(
      v, width, [](Val<T> a, Val<T> b) { return a + b; }, l);
}
template <Word T>
Val<T> warp_max(Val<T> v, uint32_t width = 32, Loc l = Loc::current()) {
  return detail::warp_join(
      v, width, [](Val<T> a, Val<T> b) { return max(a, b); }, l);
}
template <Word T>
Val<T> block_sum(Code& k, Val<T> v, Loc l = Loc::current()) {
  return detail::block_join(
      k, v, [](Val<T> a, Val<T> b) { return a + b; }, l);
}
template <Word T>
Val<T> block_max(Code& k, Val<T> v, Loc l = Loc::current()) {
  return detail::block_join(
      k, v, [](Val<T> a, Val<T> b) { return max(a, b); }, l);
}

}  // namespace heddle::ptx
