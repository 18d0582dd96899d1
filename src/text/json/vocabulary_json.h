// tokenizer.json in GGUF's terms, for writing GGUF files: what llama.cpp's converter would write.
#pragma once
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace heddle::text {

// The texts of tokenizer.json and (may be empty) tokenizer_config.json; `source` names the folder in errors. What GGUF
// has no words for is an Error, except where models are converted without it by everybody: NFC before byte-level BPE,
// the white space that added tokens take with them, the 100 characters that a word of WordPiece may have.
Vocabulary vocabulary_from_json(std::string_view tokenizer, std::string_view config, const std::string& source);

}  // namespace heddle::text
