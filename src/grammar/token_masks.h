// Which tokens of a vocabulary may follow.
#pragma once
#include <string>
#include <unordered_map>

#include "grammar/parser.h"

namespace heddle::grammar {

// Texts by their beginnings.
class Trie {
 public:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> next;  // by byte, in order
    std::vector<uint32_t> tokens;                    // that end here
  };
  Trie() : nodes_(1) {}
  void add(std::string_view text, uint32_t token);
  const Node& node(uint32_t number) const { return nodes_[number]; }
  bool empty() const { return nodes_.size() == 1 && nodes_[0].tokens.empty(); }

 private:
  std::vector<Node> nodes_;
};

// A bit for each token.
class TokenMask {
 public:
  explicit TokenMask(size_t tokens = 0) : words_((tokens + 31) / 32) {}
  void set(uint32_t token) { words_[token / 32] |= 1u << token % 32; }
  bool operator[](uint32_t token) const { return words_[token / 32] >> token % 32 & 1; }
  TokenMask& operator|=(const TokenMask& other);
  size_t count() const;
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

// The bytes of each token, made once for a model and shared by all grammars; tokens without any, such as the end of the
// text, are never allowed.
class Vocabulary {
 public:
  explicit Vocabulary(std::vector<std::string> tokens);
  size_t size() const { return tokens_.size(); }
  const std::string& operator[](uint32_t token) const { return tokens_[token]; }
  const Trie& trie() const { return trie_; }

 private:
  std::vector<std::string> tokens_;
  Trie trie_;
};

// Masks of one grammar over one vocabulary. What tokens do to a terminal is found once for each state of its language,
// whatever the rest of the parse: most tokens of a long terminal, such as a string, stay inside of it.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<CompiledGrammar> grammar, std::shared_ptr<const Vocabulary> vocabulary);

  const std::shared_ptr<CompiledGrammar>& grammar() const { return grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  TokenMask mask(const Position& at);

 private:
  struct Inside {
    TokenMask stay;  // tokens that end inside of the terminal, or with it
    Trie leave;      // what other tokens have behind its end
  };
  const Inside& inside(Language state);
  void walk(const Position& at, const Trie& trie, uint32_t node, TokenMask& mask);
  void walk_inside(Language state, uint32_t node, Inside& found);
  void add_rest(uint32_t node, std::string& text, Trie& to);

  std::shared_ptr<CompiledGrammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unordered_map<Language, std::unique_ptr<Inside>> inside_;
};

}  // namespace heddle::grammar
