// GGUF's "llama": SentencePiece's BPE. Neighbours are joined whose joined text is the token with the best score; spaces
// are written as U+2581, and characters without a token as bytes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/bpe/bpe_tables.h"
#include "text/tokenizer_vocabulary.h"

namespace heddle::text {

namespace {

constexpr std::string_view block = "\u2581";  // stands for a space

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

// Where a word ends: before a block after something else.
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

// Every way to join two pieces into a token. What is joined is a token or a single character: characters of tokens that
// are no tokens themselves are added to `pieces`.
std::vector<Merge> spm_merges_of(std::vector<std::string>& pieces, const std::vector<uint32_t>& ranks) {
  std::unordered_map<std::string, TokenId> letters;  // the added ones
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

}  // namespace

Pipeline sentence_piece_pipeline(const Vocabulary& vocabulary) {
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = 1, .eos = 2, .add_bos = true});
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  pipeline.strip_first_space = prefix;

  std::vector<std::string> pieces(pipeline.tokens.size());
  bool words = true;  // no token goes beyond the end of a word, so words can be encoded one by one
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
  options.byte_tokens = byte_tokens(pipeline);
  options.unknown = vocabulary.unknown.value_or(0);
  const std::vector<Merge> merges = spm_merges_of(pieces, ranks_of(vocabulary));

  pipeline.normalizers.push_back([prefix](Part& part) {
    if (prefix) part.text.insert(0, 1, ' ');
    replace_spaces(part.text, " ", block);
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

}  // namespace heddle::text
