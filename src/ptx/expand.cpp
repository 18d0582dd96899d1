#include "ptx/expand.h"

#include "ptx/code.h"
#include "ptx/convert.h"
#include "ptx/warp.h"

namespace heddle::ptx {
namespace {

class Expander {
 public:
  Expander(Kernel kernel, const Target& target) : target_(target), body_(std::move(kernel.body)) {
    k_.kernel = std::move(kernel);
    k_.kernel.body.clear();
  }
  Kernel run() {
    each(body_);
    return k_.finish();
  }

 private:
  void each(Block& block) {
    for (Inst& inst : block) one(inst);
  }

  void one(Inst& i) {
    for (Block* inner : {&i.head, &i.body, &i.otherwise}) {
      Block of_inner = std::move(*inner);
      *inner = k_.record([&] { each(of_inner); });
    }
    const Recorder::Pin pin(k_, {i.file, i.line});
    if (has(target_, need(i)) || !replace(i)) k_.append(std::move(i), {});
  }

  // False: there is no replacement.
  bool replace(const Inst& i) {
    switch (i.op) {
      case Op::mma:
        return halve_mma(i);
      case Op::cp_async:
        return copy(i);
      case Op::cp_async_commit:
      case Op::cp_async_wait:
        return true;  // what was copied has arrived
      case Op::min:
      case Op::max:
        return keep_nan(i);
      case Op::cvt:
        return convert(i);
      case Op::redux:
        return i.type == Type::s32 ? reduce<int32_t>(i) : reduce<uint32_t>(i);
      default:
        return false;
    }
  }

  template <class T>
  Val<T> value(const Operand& o) {
    return {&k_, o};
  }
  template <class T>
  bool give(const Inst& i, Val<T> v) {
    k_.append({.op = Op::mov, .type = type_of<T>, .dst = i.dst, .src = {v.op}}, {});
    return true;
  }

  // A lane's registers of A are rows g and g + 8 of columns 0 to 7, then the same of columns 8 to 15; of B the same
  // rows of its two halves.
  bool halve_mma(const Inst& i) {
    if (i.a_type != Type::f16 || i.type != Type::f32 || i.m != 16 || i.n != 8 || i.k != 16) return false;
    Inst first = i, second = i;
    first.k = second.k = 8;
    const auto& s = i.src;
    first.src = {s[0], s[1], s[4], s[6], s[7], s[8], s[9]};
    for (Operand& sum : first.dst) sum = k_.reg(Type::f32);
    second.src = {s[2], s[3], s[5]};
    second.src.insert(second.src.end(), first.dst.begin(), first.dst.end());
    k_.append(std::move(first), {});
    k_.append(std::move(second), {});
    return true;
  }

  bool copy(const Inst& i) {
    std::vector<Operand> words;
    for (uint32_t n = 0; n < i.bytes / 4u; ++n) words.push_back(k_.reg(Type::u32));
    const auto count = uint8_t(words.size());
    auto load = [&] {
      k_.append(
          {.op = Op::load, .type = Type::u32, .dst = words, .src = {i.src[1]}, .space = Space::global, .vec = count},
          {});
    };
    if (i.src.size() > 2) {
      U32 valid = value<uint32_t>(i.src[2]);
      for (const Operand& word : words)
        k_.append({.op = Op::mov, .type = Type::u32, .dst = {word}, .src = {immediate(0u)}}, {});
      k_.when(valid != 0u, [&] {
        k_.when(valid != uint32_t(i.bytes), [&] { k_.trap(); });
        load();
      });
    } else {
      load();
    }
    Inst store{.op = Op::store, .type = Type::u32, .src = {i.src[0]}, .space = Space::shared, .vec = count};
    store.src.insert(store.src.end(), words.begin(), words.end());
    k_.append(std::move(store), {});
    return true;
  }

  bool keep_nan(const Inst& i) {
    if (i.type != Type::f32 || !i.nan) return false;
    Inst plain = i;
    plain.nan = false;
    plain.dst = {k_.reg(Type::f32)};
    F32 chosen = value<float>(plain.dst[0]);
    k_.append(std::move(plain), {});
    Pred none{&k_, k_.emit({.op = Op::set, .type = Type::f32, .src = i.src, .compare = Compare::nan}, Type::pred, {})};
    return give(i, select(none, bitcast<float>(k_.constant(0x7fffffffu)), chosen));
  }

  bool convert(const Inst& i) {
    if (i.type == Type::f16x2 && i.from == Type::f32 && !i.sat)  // the upper half comes first
      return give(i, pack<f16x2>(to_f16(value<float>(i.src[1]), i.round), to_f16(value<float>(i.src[0]), i.round)));
    if (i.type != Type::bf16 || i.from != Type::f32 || i.round != Round::rn || i.sat) return false;
    F32 from = value<float>(i.src[0]);
    U32 bits = bitcast<uint32_t>(from), rounded = (bits + (bits >> 16u & 1u) + 0x7fffu) >> 16u;
    return give(i, bitcast<bf16>(to<uint16_t>(select(from == from, rounded, 0x7fffu))));
  }

  template <class T>
  bool reduce(const Inst& i) {
    const auto join = [&](Val<T> a, Val<T> b) -> Val<T> {
      switch (i.atomic) {
        case Atomic::add:
          return a + b;
        case Atomic::min:
          return min(a, b);
        case Atomic::max:
          return max(a, b);
        case Atomic::bit_and:
          return a & b;
        case Atomic::bit_or:
          return a | b;
        default:
          return a ^ b;
      }
    };
    return give(i, detail::warp_join(value<T>(i.src[0]), 32, join, {}));
  }

  const Target& target_;
  Block body_;
  Code k_;
};

}  // namespace

Kernel expanded(Kernel kernel, const Target& target) {
  if (target.sm >= 80) return kernel;
  return Expander(std::move(kernel), target).run();
}

}  // namespace heddle::ptx
