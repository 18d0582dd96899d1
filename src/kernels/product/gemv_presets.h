// Points of gemv's design space that have names of their own.
#pragma once
#include "kernels/product/gemv.h"

namespace heddle::kernels {

struct GemvPreset {
  std::string name, summary;
  Gemv spec;
};
const std::vector<GemvPreset>& gemv_presets();

}  // namespace heddle::kernels
