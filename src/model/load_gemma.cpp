// The names of the tensors are those of GGUF.
#include "model/load_gemma.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace heddle::model {
namespace {

constexpr uint32_t max_streams = 16, max_input = 1 << 16;

Norm rms_norm(Reader& read, const std::string& name, uint64_t size, float epsilon) {
  return {Norm::Kind::rms, read.vector(name + ".weight", size), {}, epsilon};
}

}  // namespace

void GemmaReader::read_options(Reader& read, const Architecture& architecture, const std::vector<uint32_t>& windows) {
  layers_ = uint32_t(windows.size());
  if (architecture.shared_caches) read_caches(read, windows);
  if (architecture.token_inputs) input_ = read.integer("embedding_length_per_layer_input", {0, max_input}, 0);
  if (uint64_t(input_) * layers_ > max_row)
    read.refuse("embedding_length_per_layer_input", fmt::format("at most {} values for all layers", max_row));
  if (!architecture.altup) return;
  if (!input_) read.refuse("embedding_length_per_layer_input", "a number above 0");
  streams_ = read.integer("altup.num_inputs", {2, max_streams}, 4);
  read.integer("altup.active_idx", {0, 0}, 0);  // that all models have
  cutoffs_ = read.numbers_per_layer("activation_sparsity_scale", layers_, true);
}

// The last layers read the cache of the last one before them that has a window, or has none, as they do.
void GemmaReader::read_caches(Reader& read, const std::vector<uint32_t>& windows) {
  const uint32_t readers = read.integer("attention.shared_kv_layers", {0, layers_ - 1}, 0);
  if (!readers) return;
  first_reader_ = layers_ - readers;
  caches_.assign(layers_, 0);
  for (uint32_t layer = first_reader_; layer < layers_; ++layer) {
    uint32_t from = first_reader_;
    while (from > 0 && (windows[from - 1] != 0) != (windows[layer] != 0)) --from;
    if (from == 0)
      read.refuse("attention.shared_kv_layers",
                  fmt::format("fewer layers: no earlier layer {} a window has a KV cache that layer {} could share",
                              windows[layer] ? "with" : "without", layer));
    caches_[layer] = caches_[from - 1] = from;
  }
}

void GemmaReader::read_ends(Reader& read, Model& model, float epsilon) {
  if (!input_) return;
  TokenInputs& to = model.token_inputs.emplace();
  const uint64_t all = uint64_t(input_) * layers_;
  to.size = input_;
  to.embedding = read.matrix("per_layer_token_embd.weight", model.vocabulary, all);
  to.projection = read.matrix("per_layer_model_proj.weight", all, model.width);
  // The projection is divided by the root of the width: the same as this epsilon in the norm after it.
  to.norm = rms_norm(read, "per_layer_proj_norm", input_, epsilon * static_cast<float>(model.width));
  to.embedding_scale = std::sqrt(static_cast<float>(input_));
  to.scale = std::sqrt(0.5f);
}

void GemmaReader::finish_layer(Reader& read, const Model& model, Layer& to, uint32_t index, float epsilon) {
  const std::string blk = fmt::format("blk.{}.", index);
  if (streams_) put_altup(read, model, to, index, epsilon);
  if (input_) {
    FeedForward inputs;
    inputs.activation = Activation::gelu_tanh;
    inputs.gate = read.matrix(blk + "inp_gate.weight", input_, model.width);
    inputs.down = read.matrix(blk + "proj.weight", model.width, input_);
    inputs.output_norm = rms_norm(read, blk + "post_norm", model.width, epsilon);
    inputs.token_input = index;
    inputs.to_other_streams = streams_ != 0;
    if (const Vector scale = read.vector_if(blk + "altup_correct_scale.weight", model.width); !scale.empty())
      inputs.norm = {Norm::Kind::scale, scale, {}, 0};
    to.sublayers.emplace_back(std::move(inputs));
  }
  if (streams_) put_ends_of_altup(read, model, to, index);
  if (const Vector scale = read.vector_if(blk + "layer_output_scale.weight", 1); !scale.empty())
    to.output_scale = scale[0];
}

void GemmaReader::put_altup(Reader& read, const Model& model, Layer& to, uint32_t index, float epsilon) {
  const std::string blk = fmt::format("blk.{}.", index);
  const uint64_t width = model.width, streams = streams_;
  Laurel& laurel = to.get<Attention>().laurel.emplace();
  const uint32_t rank = read.rows(blk + "laurel_l.weight");
  laurel.down = read.matrix(blk + "laurel_l.weight", rank, width);
  laurel.up = read.matrix(blk + "laurel_r.weight", width, rank);
  laurel.norm = rms_norm(read, blk + "laurel_post_norm", width, epsilon);
  laurel.scale = std::sqrt(0.5f);
  if (cutoffs_[index] != -INFINITY) to.get<FeedForward>().cutoff = cutoffs_[index];

  Altup predict{.step = Altup::Step::predict, .others = streams_ - 1};
  predict.norm = rms_norm(read, blk + "altup_router_norm", width, epsilon);
  for (float& weight : predict.norm.weight) weight /= static_cast<float>(width);
  predict.router = decoded(read.matrix(blk + "altup_router.weight", streams, width));
  Altup correct = predict;
  correct.step = Altup::Step::correct;
  predict.coefficients = decoded(read.matrix(blk + "altup_predict_coef.weight", streams * streams, streams));
  correct.coefficients = decoded(read.matrix(blk + "altup_correct_coef.weight", streams, streams));
  to.sublayers.insert(to.sublayers.begin(), std::move(predict));
  to.sublayers.emplace_back(std::move(correct));
}

void GemmaReader::put_ends_of_altup(Reader& read, const Model& model, Layer& to, uint32_t index) {
  const auto end = [&](Altup::Step step, const char* tensor) {
    return Altup{.step = step,
                 .others = streams_ - 1,
                 .projections = read.experts(tensor, streams_ - 1, model.width, model.width)};
  };
  if (index == 0) to.sublayers.insert(to.sublayers.begin(), end(Altup::Step::begin, "altup_proj.weight"));
  if (index + 1 == layers_) to.sublayers.emplace_back(end(Altup::Step::end, "altup_unembd_proj.weight"));
}

}  // namespace heddle::model
