// Shapes of models that people run: of which of them ranks have a part, and which they compute whole.
#include <gtest/gtest.h>

#include "model/backend.h"
#include "model/shard.h"

namespace heddle::model {
namespace {

using quant::Format;

// Matrices without data.
Matrix shape(Format format, uint64_t rows, uint64_t cols) { return {format, rows, cols, {}}; }
Attention heads(uint32_t heads, uint32_t kv_heads, uint32_t head, Format format = Format::q4_k) {
  Attention a;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head = a.value_head = head;
  a.q = shape(format, heads * head, 2048);
  a.k = a.v = shape(format, kv_heads * head, 2048);
  a.output = shape(format, 2048, heads * head);
  return a;
}
FeedForward inner(uint64_t size, Format format = Format::q6_k) {
  FeedForward f;
  f.gate = f.up = shape(format, size, 2048);
  f.down = shape(format, 2048, size);
  return f;
}
Mixture experts(uint64_t count, uint64_t inner, Format format = Format::q6_k) {
  Mixture m;
  m.router = shape(Format::f32, count, 2048);
  m.gate = m.up = {count, shape(format, count * inner, 2048)};
  m.down = {count, shape(format, count * 2048, inner)};
  return m;
}
Attention latents(uint32_t count) {
  Attention a = heads(count, 1, 576);
  a.value_head = 512;
  a.k = a.v = {};
  Latent& l = a.latent.emplace();
  l.rank = 512;
  l.plain = 128;
  l.rotated = 64;
  l.value = 128;
  a.q = shape(Format::q4_k, count * 192, 1536);
  l.k_up = {count, shape(Format::q8_0, count * 512, 128)};
  l.v_up = {count, shape(Format::q8_0, count * 128, 512)};
  a.output = shape(Format::q4_k, 2048, count * 128);
  return a;
}
Recurrence states(Recurrence::Rule rule, uint32_t count, uint32_t key_heads, uint32_t key, uint32_t value, bool tiled,
                  uint32_t norm_size) {
  Recurrence r;
  r.rule = rule;
  r.heads = count;
  r.key_heads = key_heads;
  r.key = key;
  r.value = value;
  r.tiled = tiled;
  r.norm_size = norm_size;
  r.gated_norm = {.kind = Norm::Kind::rms, .weight = Vector(r.values()), .bias = {}};
  r.mixed = shape(Format::q4_k, r.values() + 2 * r.keys(), 2048);
  r.convolution = {4, Vector(4 * r.mixed.rows), {}};
  r.gate = shape(Format::q4_k, r.values(), 2048);
  r.steps = shape(Format::q4_k, count, 2048);
  r.output = shape(Format::q4_k, 2048, r.values());
  return r;
}

TEST(ShardsOfKnownModels, HaveNothingLargeWhole) {
  struct Known {
    const char* name;
    std::vector<Sublayer> sublayers;
    std::string whole_on_8 = "";  // kinds that are; on 2 and 4 none is
  };
  ShortConvolution lfm2;
  lfm2.in = shape(Format::q4_k, 3 * 2048, 2048);
  lfm2.convolution = {3, Vector(3 * 2048), {}};
  lfm2.output = shape(Format::q4_k, 2048, 2048);
  using Rule = Recurrence::Rule;
  const std::vector<Known> all{
      {"Llama 3 8B", {heads(32, 8, 128), inner(14336)}},
      {"Llama 3 70B", {heads(64, 8, 128), inner(28672)}},
      {"Llama 3.2 1B", {heads(32, 8, 64), inner(8192)}},
      {"Qwen3 32B", {heads(64, 8, 128), inner(25600)}},
      {"Qwen3 30B-A3B", {heads(32, 4, 128), experts(128, 768)}},
      {"Qwen3 235B-A22B", {heads(64, 4, 128), experts(128, 1536)}},
      {"gpt-oss 20B", {heads(64, 8, 64, Format::q8_0), experts(32, 2880, Format::mxfp4)}},
      {"DeepSeek V3", {latents(128), experts(256, 2048), inner(18432)}},
      {"Gemma 3 27B", {heads(32, 16, 128), inner(21504)}},
      {"Gemma 3 1B", {heads(4, 1, 256), inner(6912)}, "attention"},
      {"Phi 3 mini", {heads(32, 32, 96), inner(8192)}},  // eight heads make a block
      {"Qwen 2.5 7B", {heads(28, 4, 128), inner(18944)}},
      {"Qwen3 14B", {heads(40, 8, 128), inner(17408)}},
      {"Qwen3-Next 80B-A3B", {states(Rule::delta, 32, 16, 128, 128, true, 128), heads(16, 2, 256), experts(512, 512)}},
      {"Granite 4 H small", {states(Rule::ssd, 128, 1, 128, 64, false, 8192), heads(32, 8, 128), experts(72, 768)}},
      {"Nemotron H 8B", {states(Rule::ssd, 128, 8, 128, 64, false, 1024), heads(32, 8, 128), inner(21504)}},
      {"LFM2 1.2B", {lfm2, heads(32, 8, 64), inner(8192)}},
  };
  for (const Known& known : all) {
    Model model{.name = known.name, .width = 2048, .vocabulary = 32000};
    for (const Sublayer& sublayer : known.sublayers) model.layers.push_back({.sublayers = {sublayer}});
    model.output = shape(Format::q6_k, 32000, 2048);
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      std::string whole;
      for (const CutCount& count : count_cuts(shard_of(model, ranks - 1, ranks)))
        if (count.whole) whole += count.kind;
      EXPECT_EQ(whole, ranks == 8 ? known.whole_on_8 : "") << known.name << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace heddle::model
