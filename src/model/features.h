// What some models have and some backends cannot compute yet: a backend refuses a model by naming it.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace heddle::model {

enum class Feature : uint8_t {
  latent_attention,
  both_directions,
  sinks,
  slopes,
  chunks,
  temperature,
  clamped_qkv,
  own_head_norms,
  norm_after_rope,
  residual_norms,
  embedding_norm,
  new_activations,  // all but silu and the two gelus
  router_bias,
  expert_biases,
  routing,  // other than a softmax over all experts
};
std::vector<Feature> features_of(const Model& model);
// An Error that names the first feature of the model that `can` does not say yes to. `backend`: "the GPU".
void expect_features(const Model& model, std::string_view backend, const std::function<bool(Feature)>& can);

}  // namespace heddle::model
