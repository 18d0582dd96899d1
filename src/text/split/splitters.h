// Splitters, which split a normalized text into pieces that are encoded one by one: the pre-tokenizers of Hugging
// Face's tokenizers, by their names there; and those of GGUF files (tokenizer.ggml.pre), for byte-level BPE.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline.h"
#include "text/split/regex.h"

namespace heddle::text {

// What becomes of the delimiters at which a text is split.
enum class Delimiters : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// `invert`: the pattern matches the pieces, not the delimiters.
Splitter split_splitter(Regex pattern, Delimiters delimiters, bool invert);
Splitter split_splitter(std::string pattern, Delimiters delimiters, bool invert);

enum class PrependScheme : uint8_t { always, never, first };
Splitter metaspace_splitter(std::string replacement, PrependScheme prepend, bool split);

Splitter white_space_splitter();        // "Whitespace": words, and runs of what is neither word nor space
Splitter white_space_split_splitter();  // "WhitespaceSplit"
Splitter punctuation_splitter(Delimiters delimiters);
Splitter digits_splitter(bool individual);
Splitter bert_splitter();
Splitter delimiter_splitter(char32_t delimiter);  // "CharDelimiterSplit"
Splitter fixed_length_splitter(size_t characters);

// "ByteLevel": bytes as visible characters, for vocabularies that spell them so.
Splitter byte_level_splitter();
// A space before a piece that does not begin with one.
Splitter prefix_space_splitter();

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
