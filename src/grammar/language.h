// Regular languages of bytes, as values that share their parts: equal ones mostly have equal numbers, so a language is
// the state of its own automaton, and taking a byte leads to the number of another.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heddle::grammar {

using Bytes = std::bitset<256>;
using Language = uint32_t;  // in a Languages

// All languages of a grammar. What is never asked for is never computed: derivatives are taken one kind of byte at a
// time, and kept. Languages that most grammars need (JSON's strings, numbers and signs) are there from the beginning,
// with all that follows from them, under the same numbers in every Languages.
class Languages {
 public:
  Languages() : Languages(&common()) {}
  Languages(Languages&&) = default;
  Languages& operator=(Languages&&) = default;

  // Never changes.
  static const Languages& common();
  bool is_common(Language a) const { return a < first_; }

  static constexpr Language nothing = 0;  // no text at all
  static constexpr Language empty = 1;    // the empty text alone
  static constexpr Language anything = 2;

  Language bytes(const Bytes& set);  // a text of one of these bytes
  Language text(std::string_view text);
  Language sequence(Language first, Language second);
  Language sequence(std::span<const Language> parts);
  Language any_of(std::vector<Language> choices);  // union
  Language all_of(std::vector<Language> limits);   // intersection
  Language without(Language a);                    // every text that is not in it
  Language repeat(Language a, uint32_t least, uint32_t most = unbounded);
  static constexpr uint32_t unbounded = 0xffffffff;
  // Given by an automaton: after state s and byte b comes next[s][b], or none.
  struct Automaton {
    static constexpr uint32_t none = 0xffffffff;
    std::vector<std::array<uint32_t, 256>> next;
    std::vector<bool> ends;
  };
  Language accepted(Automaton automaton, uint32_t state = 0);

  bool has_empty(Language a) const { return node(a).has_empty; }
  // What may follow this byte: `nothing` itself if no text can.
  Language after(Language a, uint8_t byte);
  Language after(Language a, std::string_view text);
  bool contains(Language a, std::string_view text) { return has_empty(after(a, text)); }
  // Bytes of one set lead to the same language; the sets are disjoint and have all bytes.
  const std::vector<Bytes>& kinds(Language a);
  // Whether no text is in it. Looks at no more than `most` states: then an Error that says so.
  static constexpr size_t max_searched = 20'000;
  bool is_nothing(Language a, size_t most = max_searched);

  // If it is a number of texts of `unit` and then `end`: how many.
  struct Count {
    uint32_t least, most;
  };
  std::optional<Count> counted(Language a, Language unit, Language end) const;

  size_t size() const { return first_ + nodes_.size(); }

  // Limits, so that no grammar takes forever or all memory, also while a text is generated. Languages, parser and masks
  // spend a step for each thing that they look at: an Error beyond the steps that were allowed last.
  void allow_steps(uint64_t steps) {
    allowed_steps_ = steps;
    left_steps_ = steps;
  }
  void spend(uint64_t steps) {
    if (steps > left_steps_) throw_too_slow();
    left_steps_ -= steps;
  }
  // For as long as this lives, then without a limit.
  class StepLimit {
   public:
    StepLimit(Languages& languages, uint64_t steps) : languages_(languages) { languages_.allow_steps(steps); }
    ~StepLimit() { languages_.allow_steps(no_limit); }
    StepLimit(const StepLimit&) = delete;

   private:
    Languages& languages_;
  };
  static constexpr uint64_t no_limit = ~uint64_t(0);
  // Languages are kept for ever: an Error beyond these bytes, of which some are used already.
  size_t bytes() const { return bytes_; }
  void allow_bytes(size_t bytes) { allowed_bytes_ = bytes; }

 private:
  enum class Kind : uint8_t { nothing, empty, anything, bytes, sequence, any_of, all_of, without, repeat, automaton };
  struct Node {
    Kind kind;
    bool has_empty;
    bool has_text = false;          // for certain: seen from its parts
    uint32_t set = 0;               // bytes; of an automaton its number
    uint32_t least = 0, most = 0;   // repeat; of an automaton `least` is the state
    std::vector<Language> parts{};  // sequence: two; without, repeat: one
    bool operator==(const Node&) const = default;
  };
  struct Kinds {
    std::vector<Bytes> sets;
    std::array<uint8_t, 256> of{};  // the kind of each byte
  };
  struct Moves {
    const Kinds* kinds;             // shared by many: a string of counted characters has a language for each number
    std::vector<Language> after;    // by kind, or unknown
    std::vector<bool> is_resolved;  // by kind: where no text can follow, `nothing` itself
  };
  static constexpr Language unknown = 0xffffffff;

  explicit Languages(const Languages* base);
  const Node& node(Language a) const { return a < first_ ? base_->nodes_[a] : nodes_[a - first_]; }
  const Bytes& set(uint32_t number) const {
    return number < first_set_ ? base_->sets_[number] : sets_[number - first_set_];
  }
  [[noreturn]] void throw_too_slow() const;
  void use_bytes(size_t bytes);
  static size_t hash(const Node& node);
  Language find(size_t hash, const Node& node) const;  // or unknown
  void keep_slot(size_t hash, Language own);
  bool has_text(const Node& node) const;
  Language add(Node node);
  Language in_state(uint32_t automaton, uint32_t state);
  Language derive(Language a, uint8_t byte);
  // After a byte, in whatever form.
  Language step(Language a, uint8_t byte);
  Moves& moves(Language a);
  std::vector<Bytes> find_kinds(Language a);
  const Kinds* shared_kinds(std::vector<Bytes> sets);
  // Empty if more states than `most` had to be looked at.
  std::optional<bool> find_nothing(Language a, size_t most);
  void complete();

  const Languages* base_ = nullptr;
  Language first_ = 0;  // those of the base come before
  uint32_t first_set_ = 0;
  std::deque<Node> nodes_;
  std::vector<Language> slots_;  // by hash, open addressing: own numbers plus one, or 0
  std::vector<Bytes> sets_;
  std::unordered_map<Bytes, uint32_t> set_numbers_;
  std::vector<Automaton> automata_;
  std::vector<std::unique_ptr<Moves>> moves_;  // by language, of those that the base does not have
  std::unordered_multimap<size_t, std::unique_ptr<const Kinds>> kinds_;  // by a hash of the sets
  std::vector<int8_t> known_nothing_;                                    // -1: not known
  uint64_t allowed_steps_ = no_limit, left_steps_ = no_limit;
  size_t bytes_ = 0, allowed_bytes_ = ~size_t(0);
};

}  // namespace heddle::grammar
