#include "text/completion_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

// The length of the prefix of `text` that clean_up_spaces() treats alike whatever follows: up to the last space, unless
// that space belongs to a lone apostrophe.
size_t settled(std::string_view text) {
  size_t end = text.rfind(' ');
  while (end != text.npos && end >= 2 && text.substr(end - 2, 2) == " '") end = text.rfind(' ', end - 2);
  return end == text.npos ? 0 : end;
}

// How many bytes at the end of `text` are the beginning of `stop`.
size_t begun(std::string_view text, std::string_view stop) {
  for (size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size)
    if (text.ends_with(stop.substr(0, size))) return size;
  return 0;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool special) : tokenizer_(&tokenizer), special_(special) {}
StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, std::span<const TokenId> shown)
    : tokenizer_(&tokenizer), special_(false), shown_(shown) {}

// Bytes are held back while they may be the beginning of a character, or of something that clean_up_spaces() shortens.
std::string StreamDecoder::push(TokenId id) {
  if (!special_ && tokenizer_->is_special(id) && !std::binary_search(shown_.begin(), shown_.end(), id)) return {};
  const Pipeline& pipeline = tokenizer_->pipeline();
  std::string_view bytes = tokenizer_->bytes(id);
  if (!begun_) {
    begun_ = true;
    const auto first = pipeline.first_bytes.find(id);
    if (first != pipeline.first_bytes.end())
      bytes = first->second;
    else if (pipeline.strip_first_space && bytes.starts_with(' '))
      bytes.remove_prefix(1);
  }
  held_.append(bytes);
  return take(pipeline.clean_up_spaces ? settled(held_) : held_.size() - incomplete_utf8_tail(held_));
}

std::string StreamDecoder::finish() { return take(held_.size()); }

std::string StreamDecoder::take(size_t size) {
  std::string out = held_.substr(0, size);
  held_.erase(0, size);
  if (tokenizer_->pipeline().clean_up_spaces) out = clean_up_spaces(out);
  return replace_invalid_utf8(out);
}

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_)
    if (string.empty()) throw Error("stop: expected a text, found an empty one");
}

// Stop strings are few and short, so each is looked for in what is held back together with what is new.
std::string StopStrings::push(std::string_view text) {
  if (found()) return {};
  if (strings_.empty()) return std::string(text);
  held_ += text;
  size_t end = held_.npos, begin = held_.npos;
  for (size_t i = 0; i < strings_.size(); ++i) {
    const std::string& string = strings_[i];
    const size_t at = held_.find(string);
    if (at == held_.npos || at + string.size() > end) continue;
    if (at + string.size() == end && at > begin) continue;  // both are complete here: the longer one counts
    begin = at;
    end = at + string.size();
    found_ = i;
  }
  if (found()) {
    std::string out = held_.substr(0, begin);
    held_.clear();
    return out;
  }
  size_t keep = 0;
  for (const std::string& string : strings_) keep = std::max(keep, begun(held_, string));
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

CompletionText::CompletionText(const Tokenizer& tokenizer, std::span<const TokenId> end_tokens,
                               std::vector<std::string> stop_strings, std::span<const TokenId> shown)
    : tokenizer_(&tokenizer), end_tokens_(end_tokens), decoder_(tokenizer, shown), stops_(std::move(stop_strings)) {}

std::string CompletionText::decode(TokenId id) { return id < tokenizer_->size() ? decoder_.push(id) : std::string(); }

std::string CompletionText::follow(std::span<const TokenId> prompt) {
  std::string text;
  for (const TokenId id : prompt) text += decode(id);
  return text;
}

std::string CompletionText::push(TokenId id) {
  if (end_ != End::none) return {};
  ++tokens_;
  if (std::find(end_tokens_.begin(), end_tokens_.end(), id) != end_tokens_.end()) {
    end_ = End::end_token;
    return flush();
  }
  begins_.push_back(decoded_);
  const std::string text = decode(id);
  decoded_ += text.size();
  return show(stops_.push(text));
}

std::string CompletionText::finish() { return end_ == End::none ? flush() : std::string(); }

std::string CompletionText::flush() {
  const std::string rest = decoder_.finish();
  decoded_ += rest.size();
  std::string text = stops_.push(rest);
  if (!stops_.found()) text += stops_.finish();
  text = show(std::move(text));
  shown_tokens_ += uint32_t(begins_.size());  // tokens without text at the end
  begins_.clear();
  return text;
}

std::string CompletionText::show(std::string text) {
  shown_ += text.size();
  const auto next = std::find_if(begins_.begin(), begins_.end(), [&](size_t begin) { return begin >= shown_; });
  shown_tokens_ += uint32_t(next - begins_.begin());
  begins_.erase(begins_.begin(), next);
  if (stops_.found()) {
    end_ = End::stop_string;
    begins_.clear();
  }
  return text;
}

}  // namespace heddle::text
