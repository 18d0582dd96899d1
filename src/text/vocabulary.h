// A tokenizer as GGUF stores it: plain data, from the metadata of a GGUF file or derived from tokenizer.json.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::text {

using TokenId = uint32_t;
constexpr TokenId no_token = ~TokenId(0);  // where a table of ids has a hole

enum class TokenType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };  // GGUF's numbers

struct Vocabulary {
  std::string source;  // the file, for errors
  std::string model;   // tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "gemma4" (the same
                       // with merges), "t5" (unigram), "bert" (WordPiece)
  std::string pre;     // tokenizer.ggml.pre: the pre-tokenizer's name; may be empty where the model has none
  std::vector<std::string> tokens;
  std::vector<float> scores;        // empty, or one per token
  std::vector<TokenType> types;     // empty (all normal), or one per token
  std::vector<std::string> merges;  // "a b", best first
  std::optional<TokenId> bos, eos, eot, eom, unknown, separator, padding, mask;
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix;
  std::optional<bool> lower_case, strip_accents;  // "bert"; by default both, and accents as lower_case says
  bool remove_extra_whitespaces = false;
  std::string precompiled_charsmap;  // SentencePiece's normalizer, as bytes
};

}  // namespace heddle::text
