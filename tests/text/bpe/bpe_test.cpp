#include "text/bpe/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/refused.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::text {
namespace {

using Ids = std::vector<TokenId>;

Ids encode(const Model& model, std::string_view piece) {
  Ids out;
  model.encode(piece, out);
  return out;
}

TEST(PieceTable, FindsEveryPieceOfAnyLength) {
  std::vector<std::string> pieces{"", "a", "b", "ab", "a", std::string(1, '\0'), std::string(2, '\0')};
  for (size_t size = 1; size < 40; ++size) pieces.push_back(std::string(size, 'x'));
  for (size_t i = 0; i < 5000; ++i) pieces.push_back(fmt::format("piece {}", i));
  const PieceTable table(pieces);
  EXPECT_EQ(table.find(""), PieceTable::none);
  EXPECT_EQ(table.find("a"), 1u) << "of equal ones the first";
  EXPECT_EQ(table.find("ba"), PieceTable::none);
  for (TokenId id = 5; id < pieces.size(); ++id) {
    EXPECT_EQ(table.find(pieces[id]), id);
    EXPECT_EQ(table[id], pieces[id]);
  }
  EXPECT_EQ(PieceTable({}).find("a"), PieceTable::none);
}

TEST(MergeTable, KeepsTheLowerRank) {
  MergeTable table(3);
  table.add(1, 2, {7, 10});
  table.add(2, 1, {8, 11});
  table.add(1, 2, {5, 12});
  EXPECT_EQ(table.find(1, 2).rank, 5u);
  EXPECT_EQ(table.find(1, 2).id, 12u);
  EXPECT_EQ(table.find(2, 1).id, 11u);
  EXPECT_EQ(table.find(1, 1).rank, MergeTable::never);
}

// The rule, word for word.
Ids merged_slowly(const MergeTable& merges, Ids tokens) {
  for (;;) {
    MergeTable::Joined best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i)
      if (const auto joined = merges.find(tokens[i], tokens[i + 1]); joined.rank < best.rank) {
        best = joined;
        at = i;
      }
    if (best.rank == MergeTable::never) return tokens;
    tokens[at] = best.id;
    tokens.erase(tokens.begin() + ptrdiff_t(at) + 1);
  }
}

TEST(MergeTokens, ScanAndHeapFollowTheRule) {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    const TokenId letters = 2 + random() % 4, tokens = letters + random() % 30;
    MergeTable merges(100);
    for (uint32_t rank = 0; rank < 60; ++rank)  // several merges to one token, and equal ranks
      merges.add(random() % tokens, random() % tokens, {rank / 2, letters + TokenId(random() % 30)});
    for (const size_t size : {0, 1, 2, 3, 10, 47, 48, 49, 60, 300}) {
      Ids text(size);
      for (TokenId& id : text) id = random() % letters;
      Ids merged = text;
      merge_tokens(merges, merged);
      ASSERT_EQ(merged, merged_slowly(merges, text)) << "round " << round << ", " << size << " tokens";
    }
  }
}

std::unique_ptr<const Model> letters_model(BpeOptions options) {
  // 4 "abc" is a token that merging does not make: "bc" comes first
  return make_bpe({"a", "b", "c", "ab", "abc", "bc"}, {{1, 2, 5, 0}, {0, 1, 3, 1}, {3, 2, 4, 2}}, std::move(options),
                  "m.gguf");
}

TEST(Bpe, MergesByRank) {
  const auto model = letters_model({});
  EXPECT_EQ(encode(*model, "ab"), (Ids{3}));
  for (int again = 0; again < 2; ++again) EXPECT_EQ(encode(*model, "abc"), (Ids{0, 5})) << "also from the cache";
  EXPECT_EQ(encode(*model, "abab"), (Ids{3, 3}));
  EXPECT_EQ(encode(*model, ""), Ids{});
}

TEST(Bpe, AWholePieceIsTakenWhereMergesAreIgnored) {
  BpeOptions options;
  options.ignore_merges = true;
  const auto model = letters_model(options);
  EXPECT_EQ(encode(*model, "abc"), (Ids{4}));
  EXPECT_EQ(encode(*model, "abca"), (Ids{0, 5, 0}));
}

TEST(Bpe, WhatHasNoToken) {
  EXPECT_REFUSED(encode(*letters_model({}), "axb"), "m.gguf", "no token for \"x\"");
  BpeOptions options;
  options.skip_unknown = true;
  EXPECT_EQ(encode(*letters_model(options), "axb"), (Ids{3})) << "its neighbours meet";
  options.unknown = 9;
  EXPECT_EQ(encode(*letters_model(options), "a\u00e4b"), (Ids{0, 9, 9, 1})) << "by byte";
  options.characters = true;
  EXPECT_EQ(encode(*letters_model(options), "a\u00e4\u00e4b"), (Ids{0, 9, 9, 1})) << "by character";
  options.fuse_unknown = true;
  EXPECT_EQ(encode(*letters_model(options), "a\u00e4\u00e4b\u00e4"), (Ids{0, 9, 1, 9}));
  for (TokenId byte = 0; byte < 256; ++byte) options.byte_tokens.push_back(100 + byte);
  EXPECT_EQ(encode(*letters_model(options), "a\u00e4\xff"), (Ids{0, 100 + 0xc3, 100 + 0xa4, 100 + 0xff}));
}

TEST(Bpe, TwoModelsShareAThreadsCache) {
  const auto one = letters_model({}), other = make_bpe({"c", "b", "a"}, {}, {}, "m.gguf");
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(encode(*one, "ab"), (Ids{3}));
    EXPECT_EQ(encode(*other, "ab"), (Ids{2, 1}));
  }
}

TEST(Bpe, WordsOfEveryLengthComeBackFromTheCache) {
  std::vector<std::string> bytes;
  for (unsigned byte = 0; byte < 256; ++byte) bytes.emplace_back(1, char(byte));
  const auto model = make_bpe(bytes, {}, {}, "m.gguf");
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::string word = test::random_bytes(random, random() % 30);
    const Ids expected(reinterpret_cast<const uint8_t*>(word.data()),
                       reinterpret_cast<const uint8_t*>(word.data()) + word.size());
    ASSERT_EQ(encode(*model, word), expected);
    ASSERT_EQ(encode(*model, word), expected);
  }
}

TEST(Bpe, SeveralThreadsGetTheSameTokens) {
  const auto model = letters_model({});
  std::vector<std::thread> threads;
  std::vector<Ids> found(4);
  for (Ids& out : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        for (const char* word : {"abc", "ab", "bc", "cab", "abcabc"}) model->encode(word, out);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& out : found) EXPECT_EQ(out, found[0]);
}

}  // namespace
}  // namespace heddle::text
