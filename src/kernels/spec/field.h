// The fields of a kernel's spec: each spec lists them once, and the catalogue, the checks and the messages follow from
// the list.
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <typeindex>
#include <vector>

#include "base/error.h"
#include "ptx/ir.h"

namespace heddle::kernels {

// The values a field may take: single ones, or first, first + step, ..., last. Where values have names (a format, yes
// and no), names[i] is that of values[i], and texts use the names.
struct Allowed {
  std::vector<uint32_t> values;
  uint32_t first = 0, last = 0, step = 0;
  std::vector<std::string> names;
  std::string_view (*other_name)(uint32_t) =
      nullptr;  // the name of a value that is not allowed, for messages; "" if it has none

  bool has(uint32_t v) const {
    if (step) return v >= first && v <= last && (v - first) % step == 0;
    for (uint32_t x : values)
      if (x == v) return true;
    return false;
  }
  std::string text() const {
    if (step == 1) return fmt::format("{} to {}", first, last);
    if (step) return fmt::format("{}, {}, ... {}", first, first + step, last);
    if (!names.empty()) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{}", fmt::join(values, ", "));
  }
  std::string text(uint32_t v) const {
    for (size_t i = 0; i < names.size(); ++i)
      if (values[i] == v) return names[i];
    if (other_name && !other_name(v).empty()) return std::string(other_name(v));
    return fmt::format("{}", v);
  }
  // The value that `text` names, if it is allowed.
  std::optional<uint32_t> parse(const std::string& text) const {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return values[i];
    if (!names.empty()) return {};
    uint32_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || !has(number)) return {};
    return number;
  }
};
inline Allowed one_of(std::vector<uint32_t> values) {
  Allowed a;
  a.values = std::move(values);
  return a;
}
inline Allowed range(uint32_t first, uint32_t last, uint32_t step = 1) {
  Allowed a;
  a.first = first;
  a.last = last;
  a.step = step;
  return a;
}
// 0, 1, 2, ... by name.
inline Allowed named(std::vector<std::string> names) {
  Allowed a;
  for (uint32_t i = 0; i < names.size(); ++i) a.values.push_back(i);
  a.names = std::move(names);
  return a;
}
inline Allowed yes_or_no() { return named({"no", "yes"}); }

template <class Spec>
struct Field {
  std::string_view name;
  uint32_t Spec::*member;
  Allowed allowed;
};

// f(field) for every field of a spec.
template <class Spec>
void each_field(auto&& f) {
  static const auto all = Spec::fields();  // lists of values: choices of kernels are checked thousands of times
  std::apply([&](const auto&... field) { (f(field), ...); }, all);
}

// Every build() begins with this, so that a wrong spec is an Error and never a wrong kernel.
template <class Spec>
void check_fields(const Spec& spec) {
  each_field<Spec>([&](const auto& field) {
    if (const auto v = spec.*field.member; !field.allowed.has(v))
      throw Error("{}: {} = {} is not possible; it may be {}", Spec::name, field.name, field.allowed.text(v),
                  field.allowed.text());
  });
}

// The fields of a spec as text: "threads=256 vec=1".
template <class Spec>
std::string field_text(const Spec& spec) {
  std::string text;
  each_field<Spec>([&](const auto& field) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", field.name, field.allowed.text(spec.*field.member));
  });
  return text;
}

// A spec of any kernel as one type: a key that is ordered by the spec's type and value, and the kernel it builds.

// Refers to a spec without copying it: what a lookup compares.
class SpecKey {
 public:
  template <class Spec>
  explicit SpecKey(const Spec& spec)
      : type_(typeid(Spec)), spec_(&spec), less_([](const void* a, const void* b) {
          return *static_cast<const Spec*>(a) < *static_cast<const Spec*>(b);
        }) {}
  friend bool operator<(const SpecKey& a, const SpecKey& b) {
    return a.type_ != b.type_ ? a.type_ < b.type_ : a.less_(a.spec_, b.spec_);
  }

 private:
  std::type_index type_;
  const void* spec_;
  bool (*less_)(const void*, const void*);
};

// Owns a copy of a spec. Copies of an AnySpec share it.
class AnySpec {
 public:
  // A spec needs an order and `ptx::Kernel build() const`.
  template <class Spec>
  explicit AnySpec(const Spec& spec) : AnySpec(std::make_shared<const Spec>(spec)) {}

  ptx::Kernel build() const { return build_(spec_.get()); }
  const SpecKey& key() const { return key_; }

 private:
  template <class Spec>
  explicit AnySpec(std::shared_ptr<const Spec> spec)
      : spec_(spec), key_(*spec), build_([](const void* s) { return static_cast<const Spec*>(s)->build(); }) {}

  std::shared_ptr<const void> spec_;
  SpecKey key_;
  ptx::Kernel (*build_)(const void*);
};

// Refuses rows that overlap.
inline void check_stride(std::string_view kernel, const char* which, uint32_t rows, uint32_t stride, uint64_t values) {
  if (rows > 1 && stride < values)
    throw Error("{}: {} has a stride of {}, but rows of {} values", kernel, which, stride, values);
}

// The order of maps from specs, which are searched by an AnySpec or by a SpecKey.
struct SpecOrder {
  using is_transparent = void;
  static const SpecKey& key(const AnySpec& spec) { return spec.key(); }
  static const SpecKey& key(const SpecKey& key) { return key; }
  bool operator()(const auto& a, const auto& b) const { return key(a) < key(b); }
};

}  // namespace heddle::kernels
