// tokenizer.json in GGUF's terms, for writing GGUF files: what llama.cpp's converter would write.
#pragma once
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace heddle::text {

// From the contents of tokenizer.json and tokenizer_config.json (may be empty); `source` names the folder in errors.
// What GGUF cannot express is an Error, except what other converters leave out as well: NFC before byte-level BPE,
// white space that added tokens strip, and the limit of 100 characters on a word of WordPiece.
Vocabulary vocabulary_from_json(std::string_view tokenizer, std::string_view config, const std::string& source);

}  // namespace heddle::text
