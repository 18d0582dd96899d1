// The heads for multi-token prediction of Qwen3.5's folders, which not all have.
#include <gtest/gtest.h>

#include "formats/hf/qwen.h"
#include "tests/formats/hf/described.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

std::string qwen35(const std::string& more = R"("head_dim": 8)") {
  return small_config("Qwen3_5ForCausalLM", R"("num_key_value_heads": 1, "tie_word_embeddings": true,
    "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1, "linear_num_value_heads": 2,
    "linear_key_head_dim": 4, "linear_value_head_dim": 4, )" +
                                                more);
}

// Every tensor of the description, and of its head.
HfFiles files_of(const std::string& config, bool head) {
  const hf::Description description = described(config);
  HfFiles files;
  const auto add = [&](const std::vector<hf::Wanted>& tensors) {
    for (const hf::Wanted& wanted : tensors) files.add(wanted.sources[0], {wanted.shape.rbegin(), wanted.shape.rend()});
  };
  add(description.tensors);
  if (head) add(description.next_head);
  return files;
}

TEST(HfQwenDelta, AHeadIsALayerMoreWhereTheFolderHasOne) {
  const std::string config = qwen35();
  const HfFiles with_head = files_of(config, true), without_head = files_of(config, false);
  const Checkpoint with = with_head.model(config), without = without_head.model(config);
  EXPECT_EQ(without.metadata.integer("qwen35.block_count"), 2u);
  EXPECT_EQ(without.metadata.find("qwen35.nextn_predict_layers"), nullptr);
  EXPECT_EQ(with.metadata.integer("qwen35.block_count"), 3u);
  EXPECT_EQ(with.metadata.integer("qwen35.nextn_predict_layers"), 1u);
  EXPECT_EQ(with.metadata.array("qwen35.attention.recurrent_layers").integers(), (std::vector<int64_t>{1, 0, 0}));
  const Tensor& norm = with.tensor("blk.2.nextn.enorm.weight");
  EXPECT_EQ(norm.source, "mtp.pre_fc_norm_embedding.weight");
  const float first = values_of(norm)[0];
  EXPECT_EQ(first - std::floor(first / 1000) * 1000, 1);  // 0 in the file, of weight - 1
  EXPECT_EQ(with.tensor("blk.2.nextn.eh_proj.weight").shape, (std::vector<uint64_t>{16, 8}));
  EXPECT_EQ(with.tensor("blk.2.attn_q.weight").source, "mtp.layers.0.self_attn.q_proj.weight");
  EXPECT_NE(with.find("blk.2.nextn.shared_head_norm.weight"), nullptr);
  EXPECT_NE(with.find("blk.2.nextn.hnorm.weight"), nullptr);
}

TEST(HfQwenDelta, HalfAHeadIsRefusedByName) {
  const std::string config = qwen35();
  HfFiles files = files_of(config, true);
  EXPECT_REFUSED(files.without("mtp.pre_fc_norm_hidden.weight").model(config), "missing",
                 "mtp.pre_fc_norm_hidden.weight");
  HfFiles more = files_of(config, true);
  EXPECT_REFUSED(more.add("mtp.embed_tokens.weight", {3, 8}).model(config), "mtp.embed_tokens.weight");
}

TEST(HfQwenDelta, HeadsOfAnotherKindAreNotTaken) {
  for (const char* more :
       {R"("head_dim": 8, "mtp_num_hidden_layers": 2)", R"("head_dim": 8, "mtp_num_hidden_layers": 0)",
        R"("head_dim": 8, "mtp_use_dedicated_embeddings": true)"}) {
    const HfFiles files = files_of(qwen35(), true);
    const Checkpoint model = files.model(qwen35(more));
    EXPECT_EQ(model.metadata.integer("qwen35.block_count"), 2u) << more;
    EXPECT_EQ(model.find("blk.2.attn_q.weight"), nullptr) << more;
  }
}

}  // namespace
}  // namespace heddle::formats
