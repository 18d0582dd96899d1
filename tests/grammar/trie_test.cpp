#include "grammar/trie.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

namespace heddle::grammar {
namespace {

TEST(Trie, HasEveryTextOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> texts(random() % 60);
    for (std::string& text : texts)
      for (uint32_t n = random() % 5; n > 0; --n) text.push_back(char('a' + random() % 3 * 90));
    std::vector<Trie::Entry> entries;
    for (uint32_t i = 0; i < texts.size(); ++i) entries.push_back({texts[i], i});
    const Trie trie(entries);
    EXPECT_EQ(trie.empty(), texts.empty());
    EXPECT_EQ(trie.tokens_from(0).size(), texts.size());
    for (const std::string& text : texts) {
      uint32_t at = 0;
      for (char c : text) {
        const auto next = trie.node(at).next;
        const auto found = std::ranges::lower_bound(next, uint8_t(c), {}, &Trie::Child::first);
        ASSERT_TRUE(found != next.end() && found->first == uint8_t(c));
        at = found->second;
      }
      std::multiset<uint32_t> here, behind;
      for (uint32_t i = 0; i < texts.size(); ++i) {
        if (texts[i] == text) here.insert(i);
        if (texts[i].starts_with(text)) behind.insert(i);
      }
      const auto tokens = trie.node(at).tokens, all = trie.tokens_from(at);
      EXPECT_EQ(std::multiset<uint32_t>(tokens.begin(), tokens.end()), here);
      EXPECT_EQ(std::multiset<uint32_t>(all.begin(), all.end()), behind);
    }
  }
}

}  // namespace
}  // namespace heddle::grammar
