// Splitters, which split a normalized text into pieces that are encoded one by one: the pre-tokenizers of Hugging
// Face's tokenizers, by their names there.
#pragma once
#include <cstddef>
#include <string>

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

}  // namespace heddle::text
