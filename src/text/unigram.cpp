// Viterbi from left to right over the characters of the piece: for every position the best tokenization up to it. And
// the pipeline of GGUF's "t5": a unigram model with SentencePiece's normalizer.
#include "text/unigram.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalize/normalizers.h"
#include "text/token_trie.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {
namespace {

constexpr double unknown_penalty = 10;

std::vector<std::pair<std::string_view, TokenId>> with_ids(const std::vector<UnigramToken>& tokens) {
  std::vector<std::pair<std::string_view, TokenId>> list;
  for (TokenId id = 0; id < tokens.size(); ++id) list.emplace_back(tokens[id].text, id);
  return list;
}

class Unigram : public Model {
 public:
  Unigram(const std::vector<UnigramToken>& tokens, UnigramOptions options)
      : options_(std::move(options)), trie_(with_ids(tokens)) {
    scores_.reserve(tokens.size());
    for (const UnigramToken& token : tokens) scores_.push_back(token.score);
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    const std::vector<Step> best = best_path(piece);
    const size_t first = out.size();
    size_t unknown_end = 0;  // of a run of unknown characters; 0: there is none
    for (size_t end = piece.size(); end > 0; end = best[end].begin) {
      const bool unknown = options_.unknown && best[end].id == *options_.unknown;
      if (unknown && unknown_end == 0) unknown_end = end;
      if (!unknown && unknown_end != 0) {
        append_unknown(piece.substr(end, unknown_end - end), out);
        unknown_end = 0;
      }
      if (!unknown) out.push_back(best[end].id);
    }
    if (unknown_end != 0) append_unknown(piece.substr(0, unknown_end), out);
    std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  }

 private:
  struct Step {
    double score = 0;
    size_t begin = SIZE_MAX;  // SIZE_MAX: not reachable
    TokenId id = 0;
  };

  std::vector<Step> best_path(std::string_view piece) const {
    std::vector<Step> best(piece.size() + 1);
    for (size_t at = 0; at < piece.size();) {
      const size_t bytes = code_point_at(piece, at).bytes;
      const double here = best[at].score;
      bool has_character = false;
      const auto offer = [&](size_t length, TokenId id, double score) {
        Step& step = best[at + length];
        if (step.begin == SIZE_MAX || here + score > step.score) step = {here + score, at, id};
      };
      trie_.for_each_prefix(piece.substr(at), [&](size_t length, TokenId id) {
        offer(length, id, scores_[id]);
        has_character |= length == bytes;
      });
      if (!has_character) {
        if (!options_.unknown)
          throw Error("no token for \"{}\", and the vocabulary has no unknown token",
                      replace_invalid_utf8(piece.substr(at, bytes)));
        offer(bytes, *options_.unknown, options_.lowest_score - unknown_penalty);
      }
      at += bytes;
    }
    return best;
  }

  // In reverse, like everything that encode() gathers.
  void append_unknown(std::string_view run, std::vector<TokenId>& out) const {
    if (options_.fuse_unknown) {
      const auto [length, id] = trie_.longest_prefix(run);
      if (length == run.size()) return out.push_back(id);
    }
    const bool has_bytes = !options_.byte_tokens.empty() && std::all_of(run.begin(), run.end(), [&](char byte) {
      return options_.byte_tokens[static_cast<uint8_t>(byte)] != no_token;
    });
    if (!has_bytes) return out.push_back(*options_.unknown);
    for (size_t i = run.size(); i-- > 0;) out.push_back(options_.byte_tokens[static_cast<uint8_t>(run[i])]);
  }

  UnigramOptions options_;
  TokenTrie trie_;
  std::vector<double> scores_;
};

}  // namespace

std::unique_ptr<const Model> make_unigram(const std::vector<UnigramToken>& tokens, UnigramOptions options) {
  check(options.byte_tokens.empty() || options.byte_tokens.size() == 256, "make_unigram: 256 byte tokens or none");
  check(!options.unknown || *options.unknown < tokens.size(), "make_unigram: the unknown token is one of the tokens");
  return std::make_unique<const Unigram>(tokens, std::move(options));
}

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
