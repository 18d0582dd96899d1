// Pre-tokenizers by the names that GGUF files give them (tokenizer.ggml.pre): how byte-level BPE splits a text first.
#pragma once
#include <string_view>
#include <vector>

#include "text/pipeline.h"

namespace heddle::text {

struct PreTokenizer {
  std::vector<std::string_view> patterns;  // applied in turn; matches and what is between them are pieces
  bool ignore_merges = false;              // a piece that is a token is not merged
  bool add_bos = false;                    // the default where the file has none
  std::vector<std::string_view> names;
};

const std::vector<PreTokenizer>& pre_tokenizers();
// Throws an Error that begins with `source` and lists the known names. An empty name is "default": old files
// have none.
const PreTokenizer& find_pre_tokenizer(std::string_view name, std::string_view source);

std::vector<Splitter> splitters(const PreTokenizer& pre_tokenizer);

}  // namespace heddle::text
