#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/refused.h"
#include "tests/text/small_vocabulary.h"
#include "text/bpe/bpe.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {
namespace {

using Ids = std::vector<TokenId>;

TEST(ByteLevel, SpellsEveryByte) {
  EXPECT_EQ(byte_level_spelling(" a\n\xad"), "\u0120a\u010a\u0143");
  EXPECT_EQ(byte_level_bytes("\u0120the"), " the");
  EXPECT_EQ(byte_level_bytes("\u4e2d"), std::nullopt);
  EXPECT_EQ(byte_level_bytes(" a"), std::nullopt) << "a space has another spelling";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text(1, char(byte));
    EXPECT_EQ(byte_level_bytes(byte_level_spelling(text)), text);
  }
}

TEST(Tokenizer, ByteLevel) {
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  EXPECT_EQ(tokenizer.encode("hello world"), (Ids{265, 259, 264})) << "this pre-tokenizer wants BOS";
  EXPECT_EQ(tokenizer.encode("hello", {.add_special = false}), (Ids{259}));
  EXPECT_EQ(tokenizer.encode("", {}), (Ids{265}));
  EXPECT_EQ(tokenizer.encode("", {.add_special = false}), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{265, 259, 264}), "hello world");
  EXPECT_EQ(tokenizer.decode(Ids{265, 259, 266}, true), "<|begin|>hello<|im_end|>");
  EXPECT_EQ(tokenizer.size(), 268u);
  EXPECT_EQ(tokenizer.text(260), "\u0120w");
  EXPECT_EQ(tokenizer.bytes(260), " w");
  EXPECT_EQ(tokenizer.bytes(265), "<|begin|>");
  EXPECT_EQ(tokenizer.find("\u0120world"), 264u);
  EXPECT_EQ(tokenizer.find(" world"), std::nullopt);
  EXPECT_EQ(tokenizer.bos(), 265u);
  EXPECT_EQ(tokenizer.eos(), 266u);
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{266}));
  EXPECT_TRUE(tokenizer.is_special(265));
  EXPECT_FALSE(tokenizer.is_special(267));
  EXPECT_REFUSED(tokenizer.decode(Ids{268}), "token 268", "268 tokens");
  EXPECT_REFUSED(tokenizer.text(1000), "token 1000");
}

TEST(Tokenizer, SpecialTokensInTheText) {
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  EXPECT_EQ(tokenizer.encode("<|im_end|>hello", {.add_special = false}), (Ids{266, 259}));
  const Ids plain = tokenizer.encode("<|im_end|><tool>", {.add_special = false, .parse_special = false});
  EXPECT_EQ(plain.size(), 11u) << "ten bytes, and the user's token always";
  EXPECT_EQ(plain.back(), 267u);
  EXPECT_EQ(tokenizer.decode(plain), "<|im_end|><tool>");
}

TEST(Tokenizer, AnyBytesComeBack) {
  std::mt19937 random(6);
  for (const Tokenizer& tokenizer : {Tokenizer::from_vocabulary(test::byte_level_vocabulary()),
                                     Tokenizer::from_vocabulary(test::sentence_piece_vocabulary())}) {
    for (int i = 0; i < 500; ++i) {
      std::string text = i % 2 ? test::random_text(random, random() % 80) : test::random_bytes(random, random() % 300);
      if (i % 5 == 0) text += "<tool></s> abc ab<unk>" + test::repeated("abc", 60);
      const Ids ids = tokenizer.encode(text, {.parse_special = false});
      std::string expected = text;  // U+2581 is the vocabulary's space
      if (tokenizer.find("\u2581"))
        for (size_t at; (at = expected.find("\u2581")) != std::string::npos;) expected.replace(at, 3, " ");
      ASSERT_EQ(tokenizer.decode(ids), expected) << in_quotes(text, 400);
    }
  }
}

TEST(Tokenizer, SentencePiece) {
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(test::sentence_piece_vocabulary());
  const auto encode = [&](std::string_view text) { return tokenizer.encode(text, {.add_special = false}); };
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, 266})) << "BOS, and a space before the text";
  EXPECT_EQ(encode("abc"), (Ids{265, 264})) << "bc has the best score";
  EXPECT_EQ(encode("xy"), (Ids{259, 268})) << "characters without a token can be joined to one";
  EXPECT_EQ(encode("x"), (Ids{259, 3 + 'x'})) << "or are bytes";
  EXPECT_EQ(encode("\u00e4\xff"), (Ids{259, 3 + 0xc3, 3 + 0xa4, 3 + 0xff}));
  EXPECT_EQ(encode("   a"), (Ids{267, 259, 265})) << "the leftmost of equal pairs";
  EXPECT_EQ(encode("ab  ab"), (Ids{266, 259, 266}));
  EXPECT_EQ(encode("a</s>b"), (Ids{265, 2, 259, 261})) << "a space after each special token";
  EXPECT_EQ(tokenizer.decode(Ids{1, 266, 2}), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{1, 266, 2}, true), "<s> ab</s>");
  EXPECT_EQ(tokenizer.decode(Ids{259, 3 + 0xc3, 3 + 0xa4}), "\u00e4");
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{2}));
}

