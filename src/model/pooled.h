// What a model makes of a text's pooled state, on the host: the embedding, or the scores of labels.
#pragma once
#include <span>
#include <vector>

#include "model/model.h"

namespace heddle::model {

// Which states of a text are pooled for its embedding, or for the scores of the classifier.
inline Pooling pooling_of(const Model& model, bool scores) {
  if (scores && model.classifier) return model.classifier->pooling;
  return model.pooling;
}

// Through the Dense modules. Not normalised.
std::vector<float> embedding_of(const Model& model, std::vector<float> pooled);
// Of each label, as the classifier leaves it: a logit. The model has a classifier.
std::vector<float> label_logits(const Model& model, std::vector<float> pooled);
// How well the two texts match, from 0 to 1: of one label the sigmoid of its logit, of "yes" and "no" the probability
// of the first against the second.
float rank_score(std::span<const float> logits);
// An Error unless the model has a classifier whose labels make a rank_score().
void expect_ranks(const Model& model);

// Scaled to a length of 1; zeros stay as they are.
std::vector<float> with_length_1(std::span<const double> values);

}  // namespace heddle::model
