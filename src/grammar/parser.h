// Parses a text byte by byte: which bytes may follow, and whether it may end here.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// What parsing may take before it ends in an Error.
struct ParseLimits {
  size_t items = 200'000;          // that one byte leads to: 3 ms; schemas of real use need 500
  size_t set_bytes = 128u << 20;   // of the sets that the positions of a text keep
  size_t added_bytes = 64u << 20;  // of the languages that texts add; some schemas of real use add 5 MiB
  // To find a mask or forced tokens, or to take a token: 0.1 s; schemas of real use need half a million.
  uint64_t steps = 10'000'000;
};

// A grammar that texts are parsed with. Languages are computed when they are first needed, so that a grammar is used by
// one thread at a time.
class CompiledGrammar {
 public:
  explicit CompiledGrammar(Grammar grammar, const ParseLimits& limits = {});

  Languages& languages() { return grammar_.languages; }
  const Grammar& grammar() const { return grammar_; }
  const Grammar::Parts& parts() const { return parts_; }
  const ParseLimits& limits() const { return limits_; }
  size_t added_bytes() const { return grammar_.languages.bytes() - compiled_bytes_; }

 private:
  Grammar grammar_;
  Grammar::Parts parts_;
  ParseLimits limits_;
  size_t compiled_bytes_ = 0;
};

// Where a text stands. A value: a copy is cheap and goes its own way. Earley's sets, of those positions where a
// terminal may have ended, are never changed and shared by all that follow from them; the terminals that may be going
// on are states of their languages. In an ambiguous grammar sets grow with the text, up to the limits of the grammar.
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
  // Of the sets that the positions of one text keep; the last of them may go on any thread.
  using Kept = std::shared_ptr<std::atomic<size_t>>;
  // Where rules end that end one another: at the last one of the chain.
  struct Top {
    Item item;
    SetPointer origin;
  };
  struct Set : std::enable_shared_from_this<Set> {
    std::vector<Item> items;
    std::vector<SetPointer> origins;  // that items refer to, but for itself
    bool ends = false;                // the start rule may end here
    // Found when first asked for: items by the rule that they wait for, and the tops of their chains.
    mutable bool is_indexed = false;
    mutable std::vector<std::pair<uint32_t, uint32_t>> waiting;
    mutable std::vector<std::pair<uint32_t, Top>> tops;

    Kept kept;
    size_t bytes = 0;

    Set() = default;
    Set(const Set&) = delete;
    ~Set();
    bool is_like(const Set& other) const;  // the same follows from both
    std::span<const std::pair<uint32_t, uint32_t>> waiting_for(uint32_t rule, const Grammar::Parts& parts) const;
  };
  struct Live {
    SetPointer set;  // in which it began
    uint32_t terminal;
    Language state;
    bool operator==(const Live&) const = default;
  };

  // Items that a byte has led to.
  class LookedAt;
  SetPointer closed(const std::vector<Item>& kernel, LookedAt& looked_at) const;
  void keep(Set& set, const LookedAt& looked_at) const;
  std::optional<Item> top(const Set& set, uint32_t rule, LookedAt& looked_at) const;
  void begin_terminals(const SetPointer& set, std::vector<Live>& live) const;
  void add(Live added, std::vector<Live>& live) const;
  // Behind terminals that have ended; their sets keep the origins.
  using Ended = std::vector<Item>;
  void end_terminal(const Live& l, Ended& ended, LookedAt& looked_at) const;
  void step(uint8_t byte, std::vector<Live>& live, Ended& ended, LookedAt& looked_at) const;
  bool go_on(const Ended& ended, std::vector<Live> live, LookedAt& looked_at);
  Position(const Position& other, size_t taken)
      : grammar_(other.grammar_), repeats_(other.repeats_), taken_(taken), kept_(other.kept_) {}

  std::shared_ptr<CompiledGrammar> grammar_;
  std::vector<Live> live_;
  bool may_end_ = false;
  bool repeats_ = false;  // terminals have begun again in the same set, so that some may be the same
  size_t taken_ = 0;      // bytes
  Kept kept_;
};

}  // namespace heddle::grammar
