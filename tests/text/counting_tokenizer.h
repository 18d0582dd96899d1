// A tokenizer for the model that counts (tests/engine/counting.h): after 'a' it generates 'b'.
#pragma once
#include <string>

#include "text/bpe/bpe.h"
#include "text/tokenizer.h"

namespace heddle::test {

// 0 "<s>", then ' ' to '~' as 1 to 95, the two bytes of U+00E9 as 96 and 97, 98 the end token "<|im_end|>", 99 another
// control token. So "xy" is continued by "z{|}~\u00e9" and ends.
inline text::Tokenizer counting_tokenizer() {
  text::Vocabulary out;
  out.source = "counting.gguf";
  out.model = "gpt2";
  out.pre = "llama-bpe";
  const auto add = [&](std::string token, text::TokenType type) {
    out.tokens.push_back(std::move(token));
    out.types.push_back(type);
    out.scores.push_back(0);
    return text::TokenId(out.tokens.size() - 1);
  };
  const auto byte = [&](char c) { add(text::byte_level_spelling(std::string(1, c)), text::TokenType::normal); };
  out.bos = add("<s>", text::TokenType::control);
  for (char c = ' '; c <= '~'; ++c) byte(c);
  byte('\xc3');
  byte('\xa9');
  out.eos = add("<|im_end|>", text::TokenType::control);
  add("<|other|>", text::TokenType::control);
  out.add_bos = true;
  // byte-level BPE needs a merge: this one is of two bytes that no text has side by side
  out.merges.push_back(text::byte_level_spelling("~") + " " + text::byte_level_spelling("\xa9"));
  add(text::byte_level_spelling("~\xa9"), text::TokenType::normal);
  return text::Tokenizer::from_vocabulary(std::move(out));
}

// The model's reply continues the last letter of the last message.
inline constexpr const char* counting_template =
    "{{ bos_token }}{% for message in messages %}{% if message['content'] == 'refuse' %}"
    "{{ raise_exception('not that word') }}{% endif %}{{ message['content'] }}{% endfor %}";

}  // namespace heddle::test
