// From a name on the command line to a model file, and from that to its tokenizer: the one place where `formats` and
// `text` meet.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "formats/checkpoint.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace heddle {

// The small model inside the program.
inline constexpr const char* own_model_name = "weft";
std::span<const uint8_t> own_model();  // a GGUF file

// A path, the name of a model in one of the stores (find_model()), or "weft" for the model inside the program (a file
// of that name is ./weft).
formats::Checkpoint open_model(const std::string& name);

// For what needs only the tokenizer and the chat templates: a folder with a tokenizer.json and without GGUF files is
// not read further, so that it may be of any class, and needs no weights.
formats::Checkpoint open_texts(const std::string& name);
// An Error unless heddle knows the class or architecture. To be asked first: a tokenizer that is not known either is
// not what is wrong.
void expect_known_architecture(const formats::Checkpoint& checkpoint);

// Tokens of context that the model was trained for; 0: the file does not say.
uint64_t trained_context(const formats::Checkpoint& checkpoint);

// The tokenizer of a model, from GGUF metadata or from tokenizer.json; an Error if the model has none.
text::Tokenizer open_tokenizer(const formats::Checkpoint& checkpoint);
bool has_vocabulary(const formats::Checkpoint& checkpoint);

// From GGUF metadata (tokenizer.ggml.*), or derived from tokenizer.json. Throws an Error if there is neither, and for
// ids, counts and types that do not fit the tokens.
text::Vocabulary vocabulary_of(const formats::Checkpoint& checkpoint);
void put_vocabulary(formats::Metadata& metadata, const text::Vocabulary& vocabulary);

// With a token for each of the `rows` of the embedding: unused ones follow if the tokenizer has fewer. An Error if it
// has more.
text::Vocabulary padded(text::Vocabulary vocabulary, uint64_t rows);

// Throws an Error that names the first difference if a draft's tokens are not those of the model. Tokens that only one
// of them has are not compared: the sizes of embeddings are, where both are known.
void expect_same_vocabulary(const formats::Checkpoint& model, const formats::Checkpoint& draft);

}  // namespace heddle
