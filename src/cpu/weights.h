// All weights of a model as this backend wants them.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "cpu/pack.h"
#include "cpu/pages.h"
#include "cpu/team.h"

namespace heddle::cpu {

struct LayerWeights {
  const Weights *q = nullptr, *k = nullptr, *v = nullptr, *output = nullptr;
  const Weights *gate = nullptr, *up = nullptr, *down = nullptr, *router = nullptr;  // null: none
  std::vector<const Weights*> gate_experts, up_experts, down_experts;
};

class ModelWeights {
 public:
  // Packs on the team's threads and gives the pages of the file back as it goes. `progress` may be empty.
  ModelWeights(const model::Model& model, const Isa& isa, bool exact, Team& team,
               const std::function<void(uint64_t, uint64_t)>& progress = {});
  ModelWeights(const ModelWeights&) = delete;
  ModelWeights& operator=(const ModelWeights&) = delete;

  std::vector<LayerWeights> layers;
  const Weights* output = nullptr;
  const Weights* embedding = nullptr;  // null where the output is another matrix: then rows are read from the file
  const std::deque<Weights>& all() const { return all_; }
  uint64_t packed_bytes() const { return arena_.bytes(); }

 private:
  const Weights* add(const model::Matrix& matrix);
  std::vector<const Weights*> add(const model::Experts& experts);

  const Isa& isa_;
  bool exact_;
  std::deque<Weights> all_;
  std::deque<model::Matrix> sources_;
  std::map<const uint8_t*, const Weights*> known_;  // tied weights are packed once
  Pages arena_;
};

}  // namespace heddle::cpu
