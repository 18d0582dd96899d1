// The field `format` of a spec: a quant::Format by its name.
#pragma once
#include <span>

#include "kernels/format/known_formats.h"
#include "kernels/spec/field.h"

namespace heddle::kernels {

inline Allowed weight_formats(std::span<const quant::Format> formats = known_formats) {
  Allowed a;
  for (quant::Format f : formats) {
    a.values.push_back(uint32_t(f));
    a.names.emplace_back(quant::name(f));
  }
  a.other_name = [](uint32_t v) { return v < quant::format_count ? quant::name(quant::Format(v)) : ""; };
  return a;
}

}  // namespace heddle::kernels
