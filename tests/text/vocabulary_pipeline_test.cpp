// Real vocabularies, with texts and ids from other tokenizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/shared_data.h"
#include "tests/text/gguf_vocabulary.h"
#include "tests/text/json/json_fixture.h"
#include "tests/text/small_vocabulary.h"
#include "text/json/tokenizer_json.h"

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

// The fixtures' vocabularies as llama.cpp's converter writes them.
Vocabulary converted(const nlohmann::json& file) {
  const bool words = file["model"]["type"] == "WordPiece";
  Vocabulary out;
  out.source = "x.gguf";
  out.model = words ? "bert" : "t5";
  const auto& vocab = file["model"]["vocab"];
  out.tokens.resize(vocab.size());
  for (const auto& [key, entry] : vocab.items()) {
    if (words) {
      out.tokens[entry] = key.starts_with("##") ? key.substr(2) : "\u2581" + key;
    } else {
      out.tokens[out.scores.size()] = entry[0];
      out.scores.push_back(entry[1]);
    }
  }
  out.types.assign(out.tokens.size(), TokenType::normal);
  for (const auto& token : file["added_tokens"]) {
    const size_t id = token["id"];
    out.tokens.resize(std::max(out.tokens.size(), id + 1));
    out.types.resize(out.tokens.size());
    if (!words) out.scores.resize(out.tokens.size());
    out.tokens[id] = token["content"];
    out.types[id] = TokenType::control;
  }
  const auto id_of = [&](const char* token) {
    return TokenId(std::find(out.tokens.begin(), out.tokens.end(), token) - out.tokens.begin());
  };
  if (words) {
    out.bos = id_of("[CLS]");
    out.eos = out.separator = id_of("[SEP]");
    out.unknown = id_of("[UNK]");
    out.add_bos = out.add_eos = true;
    out.add_sep = false;
  } else {
    out.eos = id_of("</s>");
    out.unknown = id_of("<unk>");
    out.types[*out.unknown] = TokenType::unknown;
    out.add_eos = out.add_space_prefix = out.remove_extra_whitespaces = true;
    const Json steps = Json::parse(file["normalizer"].dump());
    for (const JsonStep& step : json_steps(&steps, "normalizers", "normalizer"))
      if (step.type == "Precompiled") out.precompiled_charsmap = charsmap_bytes(step);
  }
  return out;
}

// The ids are llama.cpp's. It does not decompose Hangul, which BERT's own tokenizer does; such texts are left out.
TEST(GgufVocabularies, WordPieceAndUnigramAreThoseOfLlamaCpp) {
  Vocabulary bert = converted(nlohmann::json::parse(test::fixture_text("wordpiece-bert.json"))), cased = bert,
             accents = bert;
  cased.lower_case = false;
  accents.strip_accents = false;
  const std::vector<Vocabulary> vocabularies{bert, cased, accents,
                                             converted(nlohmann::json::parse(test::fixture_text("unigram-t5.json")))};
  const auto cases = nlohmann::json::parse(test::fixture_text("gguf.cases.json"));
  EXPECT_EQ(cases.size(), 103u);
  for (size_t i = 0; i < vocabularies.size(); ++i) {
    const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabularies[i]);
    for (const auto& one : cases)
      EXPECT_EQ(tokenizer.encode(one[0].get<std::string>(), {.parse_special = false}),
                one[i + 1].get<std::vector<TokenId>>())
          << i << ": " << one[0];
  }
}

// A vocabulary like Gemma's, where the byte 9 is the token of a tab: the other bytes are still there.
TEST(GgufVocabularies, ByteFallbackMayHaveHoles) {
  Vocabulary vocabulary = test::sentence_piece_vocabulary();
  const TokenId tab = 3 + 9;
  vocabulary.tokens[tab] = "\t";
  vocabulary.types[tab] = TokenType::normal;
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text, {.add_special = false}); };
  EXPECT_EQ(ids("a\t\u00e9"), (std::vector<TokenId>{265, tab, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(tokenizer.decode(ids("a\t\u00e9\xff")), "a\t\u00e9\xff");
}

}  // namespace
}  // namespace heddle::text
