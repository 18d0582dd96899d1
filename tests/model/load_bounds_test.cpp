// Every number of a model file that sizes or indexes anything is refused where the tensors cannot bear it, with the
// key, what was expected and what was found. The tensors themselves are as they should be.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/model/fixture.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using formats::Array;
using Says = std::initializer_list<std::string_view>;

// A fixture as a GGUF file with one key changed.
std::string refused_in_gguf(const char* name, const std::string& key, const formats::Value& value) {
  const Folder folder;
  const Fixture fixture(name);
  fixture.write(folder, fixture.config);
  const formats::Checkpoint checkpoint = formats::open_checkpoint(folder.path());
  formats::Metadata metadata = formats::converted_metadata(checkpoint);
  metadata.set(key, value);
  formats::write_gguf(checkpoint, metadata, std::nullopt, folder.file("m.gguf"));
  return refusal([&] { Running(folder.file("m.gguf"), 0, 8).session.feed(std::vector<uint32_t>{1, 2}); });
}

std::string refused_in_folder(const char* name, const char* patch) {
  const Folder folder;
  const Fixture fixture(name);
  Json config = fixture.config;
  config.merge_patch(parse_json(patch, "patch"));
  fixture.write(folder, config);
  return refusal([&] { Running(folder.path(), 0, 8).session.feed(std::vector<uint32_t>{1, 2}); });
}

TEST(ModelBounds, OfTheRotation) {
  for (const uint32_t dimensions : {16u, 66u, 4096u, 65536u, 1u << 20, 2143289344u})
    expect_says(refused_in_gguf("llama", "llama.rope.dimension_count", dimensions),
                {"llama.rope.dimension_count", "from 2 to 14", fmt::format("found {}", dimensions)});
  const float infinite = std::numeric_limits<float>::infinity(), no_number = std::nanf("");
  const struct {
    const char* key;
    formats::Value value;
    Says says;
  } cases[] = {
      {"rope.dimension_count", uint32_t{0}, {"from 2 to 14", "found 0"}},
      {"rope.dimension_count", uint32_t{13}, {"even", "found 13"}},
      {"rope.dimension_count", int32_t{-2}, {"at least 0", "-2"}},
      {"rope.freq_base", 0.0f, {"above 0", "found 0"}},
      {"rope.freq_base", infinite, {"finite", "found inf"}},
      {"rope.freq_base", no_number, {"finite", "found nan"}},
      {"rope.freq_base", 1e300, {"f32", "found 1e+300"}},
      {"rope.scaling.factor", 0.0f, {"above 0", "found 0"}},
      {"rope.scaling.factor", -2.0f, {"above 0", "found -2"}},
      {"rope.scaling.attn_factor", no_number, {"finite", "found nan"}},
      {"rope.scaling.yarn_beta_fast", 0.0f, {"above 0", "found 0"}},
      {"rope.scaling.original_context_length", uint32_t{0}, {"from 1 to 2^31 - 1", "found 0"}},
  };
  for (const auto& [key, value, says] : cases) {
    SCOPED_TRACE(key);
    const std::string text = refused_in_gguf("llama", std::string("llama.") + key, value);
    expect_says(text, {key});
    expect_says(text, says);
  }
}

TEST(ModelBounds, OfSizesInAGgufFile) {
  const struct {
    const char *fixture, *key;
    formats::Value value;
    Says says;
  } cases[] = {
      {"llama", "llama.context_length", uint32_t{0}, {"from 1 to 2^31 - 1", "found 0"}},
      {"llama", "llama.context_length", uint64_t{1} << 40, {"from 1 to 2^31 - 1", "found 1099511627776"}},
      {"llama", "llama.embedding_length", uint32_t{0}, {"from 1 to 16777216", "found 0"}},
      {"llama", "llama.embedding_length", uint32_t{1} << 31, {"from 1 to 16777216", "found 2147483648"}},
      {"llama", "llama.embedding_length", uint32_t{96}, {"token_embd.weight", "96", "40"}},
      {"llama", "llama.block_count", uint32_t{4097}, {"from 1 to 4096", "found 4097"}},
      {"llama", "llama.block_count", uint32_t{4096}, {"blk.2.", "expected"}},
      {"llama", "llama.attention.head_count", uint32_t{0}, {"from 1 to 4096", "found 0"}},
      {"llama", "llama.attention.head_count", uint32_t{1} << 30, {"from 1 to 4096"}},
      {"llama", "llama.attention.head_count", Array::of(std::vector<int32_t>{4}), {"one number per layer (2)"}},
      {"llama", "llama.attention.head_count", Array::of(std::vector<int32_t>{4, -4}), {"layer 1", "from 1", "-4"}},
      {"llama", "llama.attention.head_count", Array::of(std::vector<float>{4, 4}), {"integers", "f32"}},
      {"llama", "llama.attention.head_count_kv", uint32_t{0}, {"from 1 to 4096", "found 0"}},
      {"llama", "llama.attention.head_count_kv", uint32_t{3}, {"layer 0 a divisor of the 4", "found 3"}},
      {"llama", "llama.attention.key_length", uint32_t{0}, {"from 1 to 65536", "found 0"}},
      {"llama", "llama.attention.key_length", uint32_t{1} << 20, {"from 1 to 65536", "found 1048576"}},
      {"llama", "llama.attention.value_length", uint32_t{65537}, {"from 1 to 65536", "found 65537"}},
      {"llama", "llama.feed_forward_length", uint32_t{1} << 25, {"from 0 to 16777216", "found 33554432"}},
      {"llama", "llama.attention.layer_norm_rms_epsilon", -1.0f, {"from 0 on", "found -1"}},
      {"llama", "llama.attention.layer_norm_rms_epsilon", std::nanf(""), {"finite", "found nan"}},
      {"llama", "llama.pooling_type", uint32_t{5}, {"from 0 to 4", "found 5"}},
      {"mistral", "llama.attention.sliding_window", uint64_t{1} << 32, {"from 0 to 2^31 - 1", "found 4294967296"}},
      {"mixtral", "llama.expert_count", uint32_t{4097}, {"from 0 to 4096", "found 4097"}},
      {"mixtral", "llama.expert_used_count", uint32_t{0}, {"from 1 to 5", "found 0"}},
      {"mixtral", "llama.expert_used_count", uint32_t{6}, {"from 1 to 5", "found 6"}},
      {"qwen2moe", "qwen2moe.expert_feed_forward_length", uint32_t{0}, {"from 1 to 16777216", "found 0"}},
      {"granite", "granite.logit_scale", 0.0f, {"above 0", "found 0"}},
      {"granite", "granite.residual_scale", std::numeric_limits<float>::infinity(), {"finite", "found inf"}},
      {"gemma2", "gemma2.attn_logit_softcapping", -1.0f, {"from 0 on", "found -1"}},
      {"gpt2", "gpt2.context_length", uint32_t{1} << 20, {"position_embd.weight", "1048576"}},
  };
  for (const auto& [name, key, value, says] : cases) {
    SCOPED_TRACE(std::string(key) + " " + formats::to_string(value));
    expect_says(refused_in_gguf(name, key, value), says);
  }
}

