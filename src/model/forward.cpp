// There is no prefill and no decode: a batch has rows, and a row is a token at a position.
#include "model/forward.h"

namespace heddle::model {

void forward(const Model& model, Backend& backend, const Batch& batch) {
  backend.begin(batch);
  if (batch.predicts) {
    run_next_head(model, backend);
  } else {
    backend.embed();
    run_layers(model, backend);
  }
  if (!batch.states.empty()) backend.keep_states();
  backend.head();
}

}  // namespace heddle::model
