// A vocabulary as GGUF's metadata spells it (tokenizer.ggml.*), both ways.
#pragma once
#include "formats/checkpoint.h"
#include "text/vocabulary.h"

namespace heddle {

void put_vocabulary(formats::Metadata& metadata, const text::Vocabulary& vocabulary);

bool has_vocabulary(const formats::Checkpoint& checkpoint);

// From a GGUF file's metadata, or worked out from tokenizer.json. Throws an Error where there is neither, and for ids,
// counts and types that do not fit the tokens.
text::Vocabulary vocabulary_of(const formats::Checkpoint& checkpoint);

// The same with a token for each of the `rows` of the embedding: where a tokenizer has fewer, unused ones follow.
// An Error where it has more.
text::Vocabulary padded(text::Vocabulary vocabulary, uint64_t rows);

}  // namespace heddle
