// The catalog's lines for the layer kernels.
#include "kernels/argmax.h"
#include "kernels/entry.h"
#include "kernels/gate.h"
#include "kernels/kv_scatter.h"
#include "kernels/norm.h"
#include "kernels/q8_1.h"
#include "kernels/residual.h"
#include "kernels/rope.h"
#include "kernels/sample.h"
#include "kernels/sample_penalties.h"
#include "kernels/softmax.h"

namespace heddle::kernels {

void add_layer_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RmsNorm>());
  all.push_back(entry<LayerNorm>());
  all.push_back(entry<Rope>());
  all.push_back(preset<Gate>("silu_gate", "silu(gate) * up", {.act = Gate::silu}));
  all.push_back(preset<Gate>("gelu_gate", "gelu(gate) * up", {.act = Gate::gelu_tanh}));
  all.push_back(preset<Gate>("silu", "silu of rows", {.act = Gate::silu, .times_up = 0}));
  all.push_back(preset<Gate>("gelu", "gelu of rows", {.act = Gate::gelu_erf, .times_up = 0}));
  all.push_back(entry<CausalSoftmax>());
  all.push_back(entry<KvScatter>());
  all.push_back(entry<QuantizeQ8_1>());
  all.push_back(entry<QuantizeQ8_16>());
  all.push_back(entry<ResidualAdd>());
  all.push_back(entry<Argmax>());
  all.push_back(entry<ApplyPenalties>());
  all.push_back(entry<Sample>());
}

}  // namespace heddle::kernels
