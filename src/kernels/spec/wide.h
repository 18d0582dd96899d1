// Loads and stores of 1, 2 or 4 neighbours in one access, where the width is a field of the spec.
#pragma once
#include "base/error.h"
#include "ptx/memory.h"

namespace heddle::kernels {

template <class T, ptx::Space S>
requires(sizeof(T) <= 4) std::vector<ptx::Val<ptx::Loaded<T>>> load_wide(ptx::Ptr<T, S> p, uint32_t width,
                                                                         ptx::Access how = {},
                                                                         ptx::Loc loc = ptx::Loc::current()) {
  check(width == 1 || width == 2 || width == 4, "an access is 1, 2 or 4 values");
  auto list = [](const auto& v) { return std::vector(v.begin(), v.end()); };
  if (width == 1) return {load(p, how, loc)};
  return width == 2 ? list(ptx::load_vec<2>(p, how, loc)) : list(ptx::load_vec<4>(p, how, loc));
}

template <class T, ptx::Space S>
requires(sizeof(T) <= 4) void store_wide(ptx::Ptr<T, S> p, const std::vector<ptx::Val<T>>& v, ptx::Access how = {},
                                         ptx::Loc loc = ptx::Loc::current()) {
  check(v.size() == 1 || v.size() == 2 || v.size() == 4, "an access is 1, 2 or 4 values");
  if (v.size() == 1) return ptx::store(p, ptx::Arg<T>(v[0], loc), how);
  if (v.size() == 2) return ptx::store_vec(p, ptx::Vec<T, 2>{v[0], v[1]}, how, loc);
  ptx::store_vec(p, ptx::Vec<T, 4>{v[0], v[1], v[2], v[3]}, how, loc);
}

}  // namespace heddle::kernels
