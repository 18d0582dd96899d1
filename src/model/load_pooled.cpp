#include "model/load_pooled.h"

#include <fmt/format.h>

#include "base/error.h"

namespace heddle::model {
namespace {

constexpr const char* dense_modules[] = {"dense_2", "dense_3"};

Dense::Activation dense_activation(Reader& read, std::string_view key, Dense::Activation usual) {
  using enum Dense::Activation;
  const std::string name = read.string(key, "");
  if (name.empty()) return usual;
  constexpr std::pair<std::string_view, Dense::Activation> known[] = {
      {"identity", identity}, {"tanh", tanh}, {"gelu", gelu}, {"relu", relu}, {"silu", silu}};
  for (const auto& [text, activation] : known)
    if (name == text) return activation;
  read.refuse(key, "identity, tanh, gelu, relu or silu");
}

Dense read_dense(Reader& read, const std::string& name, uint32_t cols, Dense::Activation activation) {
  Dense to{.activation = activation, .rows = read.rows(name + ".weight"), .cols = cols};
  if (to.rows > max_row) throw Error("tensor {}.weight: expected at most {} rows, found {}", name, max_row, to.rows);
  to.weight = decoded(read.matrix(name + ".weight", to.rows, cols));
  to.bias = read.vector_if(name + ".bias", to.rows);
  return to;
}

}  // namespace

void PooledReader::read_options(Reader& read, const Architecture& architecture) {
  for (const std::string name : dense_modules) {
    dense_.push_back(dense_activation(read, name + "_activation", Dense::Activation::identity));
    for (const char* size : {"_feat_in", "_feat_out"}) read.ignore({name + size});  // the tensors say it
  }
  // Only ModernBERT has a head of another kind.
  const bool modern = architecture.name == "modern-bert";
  classifier_.labels = read.strings("classifier.output_labels");
  const Pooling usual = modern ? Pooling::mean : architecture.encoder ? Pooling::cls : Pooling::last;
  classifier_.pooling = Pooling(
      read.integer("classifier.pooling_type", {uint32_t(Pooling::mean), uint32_t(Pooling::last)}, uint32_t(usual)));
  classifier_dense_ =
      dense_activation(read, "classifier.activation", modern ? Dense::Activation::gelu : Dense::Activation::tanh);
}

void PooledReader::read(Reader& read, Model& model,
                        const std::function<Norm(const std::string&, uint64_t)>& norm) const {
  uint32_t cols = model.width;
  for (size_t i = 0; i < dense_.size(); ++i)
    if (const std::string name = dense_modules[i]; read.has(name + ".weight"))
      cols = model.dense.emplace_back(read_dense(read, name, cols, dense_[i])).rows;

  const bool has_dense = read.has("cls.weight"), has_output = read.has("cls.output.weight");
  if (!has_dense && !has_output) return;
  Classifier& to = model.classifier.emplace(classifier_);
  cols = model.width;
  // Without a second product the first one has the labels.
  if (has_output && has_dense) {
    cols = to.dense.emplace(read_dense(read, "cls", cols, classifier_dense_)).rows;
    if (read.has("cls.norm.weight")) to.norm = norm("cls.norm", cols);
  }
  to.output = read_dense(read, has_output ? "cls.output" : "cls", cols, Dense::Activation::identity);
  if (!to.labels.empty() && to.labels.size() != to.output.rows)
    read.refuse("classifier.output_labels", fmt::format("{} names, as many as scores", to.output.rows));
}

}  // namespace heddle::model
