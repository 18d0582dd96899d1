// Splitters: how a normalized text falls into pieces, each encoded on its own. Those of Hugging Face's tokenizers by
// their names there ("pre-tokenizers").
#pragma once
#include <cstddef>
#include <string>

#include "text/pipeline.h"
#include "text/split/regex.h"

namespace heddle::text {

// What becomes of the places where a text is split.
enum class Delimiters : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// `invert`: the pattern says what the pieces are, not what stands between them.
Splitter split_splitter(Regex pattern, Delimiters delimiters, bool invert);
Splitter split_splitter(std::string pattern, Delimiters delimiters, bool invert);

enum class PrependScheme : uint8_t { always, never, first };
Splitter metaspace_splitter(std::string replacement, PrependScheme prepend, bool split);

Splitter white_space_splitter();        // "Whitespace": words, and what is neither word nor space
Splitter white_space_split_splitter();  // "WhitespaceSplit"
Splitter punctuation_splitter(Delimiters delimiters);
Splitter digits_splitter(bool individual);
Splitter bert_splitter();
Splitter delimiter_splitter(char32_t delimiter);  // "CharDelimiterSplit"
Splitter fixed_length_splitter(size_t characters);

// "ByteLevel": the bytes as visible characters, for models whose vocabulary is spelt that way.
Splitter byte_level_splitter();
// A space before a piece that does not begin with one.
Splitter prefix_space_splitter();

}  // namespace heddle::text
