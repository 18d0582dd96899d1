// Streams of tokens as text: the decoder, stop strings, and both together.
#include "text/completion_text.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/support/refused.h"
#include "tests/text/counting_tokenizer.h"
#include "text/pipeline.h"
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

TEST(StreamDecoder, KeepsTheFirstSpaceIfAsked) {
  const Tokenizer tokenizer = tokenizer_of({" a", "  b"}, [](Pipeline& pipeline) {
    pipeline.strip_first_space = true;
    pipeline.first_bytes = {{1, "b"}};
  });
  for (const TokenId id : {0u, 1u}) {
    StreamDecoder decoder(tokenizer);
    decoder.keep_first();
    EXPECT_EQ(decoder.push(id) + decoder.push(id), std::string(tokenizer.bytes(id)) + std::string(tokenizer.bytes(id)));
  }
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

struct Outcome {
  std::string text;
  std::string found;  // the stop string; empty: none
  bool operator==(const Outcome&) const = default;
};

Outcome stream_of(const std::vector<std::string>& stops, std::string_view text, size_t piece) {
  StopStrings watch(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += watch.push(text.substr(at, piece));
  out += watch.finish();
  return {out, watch.found() ? *watch.found() : ""};
}

// Every way to cut a stream into pieces must give the same text.
void expect_stream(const std::vector<std::string>& stops, std::string_view text, const Outcome& expected) {
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    const Outcome found = stream_of(stops, text, piece);
    EXPECT_EQ(found.text, expected.text) << text << " in pieces of " << piece;
    EXPECT_EQ(found.found, expected.found) << text << " in pieces of " << piece;
  }
}

TEST(StopStrings, TheTextBeforeTheFirstOne) {
  expect_stream({}, "all of it", {"all of it", ""});
  expect_stream({"\n"}, "one line\nand more", {"one line", "\n"});
  expect_stream({"User:"}, "well. User: what", {"well. ", "User:"});
  expect_stream({"User:"}, "well. User", {"well. User", ""});  // begun but never complete: it is text
  expect_stream({"aab"}, "aaaab", {"aa", "aab"});
  expect_stream({"stop"}, "stop", {"", "stop"});
}

TEST(StopStrings, TheOneThatIsCompleteFirstCounts) {
  expect_stream({"abc", "b"}, "xabc", {"xa", "b"});
  expect_stream({"ab", "b"}, "xab", {"x", "ab"});  // complete together: the longer one
  expect_stream({"b", "ab"}, "xab", {"x", "ab"});
  expect_stream({"end", "END"}, "the END, the end", {"the ", "END"});
}

TEST(StopStrings, NothingIsHeldLongerThanNeeded) {
  StopStrings watch({"<end>"});
  EXPECT_EQ(watch.push("a <e"), "a ");
  EXPECT_EQ(watch.push("at"), "<eat");
  EXPECT_EQ(watch.push("<end> gone"), "");
  EXPECT_TRUE(watch.found());
  EXPECT_EQ(watch.push("more"), "");
  EXPECT_EQ(watch.finish(), "");
}

TEST(StopStrings, AnEmptyOneIsRefused) { EXPECT_REFUSED(StopStrings({"x", ""}), "stop", "empty"); }

// The counting tokenizer: printable characters are tokens of their own, 96 and 97 are the two bytes of U+00E9, 98 ends
// a completion, 99 is another control token.
class CompletionTexts : public testing::Test {
 protected:
  using End = CompletionText::End;
  void begin(std::vector<std::string> stop_strings) { text_.emplace(tokenizer_, end_tokens_, std::move(stop_strings)); }
  static TokenId id(char c) { return TokenId(c - 31); }
  // The returned texts, each after the number of tokens that are shown with it: "1a|0|2bc|".
  std::string push(std::vector<TokenId> ids) {
    std::string out;
    for (const TokenId one : ids) out += counted(text_->push(one));
    return out;
  }
  std::string push(std::string_view letters) {
    std::vector<TokenId> ids;
    for (const char c : letters) ids.push_back(id(c));
    return push(ids);
  }
  std::string finish() { return counted(text_->finish()); }
  std::string counted(std::string text) {
    const uint32_t before = std::exchange(shown_, text_->shown_tokens());
    return std::to_string(shown_ - before) + text + "|";
  }

  const Tokenizer tokenizer_ = test::counting_tokenizer();
  const std::vector<TokenId> end_tokens_{98};
  std::optional<CompletionText> text_;
  uint32_t shown_ = 0;
};

TEST_F(CompletionTexts, AreShownTokenByToken) {
  begin({});
  EXPECT_EQ(push("abc"), "1a|1b|1c|");
  EXPECT_EQ(text_->end(), End::none);
  EXPECT_EQ(finish(), "0|");
  EXPECT_EQ(text_->end(), End::none);
  EXPECT_EQ(text_->tokens(), 3);
}

TEST_F(CompletionTexts, EndWithAnEndToken) {
  begin({"x"});
  EXPECT_EQ(push("ab"), "1a|1b|");
  EXPECT_EQ(push({98}), "0|");
  EXPECT_EQ(text_->end(), End::end_token);
  EXPECT_EQ(text_->stop_string(), nullptr);
  EXPECT_EQ(text_->tokens(), 3) << "the end token counts";
  EXPECT_EQ(push("c"), "0|") << "nothing comes after the end";
  EXPECT_EQ(text_->tokens(), 3);
  EXPECT_EQ(finish(), "0|");
}

TEST_F(CompletionTexts, HoldBackWhatMayBecomeAStopString) {
  begin({"cde"});
  EXPECT_EQ(push("abcdx"), "1a|1b|0|0|3cdx|");
  EXPECT_EQ(push("cd"), "0|0|");
  EXPECT_EQ(finish(), "2cd|");
  EXPECT_EQ(text_->end(), End::none);
}

TEST_F(CompletionTexts, DoNotShowTheStopStringNorItsTokens) {
  begin({"zz", "cde"});
  EXPECT_EQ(push("abcdef"), "1a|1b|0|0|0|0|");
  EXPECT_EQ(text_->end(), End::stop_string);
  EXPECT_EQ(*text_->stop_string(), "cde");
  EXPECT_EQ(text_->tokens(), 5) << "up to the token that completed it";
  EXPECT_EQ(finish(), "0|");
}

TEST_F(CompletionTexts, WaitForTheSecondHalfOfACharacter) {
  begin({});
  EXPECT_EQ(push({96, 97}), "0|2\u00e9|");
  EXPECT_EQ(push({96}), "0|");
  EXPECT_EQ(finish(), "1\ufffd|") << "it will never come";
}

TEST_F(CompletionTexts, FindAStopStringAcrossHalvesOfCharacters) {
  begin({"b\u00e9c"});
  EXPECT_EQ(push({id('a'), id('b'), 96, 97, id('c')}), "1a|0|0|0|0|");
  EXPECT_EQ(text_->end(), End::stop_string);
}

TEST_F(CompletionTexts, FindAStopStringInWhatWasHeldBackToTheEnd) {
  begin({"\ufffd"});
  EXPECT_EQ(push({id('a'), 96}), "1a|0|");
  EXPECT_EQ(finish(), "0|");
  EXPECT_EQ(text_->end(), End::stop_string);
}

TEST_F(CompletionTexts, CountTokensWithoutTextWithWhatComesNext) {
  begin({});
  EXPECT_EQ(push({99, id('a')}), "0|2a|");
  EXPECT_EQ(push({99, 1000}), "0|0|") << "1000 is beyond the vocabulary";
  EXPECT_EQ(finish(), "2|");
  EXPECT_EQ(text_->tokens(), 4);
}

TEST_F(CompletionTexts, ContinueAPrompt) {
  begin({"bc"});
  EXPECT_EQ(text_->follow(std::vector<TokenId>{0, id('b'), id('c'), id('b')}), "bcb")
      << "stop strings are allowed in it";
  EXPECT_EQ(push("cb"), "1c|0|") << "and across its end";
  EXPECT_EQ(text_->tokens(), 2);
}

}  // namespace
}  // namespace heddle::text
