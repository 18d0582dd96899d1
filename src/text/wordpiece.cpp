// Longest matches in a trie: a word costs its length times that of the longest token. And the pipeline of GGUF's
// "bert", where tokens that begin a word are marked with U+2581 and those that continue one are bare.
#include "text/wordpiece.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalize/normalizers.h"
#include "text/split/splitters.h"
#include "text/token_trie.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {
namespace {

using Listed = std::vector<std::pair<std::string_view, TokenId>>;

Listed beginning(const std::vector<std::string>& tokens) {
  Listed list;
  for (TokenId id = 0; id < tokens.size(); ++id) list.emplace_back(tokens[id], id);
  return list;
}

Listed continuing(const std::vector<std::string>& tokens, std::string_view prefix) {
  Listed list;
  for (TokenId id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (token.substr(0, prefix.size()) == prefix) list.emplace_back(token.substr(prefix.size()), id);
  }
  return list;
}

[[noreturn]] void throw_unknown(std::string_view word) {
  throw Error("no token for \"{}\", and the vocabulary has no unknown token", replace_invalid_utf8(word.substr(0, 80)));
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += code_point_at(text, at).bytes;
  return count;
}

class WordPiece : public Model {
 public:
  WordPiece(const std::vector<std::string>& tokens, WordPieceOptions options)
      : options_(std::move(options)),
        beginning_(beginning(tokens)),
        continuing_(continuing(tokens, options_.continuation)) {}

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (piece.empty()) return;
    const size_t first = out.size();
    if (options_.begin.empty() ? match(piece, out) : match(options_.begin + std::string(piece), out)) return;
    out.resize(first);
    if (!options_.unknown) throw_unknown(piece);
    out.push_back(*options_.unknown);
  }

 private:
  bool match(std::string_view word, std::vector<TokenId>& out) const {
    if (word.size() > options_.max_characters && count_characters(word) > options_.max_characters) return false;
    for (size_t at = 0; at < word.size();) {
      const auto [length, id] = (at == 0 ? beginning_ : continuing_).longest_prefix(word.substr(at));
      if (length == 0) return false;
      out.push_back(id);
      at += length;
    }
    return true;
  }

  WordPieceOptions options_;
  TokenTrie beginning_, continuing_;
};

class WordLevel : public Model {
 public:
  WordLevel(const std::vector<std::string>& tokens, std::optional<TokenId> unknown) : unknown_(unknown) {
    for (TokenId id = 0; id < tokens.size(); ++id)
      if (!tokens[id].empty()) ids_.insert_or_assign(tokens[id], id);
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (piece.empty()) return;
    const auto found = ids_.find(std::string(piece));
    if (found == ids_.end() && !unknown_) throw_unknown(piece);
    out.push_back(found == ids_.end() ? *unknown_ : found->second);
  }

 private:
  std::unordered_map<std::string, TokenId> ids_;
  std::optional<TokenId> unknown_;
};

}  // namespace

std::unique_ptr<const Model> make_wordpiece(const std::vector<std::string>& tokens, WordPieceOptions options) {
  return std::make_unique<const WordPiece>(tokens, std::move(options));
}

std::string clean_up_spaces(std::string_view text) {
  const auto begins = [](std::string_view rest, std::initializer_list<std::string_view> with) {
    return std::any_of(with.begin(), with.end(), [&](std::string_view one) { return rest.starts_with(one); });
  };
  std::string punctuated;
  for (size_t i = 0; i < text.size(); ++i)
    if (!begins(text.substr(i), {" .", " ?", " !", " ,"})) punctuated.push_back(text[i]);
  std::string quoted;  // a lone apostrophe loses the spaces on both sides
  for (size_t i = 0; i < punctuated.size(); ++i) {
    const bool lone = punctuated.compare(i, 3, " ' ") == 0;
    quoted.push_back(lone ? '\'' : punctuated[i]);
    if (lone) i += 2;
  }
  std::string out;
  for (size_t i = 0; i < quoted.size(); ++i)
    if (!begins(std::string_view(quoted).substr(i), {" 's", " 'm", " 're", " 've"})) out.push_back(quoted[i]);
  return out;
}

std::unique_ptr<const Model> make_word_level(const std::vector<std::string>& tokens, std::optional<TokenId> unknown) {
  return std::make_unique<const WordLevel>(tokens, unknown);
}

Pipeline word_piece_pipeline(const Vocabulary& vocabulary) {
  constexpr std::string_view mark = "\u2581";
  Pipeline pipeline = begin_pipeline(vocabulary, {.bos = TokenId(101), .add_bos = true});
  const TokenId separator = vocabulary.separator.value_or(102), unknown = vocabulary.unknown.value_or(100);
  for (const TokenId id : {separator, unknown})
    if (id >= pipeline.tokens.size())
      throw Error("{}: the special token {} is not among the {} tokens", vocabulary.source, id, pipeline.tokens.size());
  if (vocabulary.add_sep.value_or(true)) pipeline.suffix = {separator};
  pipeline.pair = pair_template(pipeline.prefix, {separator}, std::nullopt);
  for (size_t i = pipeline.pair.size() - 2; i < pipeline.pair.size(); ++i) pipeline.pair[i].type = 1;

  std::vector<std::string> tokens;
  for (TokenInfo& token : pipeline.tokens) {
    tokens.push_back(token.text);
    if (token.type == TokenType::normal && token.text.starts_with(mark))
      token.bytes = " " + token.text.substr(mark.size());
  }
  pipeline.model = make_wordpiece(tokens, {.unknown = unknown, .begin = std::string(mark)});
  const bool lower_case = vocabulary.lower_case.value_or(true);
  pipeline.normalizers.push_back(bert_normalizer(
      {.strip_accents = vocabulary.strip_accents.value_or(lower_case), .lower_case = lower_case, .gguf = true}));
  pipeline.splitters.push_back(bert_splitter());
  pipeline.strip_first_space = true;
  pipeline.clean_up_spaces = true;
  return pipeline;
}

}  // namespace heddle::text
