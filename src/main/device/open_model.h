// From a name on the command line to a model, and from that to what speaks its language: the one place where files and
// text meet.
#pragma once
#include "formats/checkpoint.h"
#include "text/tokenizer.h"

namespace heddle {

// A path; empty: the program's own model.
formats::Checkpoint open_model(const std::string& path);

// The tokenizer of a model, from GGUF metadata or from tokenizer.json; an Error if the model has none.
text::Tokenizer open_tokenizer(const formats::Checkpoint& checkpoint);

}  // namespace heddle
