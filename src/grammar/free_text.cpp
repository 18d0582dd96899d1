// An automaton that looks for several texts at once (Aho and Corasick's) beside one that reads UTF-8.
#include "grammar/free_text.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::grammar {

namespace {

class Search {
 public:
  void add(std::string_view text, bool accepts) {
    uint32_t at = 0;
    for (char c : text) {
      uint32_t& next = nodes_[at].next[uint8_t(c)];
      if (!next) {
        next = uint32_t(nodes_.size());
        at = next;  // before the nodes move
        nodes_.emplace_back();
      } else {
        at = next;
      }
    }
    nodes_[at].found = true;
    nodes_[at].accepts = nodes_[at].accepts || accepts;
  }
  // What is found may be the end of what has been read: the rest of it goes on where its longest end that begins a text
  // would.
  void finish() {
    std::vector<uint32_t> queue;
    for (uint32_t next : nodes_[0].next)
      if (next) queue.push_back(next);
    std::vector<uint32_t> shorter(nodes_.size());
    for (size_t i = 0; i < queue.size(); ++i) {
      const uint32_t at = queue[i], other = shorter[at];
      nodes_[at].accepts = nodes_[at].accepts || (nodes_[other].found && nodes_[other].accepts);
      nodes_[at].found = nodes_[at].found || nodes_[other].found;
      for (size_t b = 0; b < 256; ++b) {
        uint32_t& next = nodes_[at].next[b];
        if (!next) {
          next = nodes_[other].next[b];
        } else {
          shorter[next] = nodes_[other].next[b];
          queue.push_back(next);
        }
      }
    }
  }
  uint32_t next(uint32_t at, uint8_t byte) const { return nodes_[at].next[byte]; }
  bool found(uint32_t at) const { return nodes_[at].found; }
  bool accepts(uint32_t at) const { return nodes_[at].accepts; }

