// GGUF's "t5": a unigram model, with SentencePiece's normalizer.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "text/normalize/normalizers.h"
#include "text/tokenizer_vocabulary.h"
#include "text/unigram.h"

namespace heddle::text {
namespace {

std::string with_spaces(std::string_view text) {
  constexpr std::string_view escaped = "\u2581";
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(escaped, at)) != text.npos; at = found + escaped.size())
    out.append(text.substr(at, found - at)).push_back(' ');
  return out.append(text.substr(at));
}

}  // namespace

Pipeline unigram_pipeline(const Vocabulary& vocabulary) {
  Pipeline pipeline = begin_pipeline(vocabulary, {.eos = TokenId(1), .add_eos = true});
  if (vocabulary.scores.empty())
    throw Error("{}: a unigram model needs scores (tokenizer.ggml.scores)", vocabulary.source);
  const TokenId unknown = vocabulary.unknown.value_or(2);
  if (unknown >= pipeline.tokens.size())
    throw Error("{}: the unknown token {} is not among the {} tokens", vocabulary.source, unknown,
                pipeline.tokens.size());

  std::vector<UnigramToken> tokens(pipeline.tokens.size());
  UnigramOptions options{.unknown = unknown};
  for (TokenId id = 0; id < tokens.size(); ++id) {
    TokenInfo& token = pipeline.tokens[id];
    const double score = vocabulary.scores[id];
    if (!(score <= 1e30 && score >= -1e30)) throw Error("{}: token {} has the score {}", vocabulary.source, id, score);
    if (token.type == TokenType::normal) {
      options.lowest_score = std::min(options.lowest_score, score);
      token.bytes = with_spaces(token.text);
    }
    const bool in_texts =
        token.type == TokenType::normal || token.type == TokenType::user_defined || token.type == TokenType::unused;
    if (in_texts) tokens[id] = {token.text, token.type == TokenType::user_defined ? 0 : score};
  }
  pipeline.model = make_unigram(tokens, std::move(options));

  SentencePieceOptions spaces;
  if (!vocabulary.precompiled_charsmap.empty())
    spaces.map = std::make_shared<const Charsmap>(vocabulary.precompiled_charsmap, vocabulary.source);
  spaces.add_space_prefix = vocabulary.add_space_prefix.value_or(false);
  spaces.remove_extra_whitespaces = vocabulary.remove_extra_whitespaces;
  pipeline.strip_first_space = spaces.add_space_prefix || spaces.remove_extra_whitespaces;
  pipeline.normalizers.push_back(sentence_piece_normalizer(std::move(spaces)));
  return pipeline;
}

}  // namespace heddle::text
