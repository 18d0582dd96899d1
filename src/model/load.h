// A checkpoint -> a model. The table of architectures says which tensors and options it has.
#pragma once
#include "formats/checkpoint.h"
#include "model/backend.h"

namespace heddle::model {

struct LoadOptions {
  uint32_t context = 0;  // tokens of a sequence; 0: the context that the model was trained with
  // With the head for multi-token prediction (NextHead), if the checkpoint has one that heddle computes.
  bool next_head = false;
};

// An architecture or option that is not supported is refused by name before weights are read. The model keeps the
// checkpoint's files open.
Model load(formats::Checkpoint checkpoint, const LoadOptions& options = {});

}  // namespace heddle::model