// Together they may not pass what a row of activations may have.
TEST(ModelBounds, OfAllHeads) {
  const Folder folder;
  const Fixture fixture("llama");
  fixture.write(folder, fixture.config);
  const formats::Checkpoint checkpoint = formats::open_checkpoint(folder.path());
  formats::Metadata metadata = formats::converted_metadata(checkpoint);
  metadata.set("llama.attention.head_count", uint32_t{4096});
  metadata.set("llama.attention.head_count_kv", uint32_t{4096});
  metadata.set("llama.attention.key_length", uint32_t{65536});
  metadata.set("llama.rope.dimension_count", uint32_t{65536});
  formats::write_gguf(checkpoint, metadata, std::nullopt, folder.file("m.gguf"));
  expect_says(refusal([&] { model::load(formats::open_checkpoint(folder.file("m.gguf"))); }),
              {"attention.key_length", "at most 16777216", "4096 heads", "65536"});
}

TEST(ModelBounds, OfAFolder) {
  const struct {
    const char *fixture, *patch;
    Says says;
  } cases[] = {
      {"llama", R"({"partial_rotary_factor": 4.0})", {"config.json: partial_rotary_factor", "whole heads", "4.0"}},
      {"llama", R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", {"partial_rotary_factor", "whole heads"}},
      {"qwen2", R"({"partial_rotary_factor": 4.0})", {"partial_rotary_factor", "whole heads", "4.0"}},
      {"phi2", R"({"rope_parameters": {"partial_rotary_factor": 4.0}})", {"above 0, at most 1", "found 4.0"}},
      {"phi2", R"({"rope_parameters": {"partial_rotary_factor": 0}})", {"above 0, at most 1", "found 0"}},
      {"phi2", R"({"rope_parameters": {"partial_rotary_factor": 0.01}})", {"an even number of them", "found 0.01"}},
      {"gptneox", R"({"rope_parameters": {"partial_rotary_factor": -1}})", {"above 0, at most 1", "found -1"}},
      {"gptneox", R"({"rope_parameters": null, "rotary_pct": 1e9})", {"rotary_pct", "at most 1"}},
      {"llama", R"({"rope_parameters": {"rope_theta": 0}})", {"rope_theta", "above 0", "found 0"}},
      {"llama", R"({"rope_parameters": {"rope_theta": 1e39}})", {"rope_theta", "f32", "1e+39"}},
      {"llama", R"({"rms_norm_eps": 1e300})", {"rms_norm_eps", "f32", "1e+300"}},
      {"llama", R"({"rms_norm_eps": -1})", {"layer_norm_rms_epsilon", "from 0 on", "-1"}},
      {"llama-llama3", R"({"head_dim": 1073741824})", {"head_dim", "at most 65536", "1073741824"}},
      {"llama", R"({"num_hidden_layers": 1073741824})", {"num_hidden_layers", "at most 4096"}},
      {"llama", R"({"max_position_embeddings": 0})", {"max_position_embeddings", "from 1 to 2^30", "found 0"}},
      {"mixtral", R"({"num_local_experts": 5000})", {"at most 4096 experts", "5000"}},
      {"mixtral", R"({"num_local_experts": 4096, "num_hidden_layers": 4096})", {"at most 1000000 tensors", "4096"}},
      {"mixtral", R"({"num_experts_per_tok": 9})", {"expert_used_count", "from 1 to 5", "found 9"}},
      {"phi3-longrope",
       R"({"original_max_position_embeddings": 1,
                            "rope_parameters": {"original_max_position_embeddings": 1, "attention_factor": null}})",
       {"original_max_position_embeddings", "2 or more"}},
      {"gemma3", R"({"rope_parameters": {"sliding_attention": {"rope_theta": -3}}})", {"rope_theta", "above 0"}},
  };
  for (const auto& [name, patch, says] : cases) {
    SCOPED_TRACE(std::string(name) + " " + patch);
    expect_says(refused_in_folder(name, patch), says);
  }
}

}  // namespace
}  // namespace heddle::test
