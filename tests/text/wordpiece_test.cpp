#include "text/wordpiece.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/completion_text.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

using Ids = std::vector<TokenId>;

Ids wordpiece_ids(const Model& model, std::string_view text) {
  Ids ids;
  model.encode(text, ids);
  return ids;
}

TEST(WordPiece, TakesTheLongest) {
  const auto model = make_wordpiece({"[UNK]", "un", "unit", "##ed", "##it", "##s", "##"},
                                    {.unknown = TokenId(0), .continuation = "##", .max_characters = 8});
  EXPECT_EQ(wordpiece_ids(*model, "united"), (Ids{2, 3}));
  EXPECT_EQ(wordpiece_ids(*model, "unitits"), (Ids{2, 4, 5}));
  EXPECT_EQ(wordpiece_ids(*model, "unix"), Ids{0});
  EXPECT_EQ(wordpiece_ids(*model, "edun"), Ids{0});
  EXPECT_EQ(wordpiece_ids(*model, "##s"), Ids{5});
  EXPECT_EQ(wordpiece_ids(*model, "unitssss"), (Ids{2, 5, 5, 5, 5}));
  EXPECT_EQ(wordpiece_ids(*model, "unitsssss"), Ids{0});  // 9 characters
  EXPECT_EQ(wordpiece_ids(*model, ""), Ids{});
}

TEST(WordPiece, CountsCharactersNotBytes) {
  const auto model = make_wordpiece({"[UNK]", "\u4e00", "##\u4e00"},
                                    {.unknown = TokenId(0), .continuation = "##", .max_characters = 3});
  EXPECT_EQ(wordpiece_ids(*model, "\u4e00\u4e00\u4e00"), (Ids{1, 2, 2}));
  EXPECT_EQ(wordpiece_ids(*model, "\u4e00\u4e00\u4e00\u4e00"), Ids{0});
}

TEST(WordPiece, NeedsAnUnknownToken) {
  EXPECT_THROW(wordpiece_ids(*make_wordpiece({"a"}, {}), "b"), Error);
  EXPECT_THROW(wordpiece_ids(*make_word_level({"a"}, std::nullopt), "b"), Error);
}

TEST(WordLevel, LooksUpWords) {
  const auto model = make_word_level({"[UNK]", "a", "ab", ""}, TokenId(0));
  EXPECT_EQ(wordpiece_ids(*model, "ab"), Ids{2});
  EXPECT_EQ(wordpiece_ids(*model, "abc"), Ids{0});
}

TEST(WordPiece, CleansUpSpaces) {
  EXPECT_EQ(clean_up_spaces("it 's here , is n't it ? I 've ' seen ' it ."), "it's here, is n't it? I've'seen'it.");
  EXPECT_EQ(clean_up_spaces(" . . "), ".. ");
  EXPECT_EQ(clean_up_spaces(""), "");
}

Vocabulary bert() {
  Vocabulary vocabulary;
  vocabulary.source = "x.gguf";
  vocabulary.model = "bert";
  vocabulary.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581hello", "\u2581wor", "ld", "\u2581!", "\u2581\u4e00"};
  using enum TokenType;
  vocabulary.types = {control, unknown, control, control, normal, normal, normal, normal, normal};
  vocabulary.bos = TokenId(2);
  vocabulary.separator = TokenId(3);
  vocabulary.unknown = TokenId(1);
  return vocabulary;
}

TEST(WordPiece, FromGguf) {
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(bert());
  EXPECT_EQ(tokenizer.encode("H\u00e9llo World!\u4e00"), (Ids{2, 4, 5, 6, 7, 8, 3}));
  EXPECT_EQ(tokenizer.encode("hello x"), (Ids{2, 4, 1, 3}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello world!")), "hello world!");
  StreamDecoder stream(tokenizer);
  std::string text;
  for (const TokenId id : tokenizer.encode("hello world! hello")) text += stream.push(id);
  EXPECT_EQ(text + stream.finish(), "hello world! hello");
}

TEST(WordPiece, PairsFromGguf) {
  const EncodedPair pair = Tokenizer::from_vocabulary(bert()).encode_pair("hello", "world [SEP]");
  EXPECT_EQ(pair.ids, (Ids{2, 4, 3, 5, 6, 1, 1, 1, 3}));
  EXPECT_EQ(pair.types, (std::vector<uint32_t>{0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

// tokenizer.ggml.normalizer.*
TEST(WordPiece, CasedVocabulariesFromGguf) {
  Vocabulary cased = bert();
  cased.lower_case = false;
  EXPECT_EQ(Tokenizer::from_vocabulary(cased).encode("Hello hello h\u00e9llo"), (Ids{2, 1, 4, 1, 3}));
  cased.strip_accents = true;
  EXPECT_EQ(Tokenizer::from_vocabulary(cased).encode("Hello hello h\u00e9llo"), (Ids{2, 1, 4, 4, 3}));
}

}  // namespace
}  // namespace heddle::text
