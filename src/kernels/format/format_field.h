// The field `format` of a spec: a quant::Format by its name.
#pragma once
#include "kernels/field.h"
#include "quant/format.h"

namespace heddle::kernels {

inline Allowed weight_formats() {
  std::vector<std::string> names;
  for (quant::Format f : quant::all_formats()) names.emplace_back(quant::name(f));
  return named(std::move(names));
}

}  // namespace heddle::kernels
