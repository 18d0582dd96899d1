// What a model may have beside the plain one of small_model.h, by name.
#pragma once
#include "tests/cpu/small_model.h"

namespace heddle::test {

struct SmallFeature {
  const char* name;
  void (*add)(Builder&);
};

inline void each_attention_of(Builder& builder, auto&& f) {
  for (model::Layer& layer : builder.model().layers) f(layer.get<model::Attention>());
}
// The feed-forwards with gates become ones without.
inline void without_gates(Builder& builder, model::Activation activation, const model::Xielu& xielu = {}) {
  for (model::Layer& layer : builder.model().layers)
    if (auto* f = layer.find<model::FeedForward>()) {
      f->gate = {};
      f->activation = activation;
      f->xielu = xielu;
    }
}

// The mixture of the last layer, which becomes one of eight experts where it has none.
inline model::Mixture& experts_of(Builder& builder) {
  model::Layer& layer = builder.model().layers.back();
  if (auto* found = layer.find<model::Mixture>()) return *found;
  const uint64_t width = builder.shape().width, inner = builder.shape().inner;
  model::Mixture m;
  m.norm = layer.get<model::FeedForward>().norm;
  m.residual_norm = layer.get<model::FeedForward>().residual_norm;
  m.router = builder.matrix(quant::Format::f32, 8, width, 2 / std::sqrt(double(width)));
  m.routing = {.used = 3, .weights_sum_to_one = true};
  m.gate = builder.experts(8, inner, width);
  m.up = builder.experts(8, inner, width);
  m.down = builder.experts(8, width, inner);
  layer.sublayers[1] = std::move(m);
  return layer.get<model::Mixture>();
}

// Latent attention; every second layer has a q_down.
inline void add_latent(Builder& builder, uint32_t rank, uint32_t plain, uint32_t rotated, uint32_t value) {
  const uint64_t width = builder.shape().width, low = rank;
  bool has_down = true;
  each_attention_of(builder, [&](model::Attention& a) {
    model::Latent& l = a.latent.emplace();
    l.rank = rank;
    l.plain = plain;
    l.rotated = rotated;
    l.value = value;
    a.head = rank + rotated;
    a.value_head = rank;
    a.kv_heads = 1;
    a.k = a.v = {};
    a.q_bias = a.k_bias = a.v_bias = {};
    if (has_down) {
      l.q_down = builder.matrix(low, width);
      l.q_norm = builder.norm(low);
    }
    a.q = builder.matrix(uint64_t(a.heads) * (plain + rotated), has_down ? low : width);
    l.kv_down = builder.matrix(rank + rotated, width);
    l.kv_norm = builder.norm(rank);
    l.k_up = builder.experts(a.heads, rank, plain);
    l.v_up = builder.experts(a.heads, value, rank);
    a.rope = builder.rope(model::Rope::Style::pairs, rotated);
    a.scale = 1 / std::sqrt(float(plain + rotated));
    a.output = builder.matrix(width, uint64_t(a.heads) * value);
    has_down = !has_down;
  });
}

inline const std::vector<SmallFeature>& small_features() {
  using model::Activation;
  using model::Attention;
  using model::Norm;
  static const std::vector<SmallFeature> all{
      {"latent_attention",
       [](Builder& b) {
         if (b.shape().format == quant::Format::f32)
           add_latent(b, 13, 6, 4, 7);
         else
           add_latent(b, 64, 32, 16, 32);
       }},
      {"both_directions", [](Builder& b) { each_attention_of(b, [](Attention& a) { a.causal = false; }); }},
      {"windows",
       [](Builder& b) {
         b.model().layers[0].get<Attention>().window = 5;
         b.model().layers[1].get<Attention>().window = 18;
       }},
      {"sinks", [](Builder& b) { each_attention_of(b, [&](Attention& a) { a.sinks = b.random(a.heads, 2, 1); }); }},
      {"slopes",
       [](Builder& b) {
         each_attention_of(b, [](Attention& a) {
           for (uint32_t h = 0; h < a.heads; ++h) a.slopes.push_back(std::exp2(-float(h + 1)));
         });
       }},
      {"chunks",
       [](Builder& b) {
         b.model().layers[0].get<Attention>().chunk = 7;
         b.model().layers[1].get<Attention>().chunk = 20;
       }},
      {"temperature",
       [](Builder& b) {
         each_attention_of(b, [](Attention& a) { a.temperature = {.scale = 0.4f, .length = 5, .offset = 1}; });
       }},
      {"clamped_qkv", [](Builder& b) { each_attention_of(b, [](Attention& a) { a.clamp_qkv = 0.7f; }); }},
      {"own_head_norms",
       [](Builder& b) {
         each_attention_of(b, [&](Attention& a) {
           a.own_head_norms = true;
           a.q_norm = b.norm(uint64_t(a.heads) * a.head, Norm::Kind::layer);
           a.k_norm = b.norm(uint64_t(a.kv_heads) * a.head);
         });
       }},
      {"norm_after_rope",
       [](Builder& b) {
         each_attention_of(b, [&](Attention& a) {
           a.norm_after_rope = true;
           if (a.q_norm.kind != Norm::Kind::none) return;
           a.q_norm = b.norm(a.head);
           a.k_norm = b.norm(uint64_t(a.kv_heads) * a.head);
         });
       }},
      {"residual_norms",
       [](Builder& b) {
         for (model::Layer& layer : b.model().layers)
           for (model::Sublayer& sublayer : layer.sublayers)
             std::visit(model::Overloaded{
                            [](model::Altup&) {}, [](model::NextHead&) {},
                            [&](auto& kind) { kind.residual_norm = b.norm(b.shape().width, Norm::Kind::layer); }},
                        sublayer);
       }},
      {"embedding_norm",
       [](Builder& b) {
         b.model().embedding_norm = b.norm(b.shape().width, Norm::Kind::layer);
         b.model().type_embeddings = b.random(b.shape().width, 1);
         b.model().positions = b.matrix(quant::Format::f32, 64, b.shape().width, 1);
       }},
      {"relu_squared", [](Builder& b) { without_gates(b, Activation::relu_squared); }},
      {"xielu",
       [](Builder& b) {
         without_gates(b, Activation::xielu, {0.8f, 1.2f, 0.5f, -1e-6f});
       }},
      {"clamped_swiglu",
       [](Builder& b) {
         for (model::Layer& layer : b.model().layers)
           if (auto* f = layer.find<model::FeedForward>()) {
             f->activation = Activation::clamped_swiglu;
             f->gate = b.matrix(quant::Format::f32, f->up.rows, f->up.cols, 0.7);  // some reach the limit
           }
         experts_of(b).activation = Activation::clamped_swiglu;
       }},
      {"router_bias", [](Builder& b) { experts_of(b).router_bias = b.random(8, 1); }},
      {"expert_biases",
       [](Builder& b) {
         model::Mixture& m = experts_of(b);
         m.gate_bias = b.random(m.gate.all.rows, 0.5);
         m.up_bias = b.random(m.up.all.rows, 0.5);
         m.down_bias = b.random(m.down.all.rows, 0.5);
       }},
      {"sigmoid_routing",
       [](Builder& b) {
         model::Routing& routing = experts_of(b).routing;
         routing.score = model::Routing::Score::sigmoid;
         routing.bias = b.random(8, 0.3);
         routing.scale = 1.7f;
       }},
      {"groups_by_two",
       [](Builder& b) {
         model::Routing& routing = experts_of(b).routing;
         routing.groups = 4;
         routing.groups_used = 2;
       }},
      {"groups_by_best",
       [](Builder& b) {
         model::Routing& routing = experts_of(b).routing;
         routing.groups = 2;
         routing.groups_used = 1;
         routing.groups_by_two = false;
         routing.weights_sum_to_one = false;
       }},
      {"sparsemixer",
       [](Builder& b) {
         model::Routing& routing = experts_of(b).routing;
         routing.score = model::Routing::Score::sparsemixer;
         routing.used = 2;
         routing.near = 0.5f;
       }},
      {"weighed_input", [](Builder& b) { experts_of(b).routing.weigh_input = true; }},
      {"shared_expert",
       [](Builder& b) {
         const uint64_t width = b.shape().width, inner = b.shape().inner;
         model::FeedForward& shared = experts_of(b).shared.emplace();
         shared.gate = b.matrix(inner, width);
         shared.up = b.matrix(inner, width);
         shared.down = b.matrix(width, inner);
       }},
  };
  return all;
}

inline void add_features(Builder& builder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool found = false;
    for (const SmallFeature& feature : small_features()) {
      if (feature.name != name) continue;
      feature.add(builder);
      found = true;
    }
    check(found, "a feature of that name");
  }
}

// The features of some models that people run.
inline const std::vector<std::pair<std::string, std::vector<std::string>>>& families() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> all{
      {"gpt_oss", {"windows", "sinks", "clamped_swiglu", "router_bias", "expert_biases"}},
      {"deepseek", {"latent_attention", "sigmoid_routing", "groups_by_two", "shared_expert"}},
      {"llama4", {"chunks", "temperature", "norm_after_rope", "weighed_input", "sigmoid_routing", "shared_expert"}},
      {"mpt", {"slopes", "clamped_qkv", "embedding_norm"}},
      {"phimoe", {"sparsemixer", "windows"}},
      {"stablelm", {"own_head_norms", "relu_squared"}},
      {"apertus", {"norm_after_rope", "xielu"}},
  };
  return all;
}

}  // namespace heddle::test
