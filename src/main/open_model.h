// From a checkpoint to what speaks its language: the one place where files and text meet.
#pragma once
#include "formats/checkpoint.h"
#include "text/tokenizer.h"

namespace heddle {

// The tokenizer of a model, from GGUF metadata or from tokenizer.json; an Error if the model has none.
text::Tokenizer open_tokenizer(const formats::Checkpoint& checkpoint);

}  // namespace heddle
