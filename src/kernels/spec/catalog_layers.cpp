// The catalog's lines for the layer kernels.
#include "kernels/attention/heads.h"
#include "kernels/attention/kv_scatter.h"
#include "kernels/attention/rope.h"
#include "kernels/attention/softmax.h"
#include "kernels/layer/gate.h"
#include "kernels/layer/norm.h"
#include "kernels/layer/norm_add.h"
#include "kernels/layer/residual.h"
#include "kernels/layer/softcap_rows.h"
#include "kernels/mixture/mix.h"
#include "kernels/mixture/route.h"
#include "kernels/product/half_rows.h"
#include "kernels/product/q8_1.h"
#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"
#include "kernels/sample/step_advance.h"
#include "kernels/spec/entry.h"

namespace heddle::kernels {

void add_layer_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RmsNorm>());
  all.push_back(entry<LayerNorm>());
  all.push_back(entry<Rope>());
  all.push_back(preset<Gate>("silu_gate", "silu(gate) * up", {.act = Gate::silu}));
  all.push_back(preset<Gate>("gelu_gate", "gelu(gate) * up", {.act = Gate::gelu_tanh}));
  all.push_back(preset<Gate>("silu", "silu of rows", {.act = Gate::silu, .times_up = 0}));
  all.push_back(preset<Gate>("gelu", "gelu of rows", {.act = Gate::gelu_erf, .times_up = 0}));
  all.push_back(entry<Heads>());
  all.push_back(entry<NormAdd>());
  all.push_back(entry<Route>());
  all.push_back(entry<Mix>());
  all.push_back(entry<CausalSoftmax>());
  all.push_back(entry<KvScatter>());
  all.push_back(entry<QuantizeQ8_1>());
  all.push_back(entry<ResidualAdd>());
  all.push_back(entry<HalfRows>());
  all.push_back(entry<Argmax>());
  all.push_back(entry<Sample>());
  all.push_back(
      preset<Sample>("cluster_sample", "the same, a row shared by a cluster", {.splits = 16, .vec = 4}, "sm_90"));
  all.push_back(entry<SoftcapRows>());
  all.push_back(entry<StepAdvance>());
}

}  // namespace heddle::kernels
