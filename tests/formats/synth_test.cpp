// Synthetic models: the right tensors, sane numbers, a vocabulary that spells everything.
#include "formats/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "formats/gguf.h"
#include "formats/hf/classes.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using heddle::test::Folder;

// What is published of the models, in millions of parameters.
TEST(Synth, ShapesHaveTheSizeOfTheirModels) {
  const std::vector<std::pair<std::string, double>> published = {{"llama-3.1-8b", 8030},
                                                                 {"llama-3.1-70b", 70554},
                                                                 {"llama-3.2-1b", 1236},
                                                                 {"llama-3.2-3b", 3213},
                                                                 {"tinyllama-1.1b", 1100},
                                                                 {"mixtral-8x7b", 46703},
                                                                 {"qwen2.5-0.5b", 494},
                                                                 {"qwen2.5-1.5b", 1544},
                                                                 {"qwen2.5-7b", 7616},
                                                                 {"qwen3-0.6b", 596},
                                                                 {"qwen3-4b", 4022},
                                                                 {"qwen3-8b", 8191},
                                                                 {"qwen3-30b-a3b", 30532},
                                                                 {"phi-2", 2780},
                                                                 {"phi-3-mini", 3821},
                                                                 {"gemma-2-2b", 2614},
                                                                 {"gemma-3-1b", 1000},
                                                                 {"gemma-3-4b", 3880},
                                                                 {"gemma-4-26b-a4b", 25230},
                                                                 {"gpt2", 124},
                                                                 {"pythia-1.4b", 1415},
                                                                 {"smollm3-3b", 3075},
                                                                 {"olmo2-1b", 1485},
                                                                 {"olmo2-7b", 7299},
                                                                 {"granite-3.1-2b", 2534},
                                                                 {"gpt-oss-20b", 20915},
                                                                 {"deepseek-v2-lite", 15706},
                                                                 {"qwen3.6-35b-a3b", 34661},
                                                                 {"granite-4.0-h-tiny", 6939},
                                                                 {"lfm2-1.2b", 1170},
                                                                 {"bge-base", 109}};
  ASSERT_EQ(synth_shapes().size(), published.size());
  for (const auto& [name, millions] : published) {
    const auto shape =
        std::find_if(synth_shapes().begin(), synth_shapes().end(), [&, n = name](auto& s) { return s.name == n; });
    ASSERT_NE(shape, synth_shapes().end()) << name;
    double values = 0;
    for (const hf::Wanted& tensor : hf::describe(parse_json(shape->config, name), name).tensors) {
      double count = 1;
      for (uint64_t n : tensor.shape) count *= static_cast<double>(n);
      values += tensor.values.empty() ? count : 0;
    }
    EXPECT_NEAR(values * 1e-6, millions, 0.005 * millions + 0.5) << name;
  }
}

TEST(Synth, WritesAModelSlow) {
  Folder folder;
  const std::filesystem::path path = folder.path() / "gpt2.gguf";
  const Written written = write_synthetic({"gpt2", FileType::q4_k_m, 3, {}}, path);
  const Checkpoint model = open_checkpoint(path);
  EXPECT_EQ(model.architecture(), "gpt2");
  EXPECT_EQ(model.metadata.integer("general.file_type"), 15u);
  EXPECT_EQ(model.metadata.string("general.size_label"), "124M");
  EXPECT_EQ(model.tensors.size(), 148u);
  const std::vector<float> norm = values_of(model.tensor("blk.5.attn_norm.weight"));
  EXPECT_EQ(norm, std::vector<float>(768, 1));
  for (const char* name :
       {"blk.0.attn_qkv.weight", "blk.3.ffn_down.weight", "token_embd.weight", "position_embd.weight"}) {
    const Tensor& tensor = model.tensor(name);
    double sum = 0, squares = 0;
    const std::vector<float> values = values_of(tensor);
    for (float value : values) {
      sum += value;
      squares += double(value) * value;
    }
    const double count = static_cast<double>(values.size()), expected = 1 / static_cast<double>(tensor.shape[0]);
    EXPECT_NEAR(squares / count / expected, 1, 0.05) << name;
    EXPECT_NEAR(sum / count, 0, 0.05 * std::sqrt(expected)) << name;
  }
  EXPECT_NE(values_of(model.tensor("blk.0.attn_qkv.weight")), values_of(model.tensor("blk.1.attn_qkv.weight")));
  uint64_t bytes = 0;
  for (const Tensor& tensor : model.tensors) bytes += tensor.bytes();
  EXPECT_EQ(written.bytes_after, bytes);

  const auto tokens = model.metadata.array("tokenizer.ggml.tokens").strings();
  EXPECT_EQ(tokens.size(), 50257u);
  EXPECT_EQ(std::set<std::string_view>(tokens.begin(), tokens.end()).size(), tokens.size());
  EXPECT_EQ(tokens[' '], "\xc4\xa0");
  EXPECT_EQ(tokens['a'], "a");
  EXPECT_EQ(tokens[256], "!!");
  EXPECT_EQ(model.metadata.array("tokenizer.ggml.merges").size(), 50257u - 256 - 3);
  EXPECT_EQ(tokens[model.metadata.integer("tokenizer.ggml.eos_token_id")], "<|end_of_text|>");

  const std::string first = heddle::test::contents(path);
  write_synthetic({"gpt2", FileType::q4_k_m, 3, {}}, path);
  EXPECT_EQ(heddle::test::contents(path), first);
  write_synthetic({"gpt2", FileType::q4_k_m, 4, {}}, path);
  EXPECT_NE(heddle::test::contents(path), first);
}

TEST(Synth, LeavesTheFirstLayers) {
  Folder folder;
  const std::filesystem::path path = folder.path() / "lfm2.gguf";
  write_synthetic({.shape = "lfm2-1.2b", .type = FileType::q4_0, .layers = 3}, path);
  Checkpoint model = open_checkpoint(path);
  EXPECT_EQ(model.metadata.integer("lfm2.block_count"), 3u);
  EXPECT_NO_THROW(model.tensor("blk.2.attn_q.weight"));
  EXPECT_REFUSED(write_synthetic({.shape = "lfm2-1.2b", .layers = 17}, path),
                 "--layers: expected 1 to 16 for lfm2-1.2b, or 0 for all, found 17");
}

TEST(Synth, UnknownShapesAreRefused) {
  EXPECT_REFUSED(write_synthetic({"gpt-5", FileType::f16, 1, {}}, "x.gguf"),
                 "there is no shape \"gpt-5\"; there are llama-3.1-8b, ");
}

}  // namespace
}  // namespace heddle::formats