 private:
  struct Node {
    std::array<uint32_t, 256> next{};  // 0: the beginning
    bool found = false, accepts = false;
  };
  std::vector<Node> nodes_{1};
};

// What UTF-8 still needs: nothing, or continuation bytes, the first of them in a range.
struct Pending {
  uint8_t count = 0, low = 0x80, high = 0xbf;
  auto operator<=>(const Pending&) const = default;
};
bool read_utf8(Pending& p, uint8_t byte) {
  if (p.count) {
    if (byte < p.low || byte > p.high) return false;
    p = {.count = uint8_t(p.count - 1)};
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xc2 || byte > 0xf4) return false;
  if (byte < 0xe0) {
    p = {.count = 1};
  } else if (byte < 0xf0) {
    p = {.count = 2, .low = uint8_t(byte == 0xe0 ? 0xa0 : 0x80), .high = uint8_t(byte == 0xed ? 0x9f : 0xbf)};
  } else {
    p = {.count = 3, .low = uint8_t(byte == 0xf0 ? 0x90 : 0x80), .high = uint8_t(byte == 0xf4 ? 0x8f : 0xbf)};
  }
  return true;
}

Language search_language(Languages& all, std::span<const std::string> until, std::span<const std::string> never,
                         bool ends_anywhere) {
  size_t bytes = 0;
  for (const auto& list : {until, never})
    for (const std::string& text : list) {
      bytes += text.size();
      if (text.empty()) throw Error("a text to look for is empty");
      if (!is_utf8(text)) throw Error("a text to look for is no valid UTF-8: {}", in_quotes(text));
    }
  if (bytes > 16'384) throw Error("the texts to look for have {} bytes; at most 16384 are kept", bytes);
  Search search;
  for (const std::string& text : never) search.add(text, false);
  for (const std::string& text : until) search.add(text, true);
  search.finish();

  Languages::Automaton automaton;
  std::map<std::pair<uint32_t, Pending>, uint32_t> numbers;
  std::vector<std::pair<uint32_t, Pending>> states;
  const auto number = [&](uint32_t at, const Pending& pending) {
    const auto [found, is_new] = numbers.try_emplace({at, pending}, uint32_t(states.size()));
    if (is_new) states.emplace_back(at, pending);
    return found->second;
  };
  number(0, {});
  for (size_t i = 0; i < states.size(); ++i) {
    const auto [at, pending] = states[i];
    std::array<uint32_t, 256> row;
    row.fill(Languages::Automaton::none);
    const bool is_over = search.found(at);
    for (size_t b = 0; b < 256 && !is_over; ++b) {
      Pending next = pending;
      if (!read_utf8(next, uint8_t(b))) continue;
      const uint32_t behind = search.next(at, uint8_t(b));
      if (search.found(behind) && !search.accepts(behind)) continue;
      row[b] = number(behind, next);
    }
    automaton.next.push_back(row);
    automaton.ends.push_back(is_over || (ends_anywhere && pending.count == 0));
  }
  return all.accepted(std::move(automaton));
}

void expect_apart(const std::vector<std::string>& texts) {
  for (const std::string& a : texts)
    for (const std::string& b : texts)
      if (a != b && a.find(b) != std::string::npos)
        throw Error("{} is never found, since {} is inside of it", in_quotes(a), in_quotes(b));
}

}  // namespace

Language text_without(Languages& all, std::span<const std::string> never) {
  return search_language(all, {}, never, true);
}
Language text_until(Languages& all, std::span<const std::string> until, std::span<const std::string> never) {
  return search_language(all, until, never, false);
}

Symbol add_free_text(Grammar& g, const FreeText& text) {
  std::map<std::string, std::vector<Symbol>> triggers;
  for (const Trigger& t : text.triggers) triggers[t.text].push_back(t.then);
  std::vector<std::string> stops = text.ends;
  for (const auto& [trigger, then] : triggers) stops.push_back(trigger);
  expect_apart(stops);
  for (const std::string& end : text.ends)
    if (triggers.contains(end)) throw Error("{} is both a trigger and an end", in_quotes(end));
  // an excluded text that has a stop inside comes too late to be found
  std::vector<std::string> never;
  for (const std::string& excluded : text.excluded) {
    for (const std::string& stop : stops)
      if (stop != excluded && stop.find(excluded) != std::string::npos)
        throw Error("{} is never found, since {}, which is excluded, is inside of it", in_quotes(stop),
                    in_quotes(excluded));
    if (std::ranges::none_of(stops, [&](const std::string& s) { return excluded.find(s) != std::string::npos; }))
      never.push_back(excluded);
  }
  const auto others = [&](const std::vector<std::string>& than) {
    std::vector<std::string> all = never;
    for (const std::string& stop : stops)
      if (std::ranges::find(than, stop) == than.end()) all.push_back(stop);
    return all;
  };

  const Symbol end = text.ends.empty() ? g.symbol_of(text_without(g.languages, others({})))
                                       : g.terminal(text_until(g.languages, text.ends, others(text.ends)));
  const Symbol all = g.rule();
  if (!text.must_trigger) g.add_choice(all, {end});
  if (triggers.empty()) {
    if (text.must_trigger) throw Error("a trigger is needed, and there is none");
    return all;
  }
  const Symbol once = g.rule();  // a trigger with the text before it, and what it leads to
  for (const auto& [trigger, then] : triggers) {
    const std::vector<std::string> self{trigger};
    const Symbol until = g.terminal(text_until(g.languages, self, others(self)));
    for (const Symbol& one : then) g.add_choice(once, {until, one});
  }
  if (text.again) {
    const Symbol times = g.rule();
    g.add_choice(times, {once});
    g.add_choice(times, {times, once});
    g.add_choice(all, {times, end});
  } else {
    std::vector<Language> ends;
    for (const std::string& one : text.ends) ends.push_back(g.languages.text(one));
    if (ends.empty())
      g.add_choice(all, {once});
    else
      g.add_choice(all, {once, g.terminal(g.languages.any_of(std::move(ends)))});
  }
  return all;
}

}  // namespace heddle::grammar
