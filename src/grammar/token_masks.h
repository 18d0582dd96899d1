// Which tokens of a vocabulary may follow.
#pragma once
#include <atomic>
#include <unordered_map>

#include "grammar/parser.h"
#include "grammar/vocabulary.h"

namespace heddle::grammar {

// Masks of one grammar over one vocabulary. What tokens do to a terminal is found once for each state of its language,
// whatever the rest of the parse: most tokens of a long terminal, such as a string, stay inside of it.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<CompiledGrammar> grammar, std::shared_ptr<const Vocabulary> vocabulary);

  const std::shared_ptr<CompiledGrammar>& grammar() const { return grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // An Error if it takes more steps than the grammar's limits allow.
  TokenMask mask(const Position& at);

  // From any thread: the languages that texts have added are many, so that new texts should have the grammar compiled
  // afresh.
  bool is_full() const { return is_full_; }

 private:
  // States and positions that are kept: more are found again.
  static constexpr size_t max_bytes = 64u << 20, max_behind = 256;

  const TokensInside& inside(Language state);
  // Tokens of the trie that may follow behind the end of a terminal.
  const std::vector<uint32_t>& behind(const Position& at, size_t live, const TokensInside::Leave& leave);
  // All nodes are reached by texts that lead to this position.
  void walk(const Position& at, const Trie& trie, const std::vector<uint32_t>& nodes, std::vector<uint32_t>& tokens);

  std::shared_ptr<CompiledGrammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unordered_map<Language, std::shared_ptr<const TokensInside>> inside_;
  size_t inside_bytes_ = 0;
  // The same terminal goes on for many tokens: what may come behind it is found once.
  struct Behind {
    std::weak_ptr<const void> set;  // that the terminal began in
    uint32_t terminal;
    TokensInside::Leave leave;
    std::vector<uint32_t> tokens;
  };
  std::vector<Behind> behind_;
  size_t next_behind_ = 0;
  std::atomic<bool> is_full_ = false;
};

}  // namespace heddle::grammar
