// The model inside the program, and vocabularies between metadata and tokenizers.
#include "main/device/open_model.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

using text::TokenType;

TEST(OwnModel, IsTheFileInTheRepository) {
  const MappedFile file(HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf");
  EXPECT_TRUE(std::ranges::equal(file.bytes(), own_model()));
}

TEST(OwnModel, RunsWhereNoneIsNamed) {
  const std::vector<std::string> arguments{"-p", "Once upon a time", "-n", "40", "--temp", "0"};
  std::vector<std::string> own{"run"}, named{"run", HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf"};
  own.insert(own.end(), arguments.begin(), arguments.end());
  named.insert(named.end(), arguments.begin(), arguments.end());
  const Result result = heddle(own);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(result.out.size(), 80u);
  EXPECT_EQ(result.out, heddle(named).out);
}

TEST(OwnModel, KnowsWhatHeddleIs) {
  const Result result = heddle({"run", "--chat", "-p", "What is heddle?", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_says(result.out, {"heddle is a program that runs language models"});
}

TEST(OwnModel, TheProgramAloneTellsAStory) {
  const Result result = heddle({});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("> Tell me a story about ")) << result.out;
  EXPECT_GT(result.out.find("Try next:"), 200u) << result.out;
  expect_says(result.out, {"heddle chat"});
  expect_says(result.err, {"tok/s"});
}

TEST(OwnModel, CanBeLookedAt) {
  const Result result = heddle({"inspect"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_says(result.out, {"weft"});
}

TEST(VocabularyKeys, ThereAndBack) {
  text::Vocabulary vocabulary;
  vocabulary.source = "here";
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  vocabulary.tokens = {"<unk>", "<s>", "\xe2\x96\x81", "a"};
  vocabulary.scores = {0, 0, -1.5, -2};
  vocabulary.types = {TokenType::unknown, TokenType::control, TokenType::normal, TokenType::user_defined};
  vocabulary.merges = {"a b"};
  vocabulary.bos = 1;
  vocabulary.eos = 0;
  vocabulary.eot = 2;
  vocabulary.eom = 3;
  vocabulary.unknown = 0;
  vocabulary.separator = 1;
  vocabulary.padding = 2;
  vocabulary.mask = 3;
  vocabulary.add_bos = true;
  vocabulary.add_eos = false;
  vocabulary.add_space_prefix = false;
  vocabulary.remove_extra_whitespaces = true;
  vocabulary.precompiled_charsmap = std::string("\x00\xff\x01", 3);
  formats::Checkpoint checkpoint;
  checkpoint.path = "here";
  put_vocabulary(checkpoint.metadata, vocabulary);
  EXPECT_TRUE(has_vocabulary(checkpoint));
  const text::Vocabulary back = vocabulary_of(checkpoint);
  EXPECT_EQ(back.source, "here");
  EXPECT_EQ(back.model, vocabulary.model);
  EXPECT_EQ(back.pre, vocabulary.pre);
  EXPECT_EQ(back.tokens, vocabulary.tokens);
  EXPECT_EQ(back.scores, vocabulary.scores);
  EXPECT_EQ(back.types, vocabulary.types);
  EXPECT_EQ(back.merges, vocabulary.merges);
  EXPECT_EQ(back.bos, vocabulary.bos);
  EXPECT_EQ(back.eos, vocabulary.eos);
  EXPECT_EQ(back.eot, vocabulary.eot);
  EXPECT_EQ(back.eom, vocabulary.eom);
  EXPECT_EQ(back.unknown, vocabulary.unknown);
  EXPECT_EQ(back.separator, vocabulary.separator);
  EXPECT_EQ(back.padding, vocabulary.padding);
  EXPECT_EQ(back.mask, vocabulary.mask);
  EXPECT_EQ(back.add_bos, vocabulary.add_bos);
  EXPECT_EQ(back.add_eos, vocabulary.add_eos);
  EXPECT_EQ(back.add_sep, std::nullopt);
  EXPECT_EQ(back.add_space_prefix, vocabulary.add_space_prefix);
  EXPECT_TRUE(back.remove_extra_whitespaces);
  EXPECT_EQ(back.precompiled_charsmap, vocabulary.precompiled_charsmap);
}

TEST(VocabularyKeys, WhatDoesNotFitIsRefused) {
  const auto with = [](const char* key, formats::Value value) {
    formats::Checkpoint checkpoint;
    checkpoint.path = "here";
    checkpoint.metadata.set("tokenizer.ggml.model", std::string("llama"));
    checkpoint.metadata.set("tokenizer.ggml.tokens", formats::Array::of(std::vector<std::string>{"a", "b"}));
    checkpoint.metadata.set(key, std::move(value));
    return vocabulary_of(checkpoint);
  };
  using formats::Array;
  EXPECT_REFUSED(with("tokenizer.ggml.scores", Array::of(std::vector<float>{1})),
                 "here: tokenizer.ggml.scores: expected 2 entries, one per token, found 1");
  EXPECT_REFUSED(with("tokenizer.ggml.token_type", Array::of(std::vector<int32_t>{1, 7})),
                 "here: tokenizer.ggml.token_type: expected types from 1 to 6, found 7 for token 1");
  EXPECT_REFUSED(with("tokenizer.ggml.bos_token_id", uint32_t{2}),
                 "here: tokenizer.ggml.bos_token_id: expected an id below 2, found 2");
  EXPECT_EQ(with("tokenizer.ggml.padding_token_id", uint32_t{0xffffffff}).padding, std::nullopt);  // written for none
  formats::Checkpoint none;
  none.path = "here";
  EXPECT_REFUSED(vocabulary_of(none), "here: there is no tokenizer in it");
}

TEST(VocabularyKeys, PaddedToTheEmbedding) {
  text::Vocabulary vocabulary;
  vocabulary.source = "here";
  vocabulary.tokens = {"a", "b"};
  vocabulary.scores = {1, 2};
  const text::Vocabulary four = padded(vocabulary, 4);
  EXPECT_EQ(four.tokens, (std::vector<std::string>{"a", "b", "[PAD2]", "[PAD3]"}));
  EXPECT_EQ(four.types,
            (std::vector<TokenType>{TokenType::normal, TokenType::normal, TokenType::unused, TokenType::unused}));
  EXPECT_EQ(four.scores.size(), 4u);
  EXPECT_EQ(padded(vocabulary, 2).tokens.size(), 2u);
  EXPECT_REFUSED(padded(vocabulary, 1), "here: the tokenizer has 2 tokens, but the embedding only 1 rows");
}

TEST(VocabularyKeys, EndsOfTheGenerationConfig) {
  SHARED_DATA(path, "weights/stories260K-hf-f32");
  formats::Checkpoint checkpoint = formats::open_checkpoint(path);
  EXPECT_EQ(vocabulary_of(checkpoint).tokens.size(), 512u);
  const text::Vocabulary plain = vocabulary_of(checkpoint);
  checkpoint.text.generation = R"({"eos_token_id": [5, 7]})";
  const text::Vocabulary several = vocabulary_of(checkpoint);
  EXPECT_EQ(several.eos, plain.eos);
  EXPECT_TRUE(several.eot && several.eom);
  checkpoint.text.generation = R"({"eos_token_id": [2, 5, 7, 9]})";
  EXPECT_REFUSED(vocabulary_of(checkpoint), "eos_token_id: expected at most 3 end tokens, found [2,5,7,9]");
  checkpoint.text.generation = R"({"eos_token_id": 600})";
  EXPECT_REFUSED(vocabulary_of(checkpoint), "generation_config.json: eos_token_id: expected ids below 512, found 600");
}

}  // namespace
}  // namespace heddle::test
