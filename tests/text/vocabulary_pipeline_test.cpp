// Real vocabularies, with texts and ids from other tokenizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/shared_data.h"
#include "tests/text/gguf_vocabulary.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::text {
namespace {

class GgufVocabulary : public testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return std::string("vocab/ggml-vocab-") + GetParam() + ".gguf"; }
};

TEST_P(GgufVocabulary, EncodesTheReferenceTextsAndBack) {
  SHARED_DATA(path, name());
  const Tokenizer tokenizer = test::gguf_tokenizer(path);
  const auto texts = test::reference_texts(path);
  EXPECT_EQ(texts.size(), 46u);
  for (const auto& [text, ids] : texts) {
    EXPECT_EQ(tokenizer.encode(text, {.add_special = false, .parse_special = false}), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST_P(GgufVocabulary, AnyBytesComeBack) {
  SHARED_DATA(path, name());
  const Tokenizer tokenizer = test::gguf_tokenizer(path);
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::string text = i % 2 ? test::random_text(random, 100) : test::random_bytes(random, 400);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {.parse_special = false})), text) << in_quotes(text, 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocabulary, testing::Values("gpt-2", "llama-bpe", "qwen2", "llama-spm", "phi-3"),
                         [](const auto& of) {
                           std::string out(of.param);
                           for (char& c : out)
                             if (c == '-') c = '_';
                           return out;
                         });

TEST(GgufVocabularies, SpecialTokensAndEnds) {
  SHARED_DATA(path, "vocab/ggml-vocab-llama-bpe.gguf");
  const Tokenizer tokenizer = test::gguf_tokenizer(path);
  EXPECT_EQ(tokenizer.encode("<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"),
            (std::vector<TokenId>{128000, 128006, 882, 128007, 271, 13347, 128009}));
  EXPECT_EQ(tokenizer.bos(), 128000u);
  const std::vector<TokenId>& ends = tokenizer.end_tokens();
  EXPECT_NE(std::find(ends.begin(), ends.end(), 128009), ends.end());
}

TEST(GgufVocabularies, Phi3) {
  SHARED_DATA(path, "vocab/ggml-vocab-phi-3.gguf");
  const Tokenizer tokenizer = test::gguf_tokenizer(path);
  EXPECT_EQ(tokenizer.encode("<|user|>\nHi<|end|>\n<|assistant|>\n"),
            (std::vector<TokenId>{1, 32010, 6324, 32007, 32001}));
}

}  // namespace
}  // namespace heddle::text
