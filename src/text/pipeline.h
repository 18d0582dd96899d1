// What a tokenizer consists of. The text is split at added tokens; each part is normalized, split into pieces, and each
// piece is turned into ids by the model. Every token knows the bytes it stands for, so decoding is joining them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/vocabulary.h"

namespace heddle::text {

class Model {
 public:
  virtual ~Model() = default;
  virtual void encode(std::string_view piece, std::vector<Id>& out) const = 0;  // appends; const and thread-safe
};

// A part between added tokens. `first`: nothing of the text comes before it.
struct Part {
  std::string text;
  bool first = false;
};
using Normalizer = std::function<void(Part&)>;
// Splits `text` and calls `piece` for each piece in order. A splitter that changes the text (Metaspace) owns what it
// passes for the time of the call.
using Splitter = std::function<void(const Part& part, const std::function<void(std::string_view)>& piece)>;

struct AddedToken {
  std::string text;
  Id id = 0;
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
  std::unordered_map<std::string, Id> ids;  // by TokenInfo::text
  std::vector<AddedToken> added;
  std::vector<Normalizer> normalizers;
  std::vector<Splitter> splitters;  // applied one after the other, each to every piece of the one before
  std::unique_ptr<const Model> model;
  std::vector<Id> prefix, suffix;  // BOS and EOS where the model wants them
  std::optional<Id> bos, eos;
  std::vector<Id> ends;
  bool strip_first_space = false;  // decoding: the space that encoding put before the text goes
  bool clean_up_spaces = false;    // decoding, WordPiece: " ." becomes "."
};

}  // namespace heddle::text
