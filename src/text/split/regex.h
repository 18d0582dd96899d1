// Regular expressions as tokenizers write them: Oniguruma's syntax (Ruby's), understood with Unicode's classes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "text/split/regex_scanners.h"

namespace heddle::text {

class Regex {
 public:
  enum class Engine : uint8_t { fastest, pcre2 };  // pcre2 is for tests that compare the two

  // Throws an Error with the pattern and the position if heddle does not understand it.
  explicit Regex(std::string_view pattern, Engine engine = Engine::fastest);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  const std::string& pattern() const { return pattern_; }

  // Calls found(begin, end), in bytes of `text`, for the matches from left to right. They do not overlap; after an
  // empty one the search continues one character further, and none is empty where another ended. Bytes that are not
  // UTF-8 end the text as far as a match is concerned. Throws an Error if a match takes too many steps.
  // Thread-safe.
  template <class Found>  // void(size_t begin, size_t end)
  void for_each_match(std::string_view text, Found&& found) const {
    Cursor cursor(*this, text);
    while (cursor.next()) found(cursor.begin(), cursor.end());
  }
  // Every match and everything between matches, in order ("isolated" in tokenizers). void(string_view)
  template <class Piece>
  void for_each_piece(std::string_view text, Piece&& piece) const {
    size_t end = 0;
    for_each_match(text, [&](size_t match_begin, size_t match_end) {
      if (match_begin > end) piece(text.substr(end, match_begin - end));
      if (match_end > match_begin) piece(text.substr(match_begin, match_end - match_begin));
      end = match_end;
    });
    if (end < text.size()) piece(text.substr(end));
  }

 private:
  class Cursor {
   public:
    Cursor(const Regex& regex, std::string_view text);
    bool next();
    size_t begin() const { return begin_; }
    size_t end() const { return end_; }

   private:
    bool next_in_valid();
    void enter_valid(size_t at);

    const Regex& regex_;
    std::string_view text_;
    size_t begin_ = 0, end_ = 0;              // the last match
    size_t at_ = 0;                           // where the search continues
    size_t valid_begin_ = 0, valid_end_ = 0;  // the valid UTF-8 around it
  };

  struct Code;
  std::string pattern_;
  Scanner scanner_ = nullptr;         // for a common pattern (regex_scanners.h)
  std::unique_ptr<const Code> code_;  // PCRE2's otherwise
};

}  // namespace heddle::text
