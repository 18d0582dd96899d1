// What can be set in a kernel's spec: each spec names its fields once, and the catalog, the checks and the messages
// follow from that.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace heddle::kernels {

// The values a field may take: single ones, or first, first + step, ..., last.
struct Allowed {
  std::vector<uint32_t> values;
  uint32_t first = 0, last = 0, step = 0;

  bool has(uint32_t v) const {
    if (step) return v >= first && v <= last && (v - first) % step == 0;
    for (uint32_t x : values)
      if (x == v) return true;
    return false;
  }
  std::string text() const {
    if (step == 1) return fmt::format("{} to {}", first, last);
    if (step) return fmt::format("{}, {}, ... {}", first, first + step, last);
    return fmt::format("{}", fmt::join(values, ", "));
  }
};
inline Allowed one_of(std::vector<uint32_t> values) { return {.values = std::move(values)}; }
inline Allowed range(uint32_t first, uint32_t last, uint32_t step = 1) {
  return {.values = {}, .first = first, .last = last, .step = step};
}

template <class Spec>
struct Field {
  std::string_view name;
  uint32_t Spec::*member;
  Allowed allowed;
};

// f(field) for every field of a spec.
template <class Spec>
void each_field(auto&& f) {
  std::apply([&](const auto&... field) { (f(field), ...); }, Spec::fields());
}

// Every build() begins with this, so that a wrong spec is an Error and never a wrong kernel.
template <class Spec>
void check_fields(const Spec& spec) {
  each_field<Spec>([&](const auto& field) {
    if (const auto v = spec.*field.member; !field.allowed.has(v))
      throw Error("{}: {} = {} is not possible; it may be {}", Spec::name, field.name, v, field.allowed.text());
  });
}

}  // namespace heddle::kernels
