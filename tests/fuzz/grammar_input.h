// Any grammar that was read: texts are parsed with it for a bounded number of steps, and what may follow is asked in
// every way that there is.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "grammar/constraint.h"

namespace heddle::fuzz {

inline void expect(bool is_so) {
  if (!is_so) std::abort();
}

// Parses `text`; where a byte of it cannot follow, it chooses one that can.
inline void walk(grammar::Grammar grammar, std::string_view text) {
  using namespace grammar;
  constexpr size_t max_steps = 24;
  static const auto vocabulary = std::make_shared<Vocabulary>(
      std::vector<std::string>{"a", "{\"", "\":", "ab", "1", "", "}", "\xc3", "\xa9\"", " "});
  const auto compiled = std::make_shared<CompiledGrammar>(std::move(grammar));
  const auto masks = std::make_shared<TokenMasks>(compiled, vocabulary);
  Constraint constraint(masks, {5});
  Position at(compiled);
  for (size_t i = 0; i < text.size() && i < max_steps; ++i) {
    const Bytes allowed = at.next_bytes();
    expect(allowed.none() == at.must_end());
    if (allowed.none()) break;
    auto byte = uint8_t(text[i]);
    if (!allowed[byte]) {
      Position back = at;
      expect(!back.take(byte));
      for (size_t skip = byte % allowed.count(); skip > 0 || !allowed[byte]; ++byte)
        if (allowed[byte]) --skip;
    }
    expect(at.take(byte));
    if (i % 8 == 0) {
      const std::string next = forced(at, 64);
      Position behind = at;
      expect(behind.take(next));
      masks->mask(at);
    }
  }
  for (size_t i = 0; i < text.size() && i < max_steps; ++i) {
    const uint32_t token = uint8_t(text[i]) % uint32_t(vocabulary->size());
    const bool allowed = constraint.mask()[token];
    expect(constraint.take(token) == allowed);
  }
}

// A grammar, then a zero byte and the text that is parsed with it.
template <class Read>
int try_grammar(const uint8_t* data, size_t size, Read&& read) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  try {
    walk(read(all.substr(0, zero)), zero == all.npos ? all : all.substr(zero + 1));
  } catch (const heddle::Error&) {
  }
  return 0;
}

}  // namespace heddle::fuzz
