// There is no prefill and no decode: a batch has rows, and a row is a token at a position.
#include "model/forward.h"

namespace heddle::model {

void forward(const Model& model, Backend& backend, const Batch& batch) {
  backend.begin(batch);
  backend.embed();
  for (uint32_t i = 0; i < model.layers.size(); ++i) {
    backend.qkv(i);
    backend.attend(i);
    if (model.layers[i].parallel) backend.ffn_in(i);  // before the residual changes
    backend.output_add(i);
    if (!model.layers[i].parallel) backend.ffn_in(i);
    backend.ffn_out_add(i);
  }
  backend.logits();
}

}  // namespace heddle::model
