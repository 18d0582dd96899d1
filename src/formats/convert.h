// What a model says of itself beside its architecture: the general.* keys of a new GGUF file.
#pragma once
#include "formats/checkpoint.h"

namespace heddle::formats {

// The checkpoint's metadata with general.type, general.name and general.size_label, and the chat templates of the
// folder. An Error for a class that heddle does not know. The vocabulary is the caller's to add.
Metadata converted_metadata(const Checkpoint& checkpoint);

}  // namespace heddle::formats
