// The thought that an answer begins with, dim on a terminal.
#pragma once
#include <string>
#include <string_view>

#include "chat/format.h"

namespace heddle {

// The text of an answer passes through with two marks added: where a thought begins and where it has ended. They are
// control characters, which the text must not have: without width, so that lines can be wrapped after this.
// with_styles() makes escape sequences of them.
class DimThoughts {
 public:
  DimThoughts() = default;  // nothing is a thought
  // `inside`: the prompt ends inside of a thought.
  DimThoughts(const chat::ThoughtFormat& marks, bool inside);

  void skip(std::string_view text);  // a part of the answer that was shown before
  // Returns what can be shown. What may become a mark of the thought is held back.
  std::string push(std::string_view text);
  std::string finish();  // the rest

  static constexpr char32_t dim = U'\x0e', plain = U'\x0f';
  static std::string with_styles(std::string_view text);

 private:
  enum class State { undecided, opened, inside, over };  // opened: inside, and nothing of it was shown

  std::string begin_, end_;
  State state_ = State::over;
  std::string held_;
};

}  // namespace heddle
