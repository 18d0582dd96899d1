// A Vocabulary (GGUF's terms) -> the Pipeline of its tokenizer, by model.
#pragma once
#include "text/pipeline.h"
#include "text/vocabulary.h"

namespace heddle::text {

// What holds for a model where the file does not say. An id counts only if it is one of a control token.
struct VocabularyDefaults {
  std::optional<TokenId> bos, eos;
  bool add_bos = false, add_eos = false;
};

// Everything but normalizers, splitters and model: tokens (the bytes of "<0x0A>" are that byte, those of others their
// text), ids, added tokens, BOS and EOS, the ends. Checks sizes and ids; errors name vocabulary.source.
Pipeline begin_pipeline(const Vocabulary& vocabulary, const VocabularyDefaults& defaults);

Pipeline byte_level_pipeline(const Vocabulary& vocabulary);      // "gpt2": bpe_vocabulary.cpp
Pipeline sentence_piece_pipeline(const Vocabulary& vocabulary);  // "llama": spm_vocabulary.cpp
Pipeline unigram_pipeline(const Vocabulary& vocabulary);         // "t5"
Pipeline word_piece_pipeline(const Vocabulary& vocabulary);      // "bert"

// The byte that "<0x0A>" names.
std::optional<uint8_t> named_byte(std::string_view text);
// The 256 tokens <0x00> to <0xFF>, or nothing when one is missing.
std::vector<TokenId> byte_tokens(const Pipeline& pipeline);

}  // namespace heddle::text
