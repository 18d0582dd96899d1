// SentencePiece's "precompiled_charsmap": strings and their replacements in normalization. A Darts double-array trie
// (units of 32 bits) of the strings, then the replacements, each ending with a zero byte.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::text {

class Charsmap {
 public:
  // Throws an Error that names `source` if this is not a charsmap.
  Charsmap(std::string_view bytes, const std::string& source);

  struct Match {
    size_t length = 0;  // of the replaced text
    std::string_view replacement;
  };
  // The shortest and the longest string of the map that `text` begins with.
  std::optional<Match> shortest(std::string_view text) const;
  std::optional<Match> longest(std::string_view text) const;

 private:
  template <class Found>  // bool(Match): whether to continue
  void walk(std::string_view text, Found found) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace heddle::text