TEST(Tokenizer, SentencePieceWithoutBytesOrPrefix) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  test::add_token(vocabulary, "<unk>", TokenType::unknown);
  test::add_token(vocabulary, "a", TokenType::normal, -2);
  test::add_token(vocabulary, "a\u2581b", TokenType::normal, -1);  // words cannot be encoded one by one
  test::add_token(vocabulary, "a\u2581", TokenType::normal, -1);
  test::add_token(vocabulary, "b", TokenType::normal, -3);
  vocabulary.add_space_prefix = false;
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.encode("a b"), (Ids{2})) << "no BOS where there is none";
  EXPECT_EQ(tokenizer.encode("axa"), (Ids{1, 0, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{2}), "a b");
}

TEST(Tokenizer, Phi3DropsWhiteSpaceAfterItsTokens) {
  Vocabulary vocabulary = test::sentence_piece_vocabulary();
  test::add_token(vocabulary, "\u2581t", TokenType::normal, -20);
  const TokenId placeholder = test::add_token(vocabulary, "<|placeholder1|>", TokenType::control);
  const TokenId assistant = test::add_token(vocabulary, "<|assistant|>", TokenType::control);
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.encode("<|assistant|>\n\nab<|placeholder1|> <s> a", {.add_special = false}),
            (Ids{assistant, 266, placeholder, 1, 259, 265}));
}

TEST(Tokenizer, BosAndEosAsTheFileSays) {
  Vocabulary vocabulary = test::byte_level_vocabulary();
  vocabulary.add_bos = false;
  vocabulary.add_eos = true;
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).encode("h"), (Ids{'h', 266}));
  vocabulary.add_bos.reset();
  vocabulary.add_eos.reset();
  vocabulary.pre = "gpt-2";
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).encode("h"), (Ids{'h'}));
  vocabulary.bos = UINT32_MAX;  // none
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).bos(), std::nullopt);
  vocabulary.add_bos = true;
  EXPECT_REFUSED(Tokenizer::from_vocabulary(vocabulary), "small.gguf", "add_bos_token",
                 "no tokenizer.ggml.bos_token_id");
}

TEST(Tokenizer, Ends) {
  Vocabulary vocabulary = test::byte_level_vocabulary();
  const TokenId end = test::add_token(vocabulary, "<|end|>", TokenType::user_defined);
  vocabulary.eot = 267;
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{266, end, 267}));
  EXPECT_TRUE(tokenizer.is_special(end)) << "a control token whatever its type in the file";
  test::add_token(vocabulary, "<|return|>", TokenType::control);
  test::add_token(vocabulary, "<|call|>", TokenType::control);
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).end_tokens(), (Ids{266, 269, 270, 267}))
      << "harmony: end of a message only";
  Vocabulary gemma = test::sentence_piece_vocabulary();
  gemma.eos = test::add_token(gemma, "<|tool_response>", TokenType::control);
  EXPECT_EQ(Tokenizer::from_vocabulary(gemma).end_tokens(), (Ids{*gemma.eos})) << "</s> is plain text";
  const TokenId fim = test::add_token(gemma, "<|fim_pad|>", TokenType::control);
  EXPECT_EQ(Tokenizer::from_vocabulary(gemma).end_tokens(), (Ids{*gemma.eos, fim}));
}

// Texts joined from them are what the same tokens decode to, behind others.
TEST(Tokenizer, GeneratedTexts) {
  const Tokenizer bytes = Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  const std::vector<std::string> of_bytes = bytes.generated_texts(300);
  ASSERT_EQ(of_bytes.size(), 300u);
  for (TokenId id = 0; id < 256; ++id) EXPECT_EQ(of_bytes[id], std::string(1, char(id)));
  EXPECT_EQ(of_bytes[264], " world");
  EXPECT_EQ(of_bytes[265] + of_bytes[266] + of_bytes[268] + of_bytes[299], "");
  EXPECT_EQ(of_bytes[267], "<tool>");
  EXPECT_EQ(bytes.generated_texts(3), (std::vector<std::string>{std::string(1, 0), "\x01", "\x02"}));

  text::Vocabulary vocabulary = test::sentence_piece_vocabulary();
  const TokenId unused = test::add_token(vocabulary, "<unused>", TokenType::unused);
  const Tokenizer pieces = Tokenizer::from_vocabulary(std::move(vocabulary));
  const std::vector<std::string> of_pieces = pieces.generated_texts(pieces.size());
  EXPECT_EQ(of_pieces[0] + of_pieces[1] + of_pieces[2] + of_pieces[unused], "");
  EXPECT_EQ(of_pieces[3 + 0x0a], "\n");
  EXPECT_EQ(of_pieces[259], " ");
  EXPECT_EQ(of_pieces[266], " ab");
  for (TokenId id = 3; id < unused; ++id)
    EXPECT_EQ(pieces.decode(std::vector<TokenId>{260, id}), "a" + of_pieces[id]) << id;
}

