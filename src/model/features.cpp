#include "model/features.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::model {
namespace {

std::string_view feature_text(Feature feature) {
  switch (feature) {
    case Feature::latent_attention:
      return "multi-head latent attention";
    case Feature::both_directions:
      return "attention in both directions";
    case Feature::sinks:
      return "attention sinks";
    case Feature::slopes:
      return "ALiBi";
    case Feature::chunks:
      return "chunked attention";
    case Feature::temperature:
      return "an attention temperature by position";
    case Feature::clamped_qkv:
      return "clamped queries, keys and values";
    case Feature::own_head_norms:
      return "norms with weights for every head";
    case Feature::norm_after_rope:
      return "norms of queries and keys after the rotation";
    case Feature::residual_norms:
      return "norms of the residual stream";
    case Feature::embedding_norm:
      return "a norm of the embedding";
    case Feature::new_activations:
      return "activations other than SiLU and GELU";
    case Feature::router_bias:
      return "a router with a bias";
    case Feature::expert_biases:
      return "experts with biases";
    case Feature::routing:
      return "a routing other than a softmax over all experts";
  }
  return "";
}

}  // namespace

std::vector<Feature> features_of(const Model& model) {
  std::vector<Feature> found;
  const auto add = [&](bool has, Feature feature) {
    if (has && std::find(found.begin(), found.end(), feature) == found.end()) found.push_back(feature);
  };
  const auto activation = [&](Activation one) { add(one > Activation::gelu_tanh, Feature::new_activations); };
  const Overloaded look{[&](const Attention& a) {
                          add(a.latent.has_value(), Feature::latent_attention);
                          add(!a.causal, Feature::both_directions);
                          add(!a.sinks.empty(), Feature::sinks);
                          add(!a.slopes.empty(), Feature::slopes);
                          add(a.chunk != 0, Feature::chunks);
                          add(a.temperature.scale != 0, Feature::temperature);
                          add(a.clamp_qkv != 0, Feature::clamped_qkv);
                          add(a.own_head_norms, Feature::own_head_norms);
                          add(a.norm_after_rope && a.q_norm.kind != Norm::Kind::none, Feature::norm_after_rope);
                        },
                        [&](const FeedForward& f) { activation(f.activation); },
                        [&](const Mixture& m) {
                          activation(m.activation);
                          add(!m.router_bias.empty(), Feature::router_bias);
                          add(!m.gate_bias.empty() || !m.up_bias.empty() || !m.down_bias.empty(),
                              Feature::expert_biases);
                          const Routing& r = m.routing;
                          add(r.score != Routing::Score::softmax || !r.bias.empty() || r.groups_used < r.groups ||
                                  r.scale != 1 || r.weigh_input,
                              Feature::routing);
                        }};
  for (const Layer& layer : model.layers)
    for (const Sublayer& sublayer : layer.sublayers) {
      std::visit(look, sublayer);
      std::visit([&](const auto& kind) { add(kind.residual_norm.kind != Norm::Kind::none, Feature::residual_norms); },
                 sublayer);
    }
  add(model.embedding_norm.kind != Norm::Kind::none || !model.token_type.empty(), Feature::embedding_norm);
  return found;
}

void expect_features(const Model& model, std::string_view backend, const std::function<bool(Feature)>& can) {
  for (const Feature feature : features_of(model))
    if (!can(feature))
      throw Error("{}: this model has {}, which {} cannot compute yet", model.name, feature_text(feature), backend);
}

}  // namespace heddle::model
