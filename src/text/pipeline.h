// The stages of a tokenizer. The text is split at added tokens into segments; each segment is normalized and split into
// pieces, and the model turns each piece into ids. Every token knows its bytes, so decoding is concatenation.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace heddle::text {

class Model {
 public:
  virtual ~Model() = default;
  virtual void encode(std::string_view piece, std::vector<TokenId>& out) const = 0;  // appends; const and thread-safe
};

// The text between two added tokens.
struct Segment {
  std::string text;
  bool first = false;  // it is the beginning of the whole text
};
using Normalizer = std::function<void(Segment&)>;

// Pieces in order. Views, because there is one for every word of a text.
class Pieces {
 public:
  // `piece` is a part of the splitter's input, or a view that keep() returned. Empty pieces are skipped.
  void add(std::string_view piece) {
    if (!piece.empty()) views_.push_back(piece);
  }
  // Stores text that a splitter has changed (Metaspace) as long as these pieces live.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  const std::vector<std::string_view>& views() const { return views_; }
  void clear_views() { views_.clear(); }

 private:
  std::vector<std::string_view> views_;
  std::deque<std::string> kept_;  // a deque, because views into short strings must stay valid
};
// Splits `piece`, a segment or a piece of the previous splitter, and adds the results. `first`: it is the beginning of
// the whole text.
using Splitter = std::function<void(std::string_view piece, bool first, Pieces& out)>;

struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool special = false;                 // recognised only with EncodeOptions::parse_special; decode() skips it
  bool normalized = false;              // looked for after normalization instead of before
  bool lstrip = false, rstrip = false;  // also takes the white space beside it
  bool single_word = false;             // not inside a word
};

struct TokenInfo {
  std::string text;   // as the vocabulary spells it
  std::string bytes;  // as it appears in decoded text
  TokenType type = TokenType::normal;
};

// A part of the template for two texts: one of them, or a token between or around them.
struct PairPart {
  enum class Kind : uint8_t { first, second, token };
  Kind kind = Kind::token;
  TokenId token = 0;
  uint32_t type = 0;  // the token type (segment) of all tokens of this part
};

struct Pipeline {
  std::vector<TokenInfo> tokens;
  std::unordered_map<std::string, TokenId> ids;  // by TokenInfo::text
  bool has(std::string_view text) const { return ids.contains(std::string(text)); }
  std::vector<AddedToken> added;
  std::vector<Normalizer> normalizers;
  std::vector<Splitter> splitters;  // each is applied to every piece of the one before
  std::unique_ptr<const Model> model;
  std::vector<TokenId> prefix, suffix;  // added around a text: BOS and EOS where the model wants them
  std::vector<PairPart> pair;           // two texts in one sequence; empty: the model has no way to write them
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_tokens;  // tokens that end a completion, each once
  bool strip_first_space = false;   // decoding: remove the space that encoding put before the text
  bool clean_up_spaces = false;     // decoding, WordPiece: " ." becomes "."
  // Decoding: the bytes of a token at the beginning of a text, where they are not those of strip_first_space (Metaspace
  // drops every space of the first token). Only from tokenizer.json; nearly always empty.
  std::unordered_map<TokenId, std::string> first_bytes;
};

}  // namespace heddle::text
