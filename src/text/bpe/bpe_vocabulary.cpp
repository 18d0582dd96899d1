// The kinds of BPE in GGUF: "gpt2" is byte-level BPE, split by a named pre-tokenizer. "llama" is SentencePiece's BPE,
// which joins the neighbours whose joined text is the token with the best score; it writes spaces as U+2581, and
// characters without a token as bytes. "gemma4" does so too, but joins by a list of merges.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/split/splitters.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {

namespace {

// "a b": the two sides. The first may begin with a space in vocabularies that do not spell them as U+0120.
std::pair<std::string_view, std::string_view> sides(const Vocabulary& vocabulary, size_t at) {
  const std::string_view merge = vocabulary.merges[at];
  const size_t space = merge.find(' ', 1);
  if (merge.empty() || space == std::string_view::npos)
    throw Error("{}: tokenizer.ggml.merges[{}] is {}; expected two tokens with a space between them", vocabulary.source,
                at, in_quotes(merge));
  return {merge.substr(0, space), merge.substr(space + 1)};
}

// How the text of a token is spelled.
enum class Spelling : uint8_t { byte_level, plain };
std::string unspelled(Spelling spelling, std::string_view text) {
  return spelling == Spelling::plain ? std::string(text) : byte_level_bytes(text).value_or(std::string(text));
}

bool is_control(const TokenInfo& token) { return token.type == TokenType::control || token.type == TokenType::unknown; }

// Merges that would turn plain text into a control token are skipped.
std::vector<Merge> merges_of(const Vocabulary& vocabulary, const Pipeline& pipeline, const PieceTable& pieces,
                             Spelling spelling) {
  std::vector<Merge> out;
  out.reserve(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto [first, second] = sides(vocabulary, i);
    const std::string left = unspelled(spelling, first), right = unspelled(spelling, second);
    const Merge merge{pieces.find(left), pieces.find(right), pieces.find(left + right), uint32_t(i)};
    for (const TokenId id : {merge.left, merge.right, merge.joined})
      if (id == PieceTable::none)
        throw Error("{}: tokenizer.ggml.merges[{}] is {}, but {} is not a token", vocabulary.source, i,
                    in_quotes(vocabulary.merges[i]),
                    in_quotes(id == merge.left    ? std::string(first)
                              : id == merge.right ? std::string(second)
                                                  : std::string(first).append(second)));
    if (!is_control(pipeline.tokens[merge.joined])) out.push_back(merge);
  }
  return out;
}

}  // namespace

Pipeline byte_level_pipeline(const Vocabulary& vocabulary) {
  const PreTokenizer& pre_tokenizer = find_pre_tokenizer(vocabulary.pre, vocabulary.source);
  if (vocabulary.merges.empty()) throw Error("{}: there are no tokenizer.ggml.merges", vocabulary.source);
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = 11, .eos = 11, .add_bos = pre_tokenizer.add_bos});
  std::vector<std::string> pieces(pipeline.tokens.size());
  std::vector<std::string> parts(pipeline.tokens.size());  // also of added tokens, which may be parts of others
  for (TokenId id = 0; id < pieces.size(); ++id) {
    TokenInfo& token = pipeline.tokens[id];
    auto bytes = byte_level_bytes(token.text);
    if (!bytes) continue;
    parts[id] = *bytes;
    if (token.type != TokenType::normal && token.type != TokenType::unused) continue;
    token.bytes = *bytes;
    pieces[id] = std::move(*bytes);
  }
  const std::vector<Merge> merges = merges_of(vocabulary, pipeline, PieceTable(parts), Spelling::byte_level);
  pipeline.splitters = splitters(pre_tokenizer);
  BpeOptions options;
  options.ignore_merges = pre_tokenizer.ignore_merges;
  options.unknown = vocabulary.unknown;
  pipeline.model = make_bpe(std::move(pieces), merges, std::move(options), vocabulary.source);
  return pipeline;
}

namespace {

constexpr std::string_view block = "\u2581";  // written for a space

void replace_spaces(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    out.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  out.append(text, at);
  text = std::move(out);
}

bool is_piece(TokenType type) { return type == TokenType::normal || type == TokenType::unused; }

// The end of a word: before the first block that follows something else.
size_t word_end(std::string_view text, size_t at) {
  size_t end = at;
  while (text.substr(end).starts_with(block)) end += block.size();
  return std::min(text.find(block, end), text.size());
}

// Scores as ranks: the best is 0, equal ones are equal.
std::vector<uint32_t> ranks_of(const Vocabulary& vocabulary) {
  if (vocabulary.scores.empty()) throw Error("{}: there are no tokenizer.ggml.scores", vocabulary.source);
  for (size_t id = 0; id < vocabulary.scores.size(); ++id)
    if (std::isnan(vocabulary.scores[id]))
      throw Error("{}: tokenizer.ggml.scores[{}] is not a number", vocabulary.source, id);
  std::vector<float> sorted = vocabulary.scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>{});
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint32_t> ranks;
  for (const float score : vocabulary.scores)
    ranks.push_back(uint32_t(std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>{}) - sorted.begin()));
  return ranks;
}