TEST(Tokenizer, UserDefinedTokensMayBePartsOfMerges) {
  Vocabulary vocabulary = test::byte_level_vocabulary();
  vocabulary.types[257] = TokenType::user_defined;  // "ll"
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.encode("hello", {.add_special = false}), (Ids{256, 257, 'o'}));
}

TEST(Tokenizer, NoTextBecomesAControlToken) {
  Vocabulary vocabulary = test::byte_level_vocabulary();
  vocabulary.types[259] = TokenType::control;  // "hello"
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).encode("hello", {.add_special = false, .parse_special = false}),
            (Ids{258, 'o'}));
  vocabulary.types[259] = TokenType::normal;
  vocabulary.tokens[259] = "</s>";
  vocabulary.merges[3] = vocabulary.merges[0];
  EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).end_tokens(), (Ids{266})) << "a tag of HTML";
}

TEST(Tokenizer, VocabulariesThatAreWrong) {
  const auto refused = [](auto change) {
    Vocabulary vocabulary = test::byte_level_vocabulary();
    change(vocabulary);
    return test::refusal([&] { Tokenizer::from_vocabulary(vocabulary); });
  };
  using test::expect_says;
  expect_says(refused([](Vocabulary& v) { v.model = "plamo9"; }),
              {"small.gguf", "\"plamo9\"", "gpt2, llama, gemma4, t5, bert"});
  expect_says(refused([](Vocabulary& v) { v.pre = "unheard-of"; }), {"small.gguf", "\"unheard-of\"", "llama-bpe"});
  expect_says(refused([](Vocabulary& v) { v.tokens.clear(); }), {"small.gguf", "empty"});
  expect_says(refused([](Vocabulary& v) { v.types.pop_back(); }), {"token_type has 267 entries for 268 tokens"});
  expect_says(refused([](Vocabulary& v) { v.scores = {1}; }), {"scores has 1 entries for 268 tokens"});
  expect_says(refused([](Vocabulary& v) { v.merges.clear(); }), {"small.gguf", "no tokenizer.ggml.merges"});
  expect_says(refused([](Vocabulary& v) { v.merges[3] = "hello"; }), {"merges[3] is \"hello\"", "two tokens"});
  expect_says(refused([](Vocabulary& v) { v.merges[3] = ""; }), {"merges[3] is \"\""});
  expect_says(refused([](Vocabulary& v) { v.merges.push_back("h x"); }),
              {"merges[9] is \"h x\"", "\"hx\" is not a token"});
  expect_says(refused([](Vocabulary& v) { v.merges.push_back("hx h"); }), {"\"hx\" is not a token"});
  expect_says(refused([](Vocabulary& v) { v.eos = 268; }), {"eos_token_id is 268, but there are 268 tokens"});
  expect_says(refused([](Vocabulary& v) { v.types[3] = TokenType::byte; }), {"token 3 is a byte", "<0x0A>"});
  const auto with_scores = [&](std::vector<float> scores) {
    return refused([&](Vocabulary& v) {
      v.model = "llama";
      v.scores = std::move(scores);
    });
  };
  expect_says(with_scores({}), {"no tokenizer.ggml.scores"});
  expect_says(with_scores(std::vector<float>(268, NAN)), {"scores[0] is not a number"});
}

TEST(Tokenizer, TypesMayBeMissing) {
  Vocabulary vocabulary = test::sentence_piece_vocabulary();
  vocabulary.types.clear();
  vocabulary.bos.reset();
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.encode("x"), (Ids{1, 259, 3 + 'x'})) << "<0x78> is known by its text, BOS by its place";
}

// One letter, one merge after the other: a heap of all pairs.
TEST(Tokenizer, LongPiecesSlow) {
  for (Vocabulary vocabulary : {test::byte_level_vocabulary(), test::sentence_piece_vocabulary()}) {
    const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
    for (const std::string_view unit : {"a", "l", "abc", " ", "\n", "hell", "\xff", "<tool", "\u2581"}) {
      const std::string text = test::repeated(unit, 1 << 20);
      const Ids ids = tokenizer.encode(text, {.add_special = false});
      if (unit != "\u2581") {
        EXPECT_EQ(tokenizer.decode(ids), text);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::text
