// Sublayers with recurrent states as files have them: numbers that the tensors cannot bear, and an older order of rows.
#include "model/load_states.h"

#include <gtest/gtest.h>

#include "tests/model/fixture.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

// The checkpoint of a fixture in GGUF's terms.
formats::Checkpoint checkpoint_of(const std::string& name, const Folder& folder) {
  const Fixture fixture(name);
  fixture.write(folder, fixture.config);
  return formats::open_checkpoint(folder.path());
}

TEST(LoadStates, NumbersThatDoNotFitAreRefused) {
  const struct {
    const char *fixture, *key;
    formats::Value value;
    std::initializer_list<std::string_view> says;
  } cases[] = {
      {"mamba2", "ssm.conv_kernel", uint32_t{0}, {"from 1 to 64", "found 0"}},
      {"mamba2", "ssm.conv_kernel", uint32_t{3}, {"ssm_conv1d.weight", "3 x 104", "4 x 104"}},
      {"mamba2", "ssm.time_step_rank", uint32_t{0}, {"from 1 to 4096", "found 0"}},
      {"mamba2", "ssm.time_step_rank", uint32_t{7}, {"ssm.inner_size", "a multiple of the 7 heads"}},
      {"mamba2", "ssm.time_step_rank", uint32_t{4}, {"ssm_dt.bias", "shape 4", "found 5"}},
      {"mamba2", "ssm.group_count", uint32_t{2}, {"ssm.group_count", "a divisor of the 5 heads"}},
      {"mamba2", "ssm.group_count", uint32_t{5}, {"ssm_conv1d.weight", "4 x 200"}},
      {"mamba2", "ssm.state_size", uint32_t{70000}, {"from 1 to 65536"}},
      {"mamba2", "ssm.state_size", uint32_t{13}, {"ssm_conv1d.weight", "4 x 106"}},
      {"mamba2", "ssm.inner_size", uint32_t{85}, {"ssm_conv1d.weight", "4 x 109"}},
      {"mamba2", "ssm.time_step_min", -1.0f, {"a number from 0 on", "found -1"}},
      {"mamba2-limits", "ssm.time_step_max", 0.5f, {"ssm.time_step_max", "at least 0.6", "found 0.5"}},
      {"qwen35", "ssm.group_count", uint32_t{1}, {"ssm_conv1d.weight", "4 x 96"}},
      {"qwen35", "attention.head_count_kv", uint32_t{0}, {"head_count_kv", "layer 3", "found 0"}},
      {"lfm2", "shortconv.l_cache", uint32_t{65}, {"from 1 to 64"}},
      {"lfm2", "shortconv.l_cache", uint32_t{2}, {"shortconv.conv.weight", "2 x 40"}},
  };
  for (const auto& [fixture, key, value, says] : cases) {
    SCOPED_TRACE(std::string(fixture) + " " + key);
    const Folder folder;
    formats::Checkpoint checkpoint = checkpoint_of(fixture, folder);
    checkpoint.metadata.set(std::string(checkpoint.architecture()) + "." + key, value);
    expect_says(refusal([&] { model::load(std::move(checkpoint)); }), says);
  }
}

TEST(LoadStates, LayersOfAKindThatTheArchitectureHasNotAreRefused) {
  const Folder folder;
  formats::Checkpoint checkpoint = checkpoint_of("granitehybrid", folder);
  std::erase_if(checkpoint.tensors,
                [](const formats::Tensor& tensor) { return tensor.name == "blk.1.ssm_conv1d.weight"; });
  checkpoint.index();
  expect_says(refusal([&] { model::load(std::move(checkpoint)); }), {"head_count_kv", "layer 1"});
}

// Files of Qwen3-Next from before heads were sorted by their part: ssm_in has the query, key, values and gates of each
// key head.
TEST(LoadStates, AnOlderOrderOfRowsGivesTheSameBits) {
  const Folder folder;
  formats::Checkpoint checkpoint = checkpoint_of("qwen3next", folder);
  const Fixture fixture("qwen3next");
  const std::vector<float> expected = Running(folder.path()).all_logits(fixture.ids);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const std::string blk = fmt::format("blk.{}.", layer);
    formats::Tensor joined;
    joined.name = blk + "ssm_in.weight";
    joined.shape = {40, 192};
    const std::string source = fmt::format("model.layers.{}.linear_attn.in_proj_qkvz.weight", layer);
    joined.produce = [values = formula(source, {192, 40}, 0)](std::span<uint8_t> to) {
      std::memcpy(to.data(), values.data(), to.size());
    };
    std::erase_if(checkpoint.tensors, [&](const formats::Tensor& tensor) {
      return tensor.name == blk + "attn_qkv.weight" || tensor.name == blk + "attn_gate.weight";
    });
    checkpoint.tensors.push_back(std::move(joined));
  }
  checkpoint.index();
  Running running(model::load(std::move(checkpoint)), cpu::make_reference);
  EXPECT_EQ(running.all_logits(fixture.ids), expected);
}

// A head's rows in the file are its queries and then its gates.
TEST(LoadStates, TheGateOfAnAttentionIsAMatrixOfItsOwn) {
  const Folder folder;
  const model::Model model = model::load(checkpoint_of("qwen3next", folder));
  const auto& attention = model.layers[3].get<model::Attention>();
  const std::vector<float> both = formula("model.layers.3.self_attn.q_proj.weight", {128, 40}, 0);
  const model::Vector q = model::decoded(attention.q), gate = model::decoded(attention.gate);
  ASSERT_EQ(q.size() + gate.size(), both.size());
  for (size_t row = 0; row < 64; ++row)
    for (size_t c = 0; c < 40; ++c) {
      const size_t from = (row / 16 * 32 + row % 16) * 40 + c;
      ASSERT_EQ(q[row * 40 + c], both[from]);
      ASSERT_EQ(gate[row * 40 + c], both[from + 16 * 40]);
    }
}

TEST(LoadStates, AreCounted) {
  const Folder folder;
  const model::Model mamba = model::load(checkpoint_of("mamba2", folder), {.context = 96});
  // two layers of a convolution of 4 over 104 channels, and 5 heads of 16 with states of 12
  EXPECT_EQ(model::state_bytes(mamba), 2u * 4 * (3 * 104 + 5 * 16 * 12));
  EXPECT_TRUE(model::has_states(mamba));
  model::Limits limits = model::limits_for(96);
  limits.state_slots = 7;
  EXPECT_EQ(cpu::memory_needed(mamba, limits).states, 7 * model::state_bytes(mamba));
  const Folder other;
  EXPECT_FALSE(model::has_states(model::load(checkpoint_of("llama", other))));
}

}  // namespace
}  // namespace heddle::test
