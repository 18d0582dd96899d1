#include "text/dry_breakers.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace heddle::text {

std::vector<std::string> default_dry_breakers() { return {"\n", ":", "\"", "*"}; }

std::vector<std::vector<TokenId>> dry_breaker_tokens(const std::vector<std::string>& texts,
                                                     const Tokenizer& tokenizer) {
  std::set<std::vector<TokenId>> found;
  for (const std::string& text : texts) {
    check(!text.empty(), "a breaker is not empty");
    std::vector<std::vector<TokenId>> rest(text.size());  // by the length of the prefix; encoded when needed
    for (TokenId id = 0; id < tokenizer.size(); ++id) {
      const std::string_view token = tokenizer.bytes(id);
      if (token.find(text) != token.npos) {
        found.insert({id});
        continue;
      }
      for (size_t size = std::min(token.size(), text.size() - 1); size > 0; --size) {
        if (!token.ends_with(std::string_view(text).substr(0, size))) continue;
        if (rest[size].empty())
          rest[size] = tokenizer.encode(text.substr(size), {.add_special = false, .parse_special = false});
        std::vector<TokenId> sequence{id};
        sequence.insert(sequence.end(), rest[size].begin(), rest[size].end());
        found.insert(std::move(sequence));
      }
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace heddle::text
