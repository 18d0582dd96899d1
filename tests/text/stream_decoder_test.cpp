#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

// Tokens that stand for the given bytes.
Tokenizer tokenizer_of(std::vector<std::string> bytes, std::function<void(Pipeline&)> change = {}) {
  Pipeline pipeline;
  for (size_t id = 0; id < bytes.size(); ++id) pipeline.tokens.push_back({std::to_string(id), bytes[id]});
  pipeline.model = make_word_level({"a"}, TokenId(0));
  if (change) change(pipeline);
  return Tokenizer(std::move(pipeline));
}

std::vector<std::string> stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool special = false) {
  StreamDecoder decoder(tokenizer, special);
  std::vector<std::string> out;
  for (const TokenId id : ids) out.push_back(decoder.push(id));
  out.push_back(decoder.finish());
  return out;
}

TEST(StreamDecoder, HoldsBackHalfCharacters) {
  const Tokenizer tokenizer = tokenizer_of({"a\xe2", "\x82", "\xac", "b"});
  EXPECT_EQ(stream(tokenizer, {0, 1, 2, 3}), (std::vector<std::string>{"a", "", "\u20ac", "b", ""}));
  EXPECT_EQ(stream(tokenizer, {0, 1, 3}), (std::vector<std::string>{"a", "",
                                                                    "\ufffd"
                                                                    "b",
                                                                    ""}));
  EXPECT_EQ(stream(tokenizer, {0, 1}), (std::vector<std::string>{"a", "", "\ufffd"}));
  EXPECT_EQ(stream(tokenizer, {2}), (std::vector<std::string>{"\ufffd", ""}));
  EXPECT_EQ(stream(tokenizer, {}), (std::vector<std::string>{""}));
}

TEST(StreamDecoder, FirstSpaceAndSpecialTokens) {
  const Tokenizer tokenizer = tokenizer_of({" a", "<s>", "  b"}, [](Pipeline& pipeline) {
    pipeline.tokens[1].type = TokenType::control;
    pipeline.strip_first_space = true;
    pipeline.first_bytes = {{2, "b"}};
  });
  EXPECT_EQ(stream(tokenizer, {1, 0, 0}), (std::vector<std::string>{"", "a", " a", ""}));
  EXPECT_EQ(stream(tokenizer, {1, 0}, true), (std::vector<std::string>{"<s>", " a", ""}));
  EXPECT_EQ(stream(tokenizer, {2, 2}), (std::vector<std::string>{"b", "  b", ""}));
}

TEST(StreamDecoder, RefusesUnknownIds) {
  const Tokenizer tokenizer = tokenizer_of({"a"});
  EXPECT_THROW(StreamDecoder(tokenizer).push(1), Error);
}

// Random tokens of random bytes, mostly pieces of characters.
TEST(StreamDecoder, JoinedIsWhatDecodeGives) {
  std::mt19937 random(1);
  const std::string alphabet = "a \u00e9\u20ac\U0001f600'.,s\xff\xf5\xed\xa0\xc0";
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> bytes(40);
    for (std::string& token : bytes)
      for (size_t size = random() % 4; size > 0; --size) token.push_back(alphabet[random() % alphabet.size()]);
    const bool clean = round % 3 == 0;
    const Tokenizer tokenizer = tokenizer_of(bytes, [&](Pipeline& pipeline) {
      pipeline.strip_first_space = round % 2 == 0;
      pipeline.clean_up_spaces = clean;
      for (size_t id = 0; id < 4; ++id) pipeline.tokens[id].type = TokenType::control;
    });
    std::vector<TokenId> ids(random() % 60);
    for (TokenId& id : ids) id = random() % 40;
    for (const bool special : {false, true}) {
      std::string joined;
      for (const std::string& part : stream(tokenizer, ids, special)) {
        EXPECT_TRUE(is_utf8(part));
        joined += part;
      }
      EXPECT_EQ(joined, replace_invalid_utf8(tokenizer.decode(ids, special)));
    }
  }
}

}  // namespace
}  // namespace heddle::text
