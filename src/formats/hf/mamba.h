// Mamba-2 as the classes that have it spell it: its sizes, and the tensors of a layer.
#pragma once
#include <limits>
#include <string_view>
#include <vector>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

struct Mamba {
  uint64_t heads = 0, head = 0, state = 0, groups = 1, width = 0;
  bool bias = true;  // of the convolution
  bool norm = true;  // of the gated results
  double min_step = 0, max_step = std::numeric_limits<double>::infinity();

  uint64_t inner() const { return heads * head; }
  uint64_t mixed() const { return inner() + 2 * groups * state; }
};

// mamba_n_heads, mamba_d_head, mamba_d_state, mamba_n_groups, mamba_d_conv, mamba_conv_bias and time_step_limit;
// `inner` is heads * head.
Mamba read_mamba(Config& config, uint64_t inner);
// An Error where the sizes do not fit one another, or are larger than any model's.
void check_mamba(const Config& config, const Mamba& mamba);
// time_step_limit, [low, high]: high may be infinite.
void read_step_limits(Config& config, Mamba& to);

void put_mamba(Description& to, const Mamba& mamba);
// ssm_* from `folder`.{in_proj, conv1d, dt_bias, A_log, D, norm, out_proj}; the rows of in_proj and out_proj are
// scaled.
void add_mamba(Layer& layer, const Sizes& sizes, const Mamba& mamba, std::string_view folder,
               std::vector<Change::Scale> in_scales = {}, std::vector<Change::Scale> out_scales = {});

}  // namespace heddle::formats::hf
