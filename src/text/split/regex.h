// Regular expressions as tokenizers write them: Oniguruma's syntax (Ruby's), understood with Unicode's classes. PCRE2
// matches them; the most common patterns have hand-written scanners, which are several times as fast.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heddle::text {

// The end of the match that begins at `at` < size. `text` is valid UTF-8, and these patterns match at every character.
using Scanner = size_t (*)(const char* text, size_t at, size_t size);

Scanner find_scanner(std::string_view pattern);  // null: there is none

// The patterns, as tokenizer.json has them.
namespace patterns {
// GPT-2: lower-case contractions, a word, number or signs with the space before it, white space.
inline constexpr std::string_view gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3 (GPT-4): any sign before a word belongs to it, numbers in threes, line ends with the signs before them.
inline constexpr std::string_view llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2: the same with single digits.
inline constexpr std::string_view qwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 3.5: combining marks belong to words.
inline constexpr std::string_view qwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// GPT-4o: a word also ends where small letters are followed by a capital one; contractions belong to it.
inline constexpr std::string_view gpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Mistral's Tekken: without contractions, and with single digits.
inline constexpr std::string_view tekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// SuperBPE and Cohere's newer models: numbers in threes, counted from their end.
inline constexpr std::string_view before_three_digits = R"((?=(\d{3})+(?!\d)))";
inline constexpr std::string_view up_to_three_digits = R"(\d{1,3}(?=(?:\d{3})*\b))";
}  // namespace patterns

// Oniguruma's syntax as PCRE2 understands it. Throws an Error with the pattern and the position for what PCRE2's syntax
// cannot express. What is wrong in both is left for PCRE2 to find.
std::string to_pcre2(std::string_view pattern);

// Whether PCRE2 knows this script ("Han"): its \p{Han} includes characters shared with other scripts, \p{sc:Han} does
// not.
bool is_script(std::string_view name);

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
