#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/normalize/unicode.h"

namespace heddle::text {

namespace {

TokenTrie trie_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::pair<std::string_view, TokenId>> entries;
  for (size_t i = 0; i < tokens.size(); ++i) entries.emplace_back(tokens[i].text, TokenId(i));
  return TokenTrie(std::move(entries));
}

// The character that ends at `end`.
CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (uint8_t(text[at]) & 0xc0) == 0x80) --at;
  const CodePoint point = code_point_at(text.substr(0, end), at);
  return at + point.bytes == end ? point : CodePoint{0xfffd, 1, false};
}

bool is_word_at(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const CodePoint point = code_point_at(text, at);
  return point.valid && is_word_character(point.value);
}

bool is_word_before(std::string_view text, size_t end) {
  if (end == 0) return false;
  const CodePoint point = code_point_before(text, end);
  return point.valid && is_word_character(point.value);
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!point.valid || !is_white_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

size_t skip_spaces_back(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    const CodePoint point = code_point_before(text, end);
    if (!point.valid || !is_white_space(point.value) || end - begin < point.bytes) break;
    end -= point.bytes;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), trie_(trie_of(tokens_)) {
  for (const AddedToken& token : tokens_)
    if (!token.text.empty()) begins_[uint8_t(token.text[0])] = true;
}

bool AddedTokens::has_special() const {
  return std::any_of(tokens_.begin(), tokens_.end(), [](const AddedToken& token) { return token.special; });
}

void AddedTokens::split(std::string_view text, bool special, std::span<const TextRange> plain,
                        const std::function<void(std::string_view)>& segment,
                        const std::function<void(TokenId)>& token) const {
  size_t done = 0;  // everything before it was emitted
  for (size_t at = 0; at < text.size();) {
    if (!begins_[uint8_t(text[at])]) {
      ++at;
      continue;
    }
    while (!plain.empty() && plain[0].end <= at) plain = plain.subspan(1);
    size_t length = 0;
    const AddedToken* found = nullptr;
    trie_.for_each_prefix(text.substr(at), [&](size_t size, TokenId place) {
      const bool is_plain = !special || (!plain.empty() && plain[0].begin < at + size);
      if (is_plain && tokens_[place].special) return;
      length = size;
      found = &tokens_[place];
    });
    if (!found) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + length;
    at = end;
    if (found->single_word && (is_word_before(text, begin) || is_word_at(text, end))) continue;
    if (found->lstrip) begin = skip_spaces_back(text, done, begin);
    if (found->rstrip) at = end = skip_spaces(text, end);
    if (begin > done) segment(text.substr(done, begin - done));
    token(found->id);
    done = end;
  }
  if (done < text.size()) segment(text.substr(done));
}

}  // namespace heddle::text
