// A router's view of a KV cache: what events say, read from their bytes alone.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace heddle::test {

using Text = std::vector<uint32_t>;

class BlockReader {
 public:
  void read(const std::vector<uint8_t>& bytes) {
    const auto batch = nlohmann::json::from_msgpack(bytes);
    ASSERT_TRUE(batch.is_array() && batch.size() == 3) << batch;
    EXPECT_TRUE(batch[0].is_number_float());
    EXPECT_EQ(batch[2], 0);
    for (const auto& event : batch[1]) {
      const std::string type = event.is_array() ? event[0] : event["type"];
      const auto field = [&](size_t index, const char* name) { return event.is_array() ? event[index] : event[name]; };
      if (type == "AllBlocksCleared") {
        texts.clear();
      } else if (type == "BlockRemoved") {
        for (const uint64_t hash : field(1, "block_hashes"))
          ASSERT_EQ(texts.erase(hash), 1u) << "only a block that is there goes";
      } else {
        ASSERT_EQ(type, "BlockStored");
        store(field(1, "block_hashes"), field(2, "parent_block_hash"), field(3, "token_ids"), field(4, "block_size"));
      }
      ++events;
    }
  }
  std::set<Text> all() const {
    std::set<Text> set;
    for (const auto& [hash, text] : texts) set.insert(text);
    return set;
  }
  // Of the text's leading tokens, how many are in whole blocks that were announced.
  size_t prefix(const Text& text, size_t block_tokens) const {
    const std::set<Text> set = all();
    size_t tokens = 0;
    while (tokens + block_tokens <= text.size() &&
           set.contains(Text(text.begin(), text.begin() + long(tokens + block_tokens))))
      tokens += block_tokens;
    return tokens;
  }

  std::map<uint64_t, Text> texts;  // by the hash of their last block
  size_t events = 0;

 private:
  void store(const std::vector<uint64_t>& hashes, const nlohmann::json& parent, const Text& tokens, size_t size) {
    ASSERT_EQ(tokens.size(), hashes.size() * size);
    Text text;
    if (!parent.is_null()) {
      ASSERT_TRUE(texts.contains(parent)) << "a block follows one that is there";
      text = texts.at(parent);
    }
    for (size_t i = 0; i < hashes.size(); ++i) {
      text.insert(text.end(), tokens.begin() + long(i * size), tokens.begin() + long((i + 1) * size));
      ASSERT_TRUE(texts.emplace(hashes[i], text).second) << "a block is stored once";
    }
  }
};

}  // namespace heddle::test
