// Cases in which each thread loads its operands, applies one function of the builder and stores what it gives.
// Operands come first as the cross product of special values, then at random.
#pragma once
#include "tests/ptx/cases/reference.h"
#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

// --- operands -------------------------------------------------------------------------------------------------------
// Where the values of one operand come from, as bits.
struct Source {
  std::vector<uint64_t> special = {};
  Callable<uint64_t(Rng&)> random = {};
};
// Zeros, infinities, NaNs, the ends of the range, the neighbours of 1.
std::vector<uint64_t> special_floats(const Format& f);
// Random bits; near 1; near a tie: the fraction ends in 10...0, perhaps one off; near the ends of the range.
uint64_t random_float(const Format& f, Rng& rng);
uint64_t random_integer(Type t, Rng& rng);

Source integers(Type t);
Source floats(Type t);           // also pairs of them
Source any(Type t);              // of the above, or a predicate
Source bits_of(Type t);          // for operations that ignore what the bits mean
Source amounts(uint32_t width);  // shift amounts, positions and lengths for `width` bits
// The source without the values that `reject` names.
Source without(Source s, Callable<bool(uint64_t)> reject);

// --- judging a result -----------------------------------------------------------------------------------------------
// Empty if `got` may stand where `want` is expected.
using Judge = Callable<std::string(uint64_t got, uint64_t want)>;

std::string differ(uint64_t got, uint64_t want);
// Bit for bit, but any NaN for a NaN: where PTX leaves the payload open.
Judge nan_by_class(Type t);
// Distance in units in the last place: neighbouring codes are 1 apart, across zero and into infinity too.
Judge within_ulps(Type t, int64_t max_ulps);
// Within tolerance(want) and half a unit in the last place of want, which is our own rounding; infinities, NaNs and
// the sign of zero must be met.
Judge within(Type t, double (*tolerance)(double));

// --- the case -------------------------------------------------------------------------------------------------------
// Bits of the operands in, bits of the results (which are 0 before) out. A predicate is 0 or 1.
using Reference = Callable<void(const uint64_t* in, uint64_t* out)>;

struct Elementwise {
  std::string name = {}, family = {};
  std::vector<Source> sources = {};  // one for each operand
  Reference reference = {};
  Judge judge = {};  // of each result; none: bit for bit
  std::string bound = "exact";
  Callable<void(Rng&, uint64_t* in)> relate = {};  // ties random operands to each other, now and then
};

// Appends the instructions under test: operands of the given types in, the results' registers out.
using Apply = Callable<std::vector<Operand>(Code& k, const std::vector<Operand>& in)>;
Case elementwise_case(Elementwise e, std::vector<Type> operands, Type result, uint32_t results, Apply apply);

// apply(Code&, Val<Operands>...) gives a Val<R>, or an array of `results` of them.
template <class R, class... Operands, class F>
Case elementwise(Elementwise e, F apply, uint32_t results = 1) {
  return elementwise_case(std::move(e), {type_of<Operands>...}, type_of<R>, results,
                          [apply](Code& k, const std::vector<Operand>& in) {
                            return [&]<size_t... i>(std::index_sequence<i...>)->std::vector<Operand> {
                              auto made = apply(k, Val<Operands>{&k, in[i]}...);
                              if constexpr (std::same_as<decltype(made), Val<R>>)
                                return {made.op};
                              else
                                return {made[0].op, made[1].op};
                            }
                            (std::index_sequence_for<Operands...>());
                          });
}

// --- families of cases ----------------------------------------------------------------------------------------------
template <class... Ts>
struct List {};
using Integers = List<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>;

// fn(type_identity<T>) for each T of the list.
template <class... Ts, class F>
void each(List<Ts...>, F fn) {
  (fn(std::type_identity<Ts>()), ...);
}
template <class T>
std::string type_name() {
  return name(type_of<T>);
}
inline constexpr Round roundings[] = {Round::rn, Round::rz, Round::rm, Round::rp};
inline constexpr Round whole_roundings[] = {Round::rni, Round::rzi, Round::rmi, Round::rpi};
inline std::string spelled(Round r) {
  constexpr const char* names[] = {"", "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"};
  return names[size_t(r)];
}

using Signed = List<int16_t, int32_t, int64_t>;
using WideIntegers = List<uint32_t, int32_t, uint64_t, int64_t>;
using Halves = List<heddle::f16, heddle::bf16, f16x2, bf16x2>;
using Floats = List<heddle::f16, heddle::bf16, f16x2, bf16x2, float, double>;

// f(format, operands) on each half of packed operands, or on the operands themselves.
template <class F>
Reference by_part(Type t, F f) {
  return [t, f, format = format_of(t)](const uint64_t* in, uint64_t* out) {
    if (!is_packed(t)) {
      out[0] = f(format, in);
      return;
    }
    for (int part = 0; part < 2; ++part) {
      uint64_t half[3];
      for (int i = 0; i < 3; ++i) half[i] = in[i] >> 16 * part & 0xffff;
      out[0] |= f(format, half) << 16 * part;
    }
  };
}

// A list of cases of the family "arithmetic".
struct ArithmeticCases {
  std::vector<Case>& all;

  // A result of type R from operands of types A...
  template <class R, class... A, class F>
  void add(Elementwise e, F apply) {
    e.family = "arithmetic";
    all.push_back(elementwise<R, A...>(std::move(e), apply));
  }
};

}  // namespace heddle::ptx::cases
