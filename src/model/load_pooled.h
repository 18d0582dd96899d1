// What a checkpoint says of a text's pooled state: Dense modules, and the classifier of rerankers.
#pragma once
#include <functional>

#include "model/architectures.h"
#include "model/reader.h"

namespace heddle::model {

class PooledReader {
 public:
  // The keys, before Reader::finish_options().
  void read_options(Reader& read, const Architecture& architecture);
  // The tensors. norm(name, size): the norm of that name, as the architecture has norms.
  void read(Reader& read, Model& model, const std::function<Norm(const std::string&, uint64_t)>& norm) const;

 private:
  std::vector<Dense::Activation> dense_;  // of dense_2 and dense_3
  Dense::Activation classifier_dense_ = Dense::Activation::tanh;
  Classifier classifier_;  // what the keys say of it
};

}  // namespace heddle::model
