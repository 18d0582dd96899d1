// Bytes are held back while they may be the beginning of a character, or of something that clean_up_spaces() shortens.
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

// How much of a text can be cleaned up without knowing what follows: up to the last space, unless that space belongs to
// a lone apostrophe.
size_t settled(std::string_view text) {
  size_t end = text.rfind(' ');
  while (end != text.npos && end >= 2 && text.substr(end - 2, 2) == " '") end = text.rfind(' ', end - 2);
  return end == text.npos ? 0 : end;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool special) : tokenizer_(&tokenizer), special_(special) {}

std::string StreamDecoder::push(TokenId id) {
  if (!special_ && tokenizer_->is_special(id)) return {};
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

}  // namespace heddle::text
