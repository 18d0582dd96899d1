// A Vocabulary (GGUF's terms) -> the Pipeline of its tokenizer, by model; and which tokens end a completion.
#pragma once
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/pipeline.h"
#include "text/vocabulary.h"

namespace heddle::text {

// Defaults of a model, for what the file leaves out. An id counts only if its token is a control token.
struct VocabularyDefaults {
  std::optional<TokenId> bos, eos;
  bool add_bos = false, add_eos = false;
  bool always_bos = false;  // whatever the file says
};

// Everything but normalizers, splitters and model: tokens (the bytes of "<0x0A>" are that byte, those of others their
// text), ids, added tokens, BOS, EOS and end tokens. Checks sizes and ids; errors name vocabulary.source.
Pipeline begin_pipeline(const Vocabulary& vocabulary, const VocabularyDefaults& defaults);

Pipeline byte_level_pipeline(const Vocabulary& vocabulary);      // "gpt2": bpe/bpe_vocabulary.cpp
Pipeline sentence_piece_pipeline(const Vocabulary& vocabulary);  // "llama": bpe/bpe_vocabulary.cpp
Pipeline gemma4_pipeline(const Vocabulary& vocabulary);          // "gemma4": bpe/bpe_vocabulary.cpp
Pipeline unigram_pipeline(const Vocabulary& vocabulary);         // "t5": unigram.cpp
Pipeline word_piece_pipeline(const Vocabulary& vocabulary);      // "bert": wordpiece.cpp

// Fills pipeline.end_tokens from pipeline.tokens and pipeline.ids. Tokens known by their text become control tokens.
// `untyped`: the file gives no token types.
void add_end_tokens(Pipeline& pipeline, bool untyped, std::initializer_list<std::optional<TokenId>> named);

void add_end_token(Pipeline& pipeline, TokenId id);  // once

// The byte that "<0x0A>" names.
std::optional<uint8_t> named_byte(std::string_view text);
// The 256 tokens <0x00> to <0xFF>, no_token for those that are missing (Gemma has none for <0x09>); empty if all are.
std::vector<TokenId> byte_tokens(const std::unordered_map<std::string, TokenId>& ids);

// The template for two texts from the tokens for one: PREFIX first SUFFIX SEPARATOR second SUFFIX, all of type 0.
std::vector<PairPart> pair_template(const std::vector<TokenId>& prefix, const std::vector<TokenId>& suffix,
                                    std::optional<TokenId> separator);

}  // namespace heddle::text
