// Free text with other things in it: until a trigger is written, any text; behind it, what the trigger stands for.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace heddle::grammar {

struct Trigger {
  std::string text;
  Symbol then;  // follows directly
};

struct FreeText {
  std::vector<Trigger> triggers;
  std::vector<std::string> ends;      // one of them ends the free text, and belongs to it; without any it ends anywhere
  std::vector<std::string> excluded;  // texts that are not in it
  bool again = true;                  // free text again behind what a trigger leads to; otherwise one of `ends`, if any
  bool must_trigger = false;          // at least once
};
// The first trigger, end or excluded text that is complete counts: an Error if one of them has another one inside,
// which would always come first, and for texts that are empty or no UTF-8.
Symbol add_free_text(Grammar& grammar, const FreeText& text);

// Texts of UTF-8 in which none of `never` is.
Language text_without(Languages& all, std::span<const std::string> never);
// Texts of UTF-8 that end with one of `until`, and in which neither one of them is before, nor one of `never` anywhere.
Language text_until(Languages& all, std::span<const std::string> until, std::span<const std::string> never);

}  // namespace heddle::grammar
