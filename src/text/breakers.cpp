#include "text/breakers.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace heddle::text {

std::vector<std::string> usual_breakers() { return {"\n", ":", "\"", "*"}; }

std::vector<std::vector<Id>> breaker_tokens(const std::vector<std::string>& texts, const Tokenizer& words) {
  std::set<std::vector<Id>> found;
  for (const std::string& text : texts) {
    check(!text.empty(), "a breaker is a text");
    std::vector<std::vector<Id>> rest(text.size());  // by how much of the text is spelt already; made when needed
    for (Id id = 0; id < words.size(); ++id) {
      const std::string_view token = words.bytes(id);
      if (token.find(text) != token.npos) {
        found.insert({id});
        continue;
      }
      for (size_t size = std::min(token.size(), text.size() - 1); size > 0; --size) {
        if (!token.ends_with(std::string_view(text).substr(0, size))) continue;
        if (rest[size].empty())
          rest[size] = words.encode(text.substr(size), {.add_special = false, .parse_special = false});
        std::vector<Id> sequence{id};
        sequence.insert(sequence.end(), rest[size].begin(), rest[size].end());
        found.insert(std::move(sequence));
      }
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace heddle::text
