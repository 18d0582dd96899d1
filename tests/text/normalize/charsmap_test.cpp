#include "text/normalize/charsmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/error.h"
#include "text/normalize/normalizers.h"

namespace heddle::text {
namespace {

// A double-array trie, its nodes 256 units apart: no search for room, so easy to get right.
std::string charsmap(const std::map<std::string, std::string>& entries) {
  std::map<std::string, uint32_t> nodes{{"", 0}};  // prefix -> where its children begin: (number + 1) * 256
  for (const auto& [from, to] : entries)
    for (size_t size = 1; size <= from.size(); ++size)
      nodes.emplace(from.substr(0, size), static_cast<uint32_t>(nodes.size()));
  std::vector<uint32_t> units((nodes.size() + 1) * 256);
  std::string replacements;
  const auto base = [&](const std::string& prefix) { return (nodes.at(prefix) + 1) * 256; };
  units[0] = base("") << 10;
  for (const auto& [prefix, number] : nodes) {
    if (prefix.empty()) continue;
    const auto label = static_cast<uint8_t>(prefix.back());
    const uint32_t place = base(prefix.substr(0, prefix.size() - 1)) ^ label;
    units[place] |= label | (place ^ base(prefix)) << 10;
    const auto entry = entries.find(prefix);
    if (entry == entries.end()) continue;
    units[place] |= 1 << 8;
    units[base(prefix)] = 1u << 31 | static_cast<uint32_t>(replacements.size());
    replacements += entry->second + '\0';
  }
  const uint32_t size = static_cast<uint32_t>(units.size() * 4);
  std::string out(4 + size, '\0');
  std::memcpy(out.data(), &size, 4);
  std::memcpy(out.data() + 4, units.data(), size);
  return out + replacements;
}

TEST(Charsmap, FindsTheShortestAndTheLongest) {
  const Charsmap map(charsmap({{"a", "1"}, {"abc", "3"}, {"\u00e9", ""}}), "x");
  EXPECT_EQ(map.shortest("abcd")->replacement, "1");
  EXPECT_EQ(map.shortest("abcd")->length, 1u);
  EXPECT_EQ(map.longest("abcd")->replacement, "3");
  EXPECT_EQ(map.longest("abcd")->length, 3u);
  EXPECT_EQ(map.longest("abd")->length, 1u);
  EXPECT_EQ(map.longest("\u00e9")->replacement, "");
  EXPECT_FALSE(map.longest("b"));
  EXPECT_FALSE(map.longest(""));
  EXPECT_FALSE(map.shortest("\u00e8"));
}

TEST(Charsmap, Normalizes) {
  const auto map = std::make_shared<const Charsmap>(
      charsmap({{"\ufb01", "fi"}, {"e\u0301", "\u00e9"}, {"\x01", ""}, {"\t", " "}, {"q", "k"}}), "x");
  Segment segment{"\ufb01e\u0301\x01\tq\u0301\u0302 \xff", true};
  charsmap_normalizer(map)(segment);
  EXPECT_EQ(segment.text, "fi\u00e9 k \xff");  // "q" with its marks is 5 bytes: all become what "q" becomes
  segment.text = "\ufb01e\u0301\x01\tq";
  sentence_piece_normalizer({.map = map})(segment);
  EXPECT_EQ(segment.text, "fi\u00e9\u2581k");
}

TEST(Charsmap, RefusesWhatIsNone) {
  const std::string good = charsmap({{"a", "b"}});
  EXPECT_THROW(Charsmap("", "x"), Error);
  EXPECT_THROW(Charsmap("abc", "x"), Error);
  EXPECT_THROW(Charsmap(good.substr(0, 100), "x"), Error);
  EXPECT_THROW(Charsmap(good.substr(0, good.size() - 1), "x"), Error);
  std::string odd = good;
  odd[0] = 3;
  EXPECT_THROW(Charsmap(odd, "x"), Error);
}

// Any units: a walk stays inside, and ends.
TEST(Charsmap, SurvivesAnyTrie) {
  std::string bytes = charsmap({{"a", "b"}});
  uint64_t state = 1;
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 4; i + 2 < bytes.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[i] = static_cast<char>(state >> 56);
    }
    const Charsmap map(bytes, "x");
    for (int first = 1; first < 256; ++first) {
      const std::string text(1000, static_cast<char>(first));
      map.longest(text);
      map.shortest(text);
    }
  }
}

}  // namespace
}  // namespace heddle::text
