// A spec of any kernel as one type: a key that is ordered by the spec's type and value, and the kernel it builds.
#pragma once
#include <memory>
#include <typeindex>

#include "ptx/ir.h"

namespace heddle::kernels {

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

// The order of maps from specs, which are searched by an AnySpec or by a SpecKey.
struct SpecOrder {
  using is_transparent = void;
  static const SpecKey& key(const AnySpec& spec) { return spec.key(); }
  static const SpecKey& key(const SpecKey& key) { return key; }
  bool operator()(const auto& a, const auto& b) const { return key(a) < key(b); }
};

}  // namespace heddle::kernels
