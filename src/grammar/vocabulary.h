// The tokens of a model, by what they do in most grammars: stand inside of a JSON string, or end one.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/language.h"
#include "grammar/trie.h"

namespace heddle::grammar {

// A bit for each token.
class TokenMask {
 public:
  explicit TokenMask(size_t tokens = 0) : bits_((tokens + 31) / 32) {}
  void set(uint32_t token) { bits_[token / 32] |= 1u << token % 32; }
  void reset(uint32_t token) { bits_[token / 32] &= ~(1u << token % 32); }
  bool operator[](uint32_t token) const { return bits_[token / 32] >> token % 32 & 1; }
  TokenMask& operator|=(const TokenMask& other);
  size_t count() const;
  bool none() const { return count() == 0; }    // no token is set
  bool empty() const { return bits_.empty(); }  // of tokens, set or not
  const std::vector<uint32_t>& bits() const { return bits_; }

 private:
  std::vector<uint32_t> bits_;
};

// What tokens do in a state of a terminal's language. Those that end inside of the terminal, or with it, are in one of
// three places; what the others have behind its end is in the tries.
struct TokensInside {
  std::shared_ptr<const TokenMask> shared;  // with other states
  TokenMask many;
  std::vector<uint32_t> few;
  struct Leave {
    std::shared_ptr<const Trie> trie;
    uint32_t node;  // where it begins
    bool operator==(const Leave&) const = default;
  };
  std::vector<Leave> leave;
  std::vector<uint32_t> blocked;  // tokens of the tries that do not leave after all, in order
  size_t bytes() const { return sizeof(*this) + 4 * (many.bits().size() + few.size() + blocked.size()); }
};

// The bytes of each token, made once for a model and shared by all grammars; tokens without any, such as the end of the
// text, are never allowed. Threads may use it together.
class Vocabulary {
 public:
  explicit Vocabulary(std::vector<std::string> tokens);
  size_t size() const { return tokens_.size(); }
  const std::string& operator[](uint32_t token) const { return tokens_[token]; }
  const Trie& trie() const { return *trie_; }

  // In a state of a language of `all`.
  std::shared_ptr<const TokensInside> inside(Languages& all, Language state) const;

 private:
  // Tokens by the number of a JSON string's characters in them, in whatever form they are written: up to a length;
  // those that end the string behind a length; and what others have behind that end.
  struct UpTo {
    uint32_t length;
    TokenMask tokens;
  };
  struct Ending {
    uint32_t length;
    Trie::Entry behind;
  };
  struct InString {
    std::shared_ptr<const TokenMask> stay;
    std::shared_ptr<const Trie> leave;
  };
  struct Found;
  void sort_token(uint32_t token, Languages& all, std::map<uint32_t, std::vector<uint32_t>>& within);
  // In a string with `least` to `most` more characters to come.
  InString in_string(uint32_t least, uint32_t most) const;
  void walk(Languages& all, Language state, uint32_t node, size_t depth, Found& found) const;
  void walk_difference(Languages& all, Language state, Language known, uint32_t node, size_t depth, Found& found) const;
  void add_leaving(uint32_t node, size_t depth, size_t stay, Found& found) const;
  void keep(Found walked, TokensInside& found) const;
  void keep_leaving(Found& walked, TokensInside& found) const;

  std::vector<std::string> tokens_;
  std::shared_ptr<const Trie> trie_;
  Language character_, mark_, free_string_;  // common languages: of one character, the mark, and what is behind one
  std::vector<UpTo> within_;                 // by length
  std::vector<Ending> endings_;              // by text
  std::vector<uint32_t> lengths_;            // of endings
  TokenMask leaving_;                        // endings with more behind them
  mutable std::mutex mutex_;
  mutable std::map<std::array<size_t, 3>, InString> in_string_;               // by numbers in `within_` and `lengths_`
  std::unordered_map<Language, std::shared_ptr<const TokensInside>> common_;  // common languages
};

}  // namespace heddle::grammar
