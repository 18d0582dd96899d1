// What a tokenizer consists of. The text is split at added tokens; each part is normalized, split into pieces, and each
// piece is turned into ids by the model. Every token knows the bytes it stands for, so decoding is joining them.
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

// A part between added tokens. `first`: nothing of the text comes before it.
struct Part {
  std::string text;
  bool first = false;
};
using Normalizer = std::function<void(Part&)>;

// Pieces in order: views, because there is one for every word of a text.
class Pieces {
 public:
  // `piece` lies in what the splitter was given, or is what keep() returned. Empty pieces are left out.
  void add(std::string_view piece) {
    if (!piece.empty()) views_.push_back(piece);
  }
  // For text that a splitter made (Metaspace): it lives as long as these pieces.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  const std::vector<std::string_view>& views() const { return views_; }
  void clear_views() { views_.clear(); }

 private:
  std::vector<std::string_view> views_;
  std::deque<std::string> kept_;  // a deque, because views into short strings must stay valid
};
// Splits `piece` and adds what it is split into. `first`: nothing of the text comes before it. Called for the whole
// part, or for every piece of the splitter before.
using Splitter = std::function<void(std::string_view piece, bool first, Pieces& out)>;

struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool special = false;                 // recognised only where the text may name special tokens, left out by decode
  bool normalized = false;              // looked for after normalization, not before
  bool lstrip = false, rstrip = false;  // takes white space beside it with it
  bool single_word = false;             // not inside a word
};

struct TokenInfo {
  std::string text;   // as the vocabulary spells it
  std::string bytes;  // as it appears in decoded text
  TokenType type = TokenType::normal;
};

struct Pipeline {
  std::vector<TokenInfo> tokens;
  std::unordered_map<std::string, TokenId> ids;  // by TokenInfo::text
  bool has(std::string_view text) const { return ids.contains(std::string(text)); }
  std::vector<AddedToken> added;
  std::vector<Normalizer> normalizers;
  std::vector<Splitter> splitters;  // applied one after the other, each to every piece of the one before
  std::unique_ptr<const Model> model;
  std::vector<TokenId> prefix, suffix;  // BOS and EOS where the model wants them
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_tokens;  // tokens that end a completion, each once
  bool strip_first_space = false;   // decoding: the space that encoding put before the text goes
  bool clean_up_spaces = false;     // decoding, WordPiece: " ." becomes "."
  // Decoding: what a token stands for as the first of a text, where strip_first_space does not say it (Metaspace drops
  // every space of the first token). From tokenizer.json only; nearly always empty.
  std::unordered_map<TokenId, std::string> first_bytes;
};

}  // namespace heddle::text