// Calls found(size) for every place between two characters.
template <class Found>
void for_each_cut(std::string_view text, Found found) {
  for (size_t at = code_point_at(text, 0).bytes; at < text.size(); at += code_point_at(text, at).bytes) found(at);
}

// All pairs of pieces that form a token. A piece is a token or a single character; characters without a token of their
// own are added to `pieces`.
std::vector<Merge> spm_merges_of(std::vector<std::string>& pieces, const std::vector<uint32_t>& ranks) {
  std::unordered_map<std::string, TokenId> letters;  // those added
  const size_t tokens = pieces.size();
  const PieceTable table(pieces);
  const auto find = [&](std::string_view text) {
    const TokenId id = table.find(text);
    if (id != PieceTable::none || text.size() != code_point_at(text, 0).bytes) return id;
    const auto [letter, is_new] = letters.try_emplace(std::string(text), TokenId(pieces.size()));
    if (is_new) pieces.emplace_back(text);
    return letter->second;
  };
  std::vector<Merge> out;
  for (TokenId id = 0; id < tokens; ++id) {
    if (pieces[id].empty()) continue;
    const std::string_view text = table[id];
    for_each_cut(text, [&](size_t at) {
      const Merge merge{find(text.substr(0, at)), find(text.substr(at)), id, ranks[id]};
      if (merge.left != PieceTable::none && merge.right != PieceTable::none) out.push_back(merge);
    });
  }
  return out;
}

// As llama.cpp finds them: where <0x09> is missing, the byte itself may be a token.
std::vector<TokenId> fallback_tokens(const Pipeline& pipeline) {
  std::vector<TokenId> tokens = byte_tokens(pipeline.ids);
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    if (tokens[byte] != no_token) continue;
    const auto found = pipeline.ids.find(std::string(1, char(byte)));
    if (found != pipeline.ids.end()) tokens[byte] = found->second;
  }
  return tokens;
}

}  // namespace

Pipeline sentence_piece_pipeline(const Vocabulary& vocabulary) {
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = 1, .eos = 2, .add_bos = true});
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  pipeline.strip_first_space = prefix;

  std::vector<std::string> pieces(pipeline.tokens.size());
  bool words = true;  // no token extends beyond the end of a word, so words can be encoded one by one
  for (TokenId id = 0; id < pieces.size(); ++id) {
    TokenInfo& token = pipeline.tokens[id];
    if (!is_piece(token.type)) continue;
    pieces[id] = token.text;
    replace_spaces(token.bytes, block, " ");
    words = words && word_end(token.text, 0) == token.text.size();
  }
  BpeOptions options;
  options.characters = true;
  options.tokens = pieces.size();
  options.byte_tokens = fallback_tokens(pipeline);
  options.unknown = vocabulary.unknown.value_or(0);
  const std::vector<Merge> merges = spm_merges_of(pieces, ranks_of(vocabulary));

  pipeline.normalizers.push_back([prefix](Segment& segment) {
    if (prefix) segment.text.insert(0, 1, ' ');
    replace_spaces(segment.text, " ", block);
  });
  if (words)
    pipeline.splitters.push_back([](std::string_view text, bool, Pieces& out) {
      for (size_t at = 0, end = 0; at < text.size(); at = end) {
        end = word_end(text, at);
        out.add(text.substr(at, end - at));
      }
    });
  pipeline.model = make_bpe(std::move(pieces), merges, std::move(options), vocabulary.source);
  return pipeline;
}

// Nothing is split: all spaces are replaced before, and merges may go beyond them.
Pipeline gemma4_pipeline(const Vocabulary& vocabulary) {
  if (vocabulary.merges.empty()) throw Error("{}: there are no tokenizer.ggml.merges", vocabulary.source);
  // Files of the first converters say that there is no BOS, which these models need.
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = {}, .eos = {}, .always_bos = true});
  std::vector<std::string> pieces(pipeline.tokens.size()), parts(pipeline.tokens.size());
  for (TokenId id = 0; id < pieces.size(); ++id) {
    TokenInfo& token = pipeline.tokens[id];
    parts[id] = token.text;  // also of added tokens, which may be parts of others
    if (is_piece(token.type)) pieces[id] = token.text;
    if (is_piece(token.type) || token.type == TokenType::user_defined) replace_spaces(token.bytes, block, " ");
  }
  const std::vector<Merge> merges = merges_of(vocabulary, pipeline, PieceTable(parts), Spelling::plain);
  BpeOptions options;
  options.characters = true;
  options.fuse_unknown = true;
  options.byte_tokens = fallback_tokens(pipeline);
  options.unknown = vocabulary.unknown;
  options.skip_unknown = true;
  pipeline.normalizers.push_back([](Segment& segment) { replace_spaces(segment.text, " ", block); });
  pipeline.model = make_bpe(std::move(pieces), merges, std::move(options), vocabulary.source);
  return pipeline;
}

}  // namespace heddle::text
