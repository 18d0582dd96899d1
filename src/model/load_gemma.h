// What Gemma 3n and 4 have beside other models: layers that share a KV cache, inputs of the token for each layer, and
// in 3n AltUp, Laurel and cutoffs of activations.
#pragma once
#include <string>
#include <vector>

#include "model/architectures.h"
#include "model/reader.h"

namespace heddle::model {

class GemmaReader {
 public:
  // The keys, before Reader::finish_options(). `windows`: of each layer, 0 where it has none.
  void read_options(Reader& read, const Architecture& architecture, const std::vector<uint32_t>& windows);
  // The tensors that belong to no layer.
  void read_ends(Reader& read, Model& model, float epsilon);
  // What comes to a layer that has its attention and its feed-forward or mixture.
  void finish_layer(Reader& read, const Model& model, Layer& to, uint32_t index, float epsilon);

  // Attention::shared_cache of a layer.
  uint32_t cache_of(uint32_t layer) const { return caches_.empty() ? 0 : caches_[layer]; }
  // Whether another layer fills the cache of this one.
  bool reads_cache(uint32_t layer) const { return layer >= first_reader_; }

 private:
  void read_caches(Reader& read, const std::vector<uint32_t>& windows);
  void put_altup(Reader& read, const Model& model, Layer& to, uint32_t index, float epsilon);
  void put_ends_of_altup(Reader& read, const Model& model, Layer& to, uint32_t index);

  uint32_t layers_ = 0, first_reader_ = UINT32_MAX, input_ = 0, streams_ = 0;
  std::vector<uint32_t> caches_;  // empty: every layer has its own
  std::vector<float> cutoffs_;    // of each layer; -infinity: none
};

}  // namespace heddle::model
