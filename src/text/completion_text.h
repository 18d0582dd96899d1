// From generated tokens to the text of a completion: whole characters, up to an end token or a stop string.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace heddle::text {

// Decodes a stream of tokens. The returned texts, joined, are Tokenizer::decode() of all ids, with U+FFFD for bytes
// that are not UTF-8; none of them ends inside a character.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool special = false);  // special: include special tokens
  // Includes these special tokens, sorted; they must outlive this.
  StreamDecoder(const Tokenizer& tokenizer, std::span<const TokenId> shown);
  std::string push(TokenId id);
  std::string finish();                 // what was held back
  void keep_first() { begun_ = true; }  // the first token is as it would be later: no space before the text is removed

 private:
  std::string take(size_t size);  // the first `size` bytes that are held

  const Tokenizer* tokenizer_;
  bool special_, begun_ = false;
  std::span<const TokenId> shown_;
  std::string held_;
};

// Looks for stop strings in a stream of text. The returned texts, joined, are the text before the stop string that is
// complete first, however the stream is cut; text that may still become a stop string is held back.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings);  // throws an Error if one is empty

  std::string push(std::string_view text);  // empty once a stop string was found
  std::string finish();                     // what was held back
  // The stop string that ended the text; null: none so far.
  const std::string* found() const { return found_ < strings_.size() ? &strings_[found_] : nullptr; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  size_t found_ = SIZE_MAX;  // in strings_
};

// The text of one completion, token by token.
class CompletionText {
 public:
  enum class End { none, end_token, stop_string };

  // `shown`: special tokens that are part of the text, sorted. All but the strings must outlive this.
  CompletionText(const Tokenizer& tokenizer, std::span<const TokenId> end_tokens, std::vector<std::string> stop_strings,
                 std::span<const TokenId> shown = {});

  // The completion continues this prompt. Returns the prompt's text, in which stop strings are not looked for.
  std::string follow(std::span<const TokenId> prompt);
  // A constrained text is that of its tokens, with the space that others may begin with.
  void keep_first() { decoder_.keep_first(); }
  // Takes the next generated token and returns the text that may be shown now. Does nothing after the end. A token
  // beyond the vocabulary, which some models have logits for, has no text.
  std::string push(TokenId id);
  // No more tokens come: returns what was held back. A stop string may be found in that, too.
  std::string finish();

  End end() const { return end_; }
  const std::string* stop_string() const { return stops_.found(); }  // the one that ended it, or null
  uint32_t tokens() const { return tokens_; }                        // taken, including the one that ended it
  // The text returned so far is that of the first shown_tokens() tokens. A token counts as soon as a part of its text
  // is returned, and one without text together with the text after it; tokens of the stop string and the end token
  // never do. Log-probabilities are reported by this count.
  uint32_t shown_tokens() const { return shown_tokens_; }

 private:
  std::string decode(TokenId id);
  std::string show(std::string text);
  std::string flush();

  const Tokenizer* tokenizer_;
  std::span<const TokenId> end_tokens_;
  StreamDecoder decoder_;
  StopStrings stops_;
  End end_ = End::none;
  uint32_t tokens_ = 0, shown_tokens_ = 0;
  size_t decoded_ = 0, shown_ = 0;  // bytes of the completion's text
  std::vector<size_t> begins_;      // in decoded_, of the text of each token that is not shown yet
};

}  // namespace heddle::text
