// GGUF's "bert": WordPiece. Tokens that begin a word are marked with U+2581 there, those that continue one are bare.
#include "base/error.h"
#include "text/normalize/normalizers.h"
#include "text/split/splitters.h"
#include "text/tokenizer_vocabulary.h"
#include "text/wordpiece.h"

namespace heddle::text {

Pipeline word_piece_pipeline(const Vocabulary& vocabulary) {
  constexpr std::string_view mark = "\u2581";
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = TokenId(101), .add_bos = true});
  const TokenId separator = vocabulary.separator.value_or(102), unknown = vocabulary.unknown.value_or(100);
  for (const TokenId id : {separator, unknown})
    if (id >= pipeline.tokens.size())
      throw Error("{}: the special token {} is not among the {} tokens", vocabulary.source, id, pipeline.tokens.size());
  if (vocabulary.add_sep.value_or(true)) pipeline.suffix = {separator};

  std::vector<std::string> tokens;
  for (TokenInfo& token : pipeline.tokens) {
    tokens.push_back(token.text);
    if (token.type == TokenType::normal && token.text.starts_with(mark))
      token.bytes = " " + token.text.substr(mark.size());
  }
  pipeline.model = make_wordpiece(tokens, {.unknown = unknown, .begin = std::string(mark)});
  pipeline.normalizers.push_back(bert_normalizer({.gguf = true}));
  pipeline.splitters.push_back(bert_splitter());
  pipeline.strip_first_space = true;
  pipeline.clean_up_spaces = true;
  return pipeline;
}

}  // namespace heddle::text
