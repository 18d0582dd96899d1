// Text to token ids and back, with the same ids as the model's own tokenizer.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/ranges.h"
#include "text/vocabulary.h"

namespace heddle::text {

struct Pipeline;  // text/pipeline.h

struct EncodeOptions {
  bool add_special = true;                // BOS and EOS, as the model wants them
  bool parse_special = true;              // "<|im_start|>" in the text is that token; otherwise plain text
  std::span<const TextRange> plain = {};  // no special token reaches into these parts of the text; sorted
};

// Two texts in one sequence, as rerankers take a query and a document.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::vector<uint32_t> types;  // the token type (segment) of each id: BERT has 1 for the second text
};

class Tokenizer {
 public:
  // Throws an Error that names the source, the field, what was expected and what was found; for an unknown model or
  // pre-tokenizer it lists the known ones.
  static Tokenizer from_vocabulary(Vocabulary vocabulary);
  // From the contents of tokenizer.json, tokenizer_config.json and generation_config.json, which names further tokens
  // that end a completion (the latter two may be empty); `source` names the folder in errors.
  static Tokenizer from_json(std::string_view tokenizer, std::string_view config, const std::string& source,
                             std::string_view generation = {});

  explicit Tokenizer(Pipeline pipeline);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Takes any bytes. Thread-safe.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // With the model's special tokens between and around the texts: "[CLS] first [SEP] second [SEP]". The texts are
  // plain: no special token is found in them. Throws an Error if the tokenizer does not say how to join two texts.
  // Thread-safe.
  EncodedPair encode_pair(std::string_view first, std::string_view second) const;
  // Skips special tokens unless `special`. Bytes that are not UTF-8 stay as they are. Throws an Error for an id that is
  // not in the vocabulary.
  std::string decode(std::span<const TokenId> ids, bool special = false) const;

  size_t size() const;
  std::string_view text(TokenId id) const;   // as the vocabulary spells it ("<|eot_id|>", "\u0120the")
  std::string_view bytes(TokenId id) const;  // in a text (" the"); for a control token, its text
  bool is_special(TokenId id) const;         // control and unknown tokens: not part of a text
  std::optional<TokenId> find(std::string_view text) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  const std::vector<TokenId>& end_tokens() const;  // tokens that end a completion: EOS, end of turn, end of message
  const Pipeline& pipeline() const;
  // For constraints: what each of `count` tokens adds to a text, wherever it stands in it. Empty for tokens that are no
  // part of a text: control and unused ones, those that end a completion, and those beyond the vocabulary. An Error for
  // WordPiece, which changes the text after tokens are joined.
  std::vector<std::string> generated_texts(size_t count) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Sequence breakers of DRY sampling: texts that end a repetition, as sequences of tokens.
std::vector<std::string> default_dry_breakers();  // a newline, ":", "\"" and "*"

// The token sequences in which the texts may occur: a token that contains the text, or one that ends with a prefix of
// it followed by the tokens of the rest. Each sequence once. No text may be empty. Goes through the whole vocabulary.
std::vector<std::vector<TokenId>> dry_breaker_tokens(const std::vector<std::string>& texts, const Tokenizer& tokenizer);

}  // namespace heddle::text
