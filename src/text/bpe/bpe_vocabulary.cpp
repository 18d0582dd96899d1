// GGUF's "gpt2": byte-level BPE, split by a named pre-tokenizer.
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/bpe/bpe_tables.h"
#include "text/bpe/byte_level.h"
#include "text/split/pre_tokenizer.h"
#include "text/tokenizer_vocabulary.h"

namespace heddle::text {

namespace {

// "a b": the two sides, as bytes. The first may begin with a space in vocabularies that do not spell them as U+0120.
std::pair<std::string, std::string> sides(const Vocabulary& vocabulary, size_t at) {
  const std::string_view merge = vocabulary.merges[at];
  const size_t space = merge.find(' ', 1);
  if (merge.empty() || space == std::string_view::npos)
    throw Error("{}: tokenizer.ggml.merges[{}] is {}; expected two tokens with a space between them", vocabulary.source,
                at, in_quotes(merge));
  const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
  return {byte_level_bytes(left).value_or(std::string(left)), byte_level_bytes(right).value_or(std::string(right))};
}

bool is_control(const TokenInfo& token) { return token.type == TokenType::control || token.type == TokenType::unknown; }

// Merges that would make a control token of plain text are left out.
std::vector<Merge> merges_of(const Vocabulary& vocabulary, const Pipeline& pipeline, const PieceTable& pieces) {
  std::vector<Merge> out;
  out.reserve(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto [left, right] = sides(vocabulary, i);
    const Merge merge{pieces.find(left), pieces.find(right), pieces.find(left + right), uint32_t(i)};
    for (const TokenId id : {merge.left, merge.right, merge.joined})
      if (id == PieceTable::none)
        throw Error("{}: tokenizer.ggml.merges[{}] is {}, but {} is no token", vocabulary.source, i,
                    in_quotes(vocabulary.merges[i]),
                    in_quotes(byte_level_spelling(id == merge.left    ? left
                                                  : id == merge.right ? right
                                                                      : left + right)));
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
  std::vector<std::string> parts(pipeline.tokens.size());  // tokens that are split off before may be parts of others
  for (TokenId id = 0; id < pieces.size(); ++id) {
    TokenInfo& token = pipeline.tokens[id];
    auto bytes = byte_level_bytes(token.text);
    if (!bytes) continue;
    parts[id] = *bytes;
    if (token.type != TokenType::normal && token.type != TokenType::unused) continue;
    token.bytes = *bytes;
    pieces[id] = std::move(*bytes);
  }
  const std::vector<Merge> merges = merges_of(vocabulary, pipeline, PieceTable(parts));
  pipeline.splitters = splitters(pre_tokenizer);
  BpeOptions options;
  options.ignore_merges = pre_tokenizer.ignore_merges;
  options.unknown = vocabulary.unknown;
  pipeline.model = make_bpe(std::move(pieces), merges, std::move(options), vocabulary.source);
  return pipeline;
}

}  // namespace heddle::text
