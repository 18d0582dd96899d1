// Parses a text byte by byte: which bytes may follow, and whether it may end here.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// A grammar that texts are parsed with. Languages are computed when they are first needed, so that a grammar is used by
// one thread at a time.
class CompiledGrammar {
 public:
  explicit CompiledGrammar(Grammar grammar) : grammar_(std::move(grammar)), parts_(grammar_.parts()) {}

  Languages& languages() { return grammar_.languages; }
  const Grammar& grammar() const { return grammar_; }
  const Grammar::Parts& parts() const { return parts_; }

 private:
  Grammar grammar_;
  Grammar::Parts parts_;
};

// Where a text stands. A value: a copy is cheap and goes its own way. Earley's sets, of those positions where a
// terminal may have ended, are never changed and shared by all that follow from them; the terminals that may be going
// on are states of their languages.
class Position {
 public:
  explicit Position(std::shared_ptr<CompiledGrammar> grammar);

  // False, and as it was, if the byte, or one of the text, cannot follow.
  bool take(uint8_t byte);
  bool take(std::string_view text);
  bool may_end() const { return may_end_; }
  bool must_end() const { return live_.empty() || (may_end_ && next_bytes().none()); }  // nothing can follow
  Bytes next_bytes() const;
  bool can_take(uint8_t byte) const;
  Position after(uint8_t byte) const;  // that can be taken

  // The terminals that may be going on, for masks: their languages' states, and the position behind one that ends here,
  // as if no other went on.
  size_t live() const { return live_.size(); }
  Language state(size_t live) const { return live_[live].state; }
  uint32_t terminal(size_t live) const { return live_[live].terminal; }
  std::shared_ptr<const void> began_in(size_t live) const { return live_[live].set; }  // what may follow depends on
  Position ended(size_t live) const;

 private:
  struct Set;
  struct Item {
    uint32_t place;
    const Set* origin;
    bool operator==(const Item&) const = default;
  };
  using SetPointer = std::shared_ptr<const Set>;
  // Where rules end that end one another: at the last one of the chain.
  struct Top {
    Item item;
    SetPointer origin;
  };
  struct Set {
    std::vector<Item> items;
    std::vector<SetPointer> origins;  // that items refer to, but for itself
    bool ends = false;                // the start rule may end here
    // Found when first asked for: items by the rule that they wait for, and the tops of their chains.
    mutable bool is_indexed = false;
    mutable std::vector<std::pair<uint32_t, uint32_t>> waiting;
    mutable std::vector<std::pair<uint32_t, Top>> tops;

    Set() = default;
    Set(const Set&) = delete;
    ~Set();
    std::span<const std::pair<uint32_t, uint32_t>> waiting_for(uint32_t rule, const Grammar::Parts& parts) const;
    SetPointer origin_of(const Item& item, const SetPointer& self) const;
  };
  struct Live {
    SetPointer set;  // in which it began
    uint32_t terminal;
    Language state;
  };

  SetPointer closed(std::vector<Item> kernel, std::vector<SetPointer> origins) const;
  std::optional<Top> top(const SetPointer& set, uint32_t rule) const;
  void begin_terminals(const SetPointer& set, std::vector<Live>& live) const;
  // Sets behind terminals that have ended.
  struct Ended {
    std::vector<Item> kernel;
    std::vector<SetPointer> origins;
  };
  void end_terminal(const Live& l, Ended& ended) const;
  void step(uint8_t byte, std::vector<Live>& live, Ended& ended) const;
  bool go_on(Ended ended, std::vector<Live> live);
  Position(const Position& other, std::vector<Live> live) : grammar_(other.grammar_), live_(std::move(live)) {}

  std::shared_ptr<CompiledGrammar> grammar_;
  std::vector<Live> live_;
  bool may_end_ = false;
};

}  // namespace heddle::grammar
