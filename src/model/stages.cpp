#include "model/stages.h"

#include <algorithm>

#include "base/error.h"
#include "model/split.h"

namespace heddle::model {
namespace {

uint64_t bytes_of(const Matrix& matrix) { return matrix ? matrix.rows * matrix.row_bytes() : 0; }

uint64_t bytes_of(const Layer& layer) {
  uint64_t bytes = 0;
  for (const SublayerMatrix& one : matrices_of(layer)) bytes += bytes_of(*one.matrix);
  return bytes;
}

}  // namespace

std::vector<Stage> stages_of(const Model& model, uint32_t count) {
  const auto layers = uint32_t(model.layers.size());
  if (count == 0 || count > layers)
    throw Error("{}: expected 1 to {} stages, one for each layer, found {}", model.name, layers, count);
  if (count == 1) return {{0, layers}};
  for (const Layer& layer : model.layers)
    if (const std::string_view what = reads_beside_residual(layer); !what.empty())
      throw Error("{}: this model has {}: it cannot be divided into stages of layers", model.name, what);
  std::vector<uint64_t> sums{0};  // bytes before each layer
  for (const Layer& layer : model.layers) sums.push_back(sums.back() + bytes_of(layer));
  sums.back() += bytes_of(model.output);
  // Of stages that end before layer i: the bytes of the largest, and where the last of them begins.
  struct Best {
    uint64_t bytes = ~uint64_t(0);
    uint32_t first = 0;
  };
  std::vector<std::vector<Best>> best(count + 1, std::vector<Best>(layers + 1));
  best[0][0].bytes = 0;
  for (uint32_t stage = 1; stage <= count; ++stage)
    for (uint32_t end = stage; end <= layers; ++end)
      for (uint32_t first = stage - 1; first < end; ++first) {
        const uint64_t bytes = std::max(best[stage - 1][first].bytes, sums[end] - sums[first]);
        if (bytes < best[stage][end].bytes) best[stage][end] = {bytes, first};
      }
  std::vector<Stage> stages;
  for (uint32_t stage = count, end = layers; stage > 0; --stage) {
    const uint32_t first = best[stage][end].first;
    stages.insert(stages.begin(), Stage{first, end - first});
    end = first;
  }
  return stages;
}

Model stage_of(const Model& model, const Stage& stage) {
  check(stage.count > 0 && stage.first + stage.count <= model.layers.size(), "a stage of the model's layers");
  Model part = frame_of(model);
  part.type_embeddings = model.type_embeddings;
  part.file = model.file;
  if (stage.first == 0) {
    part.embedding = model.embedding;
    part.positions = model.positions;
    part.embedding_norm = model.embedding_norm;
    part.token_inputs = model.token_inputs;
  }
  if (stage.first + stage.count == model.layers.size()) {
    part.output = model.output;
    part.output_parts = model.output_parts;
    part.output_bias = model.output_bias;
    part.dense = model.dense;
    part.classifier = model.classifier;
  }
  part.layers.assign(model.layers.begin() + stage.first, model.layers.begin() + stage.first + stage.count);
  return part;
}

}  // namespace heddle::model
