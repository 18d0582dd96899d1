// A vocabulary of the input's own making, and text for it: whatever is encoded comes back when it is decoded.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tests/fuzz/target.h"
#include "tests/text/small_vocabulary.h"
#include "text/split/regex.h"
#include "text/split/splitters.h"
#include "text/tokenizer.h"

namespace heddle {
namespace {

// Up to the next line end; what follows stays in `rest`.
std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

void tokenize(const text::Vocabulary& vocabulary, std::string_view text) {
  const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(vocabulary);
  const std::string back = tokenizer.decode(tokenizer.encode(text, {.parse_special = false}));
  if (vocabulary.model == "gpt2" && back != text) std::abort();
  tokenizer.decode(tokenizer.encode(text), true);
  const text::EncodedPair pair = tokenizer.encode_pair(text, text.substr(text.size() / 2));
  if (pair.ids.size() != pair.types.size()) std::abort();
  tokenizer.decode(pair.ids, true);
  const text::TextRange all{0, text.size()};
  const auto plain = tokenizer.encode(text, {.parse_special = false}),
             in_plain = tokenizer.encode(text, {.plain = {&all, 1}});
  if (!text.empty() && plain != in_plain) std::abort();
  const text::TextRange middle{text.size() / 3, text.size() / 2};  // what lies outside of it may be parsed
  if (middle.begin < middle.end) tokenizer.decode(tokenizer.encode(text, {.plain = {&middle, 1}}), true);
}

void match(std::string_view pattern, std::string_view text) {
  const text::Regex regex(pattern);
  std::string joined;
  regex.for_each_piece(text, [&](std::string_view piece) { joined += piece; });
  if (joined != text) std::abort();
}

}  // namespace

// The first byte says what is tried; then lines, and the text.
FUZZ_TARGET(tokenize) {
  std::string_view rest(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  if (rest.empty()) return 0;
  const uint8_t what = uint8_t(rest[0]);
  rest.remove_prefix(1);
  try {
    if (what % 3 == 0) {
      const std::string_view pattern = take_line(rest);
      if (pattern.size() <= 200) match(pattern, rest.substr(0, 200));
    } else {
      text::Vocabulary vocabulary = what % 3 == 1 ? test::byte_level_vocabulary() : test::sentence_piece_vocabulary();
      const auto& known = text::pre_tokenizers();
      vocabulary.pre = known[what / 3 % known.size()].names[0];
      for (int i = 0; i < 4; ++i) {
        const std::string_view line = take_line(rest);
        if (line.starts_with("+"))
          vocabulary.merges.emplace_back(line.substr(1));
        else if (!line.empty())
          test::add_token(vocabulary, line, text::TokenType(1 + line.size() % 6), -float(line.size()));
      }
      tokenize(vocabulary, rest);
    }
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace heddle
