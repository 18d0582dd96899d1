// All weights of a model, packed while loading or when they are used.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "cpu/cpu.h"
#include "cpu/pack.h"
#include "cpu/pages.h"
#include "cpu/team.h"

namespace heddle::cpu {

// The packed weights of a sublayer, beside what the model says of it.
struct AttentionWeights {
  const model::Attention* model;
  uint32_t index;  // as each_attention() counts: its KV cache and its rotation have the same index
  const Weights *q, *k, *v, *output, *gate;  // gate: null where there is none
  // Of latent attention, which has no k and v.
  const Weights *q_down, *kv_down;
  std::vector<const Weights*> k_up, v_up;  // of each head
  const Weights *laurel_down, *laurel_up;  // null: there is none
};
struct FeedForwardWeights {
  const model::FeedForward* model;
  const Weights *gate, *up, *down;  // gate: null where the sublayer has none
};
struct MixtureWeights {
  const model::Mixture* model;
  const Weights* router;
  std::vector<const Weights*> gate, up, down;  // of each expert; gate: null where they have none
  const Weights *latent_down, *latent_up;      // null where there are none
  std::optional<FeedForwardWeights> shared;
};
struct RecurrenceWeights {
  const model::Recurrence* model;
  const Weights *mixed, *gate, *steps, *betas, *output;  // betas: null where there are none
};
struct ShortConvolutionWeights {
  const model::ShortConvolution* model;
  const Weights *in, *output;
};
struct AltupWeights {
  const model::Altup* model;
  std::vector<const Weights*> projections;
};
struct NextHeadWeights {
  const model::NextHead* model;
  const Weights* join;
};
using SublayerWeights = std::variant<AttentionWeights, FeedForwardWeights, MixtureWeights, RecurrenceWeights,
                                     ShortConvolutionWeights, AltupWeights, NextHeadWeights>;

class ModelWeights {
 public:
  // Packs on the team's threads and gives the pages of the file back as it goes; or leaves all weights in the file.
  ModelWeights(const model::Model& model, const Isa& isa, const Options& options, Team& team);
  ModelWeights(const ModelWeights&) = delete;
  ModelWeights& operator=(const ModelWeights&) = delete;

  std::vector<std::vector<SublayerWeights>> layers;
  const Weights* output = nullptr;
  const Weights* token_inputs = nullptr;  // their projection
  const Weights* embedding = nullptr;     // null where the output is another matrix: its rows are read from the file
  const std::deque<Weights>& all() const { return all_; }
  const Pages& packed() const { return arena_; }

 private:
  const Weights* add(const model::Matrix& matrix);
  std::vector<const Weights*> add(const model::Experts& experts);
  AttentionWeights add(const model::Attention& attention);
  FeedForwardWeights add(const model::FeedForward& feed_forward);
  MixtureWeights add(const model::Mixture& mixture);
  RecurrenceWeights add(const model::Recurrence& recurrence);
  ShortConvolutionWeights add(const model::ShortConvolution& convolution);
  AltupWeights add(const model::Altup& altup);
  NextHeadWeights add(const model::NextHead& head);

  void pack(const Options& options, Team& team);

  const Isa& isa_;
  bool exact_;
  uint32_t attentions_ = 0;
  std::deque<Weights> all_;
  std::deque<model::Matrix> sources_;
  std::map<const uint8_t*, const Weights*> known_;  // tied weights are packed once
  Pages arena_;
};

}  // namespace heddle::cpu
