// The tokens that may still be picked, with their logits, and the steps of the chain that look at nothing else. Cuts
// are by value, so the whole list is never sorted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/sampling.h"

namespace heddle::engine {

// Always ascending by id; at first the whole vocabulary. Of equal logits, a cut keeps the lowest ids.
class Candidates {
 public:
  // Throws an Error if a logit is NaN or +infinity. `vocabulary` logits, at most 2^19 of them.
  void start(std::span<const float> logits);

  size_t size() const { return logits_.size(); }
  std::span<const float> logits() const { return logits_; }
  uint32_t id(size_t i) const { return every_id_ ? uint32_t(i) : ids_[i]; }
  float largest() const;    // logit; above -infinity
  size_t best() const;      // the first candidate with it
  size_t possible() const;  // how many are above -infinity

  // logit = by(logit), if the token is a candidate
  template <class F>
  void change(uint32_t token, F&& by) {
    const size_t i = find(token);
    if (i < size()) set(i, by(logits_[i]));
  }
  void heat(double temperature);  // logit = (logit - largest) / temperature

  // At the start: those with their bit set, (vocabulary / 32) words. An Error if there are none.
  void keep_allowed(std::span<const uint32_t> words);
  void keep_only(size_t i);
  void keep_largest(size_t count);
  void keep_from(float logit, size_t min_keep);  // those of at least this logit
  void keep(const std::vector<uint8_t>& which);  // (size)

  // e^(logit - largest) of every candidate (see weights_of), and their sum. Holds until the next change.
  double weigh();
  std::span<const float> weights() const { return weights_; }
  size_t draw(double part) const;  // the candidate at `part` (0 <= part < 1) of the weights' sum
  double entropy() const;          // of the weights, in nats

  // After weigh(): the fewest candidates with the smallest keys (lowest id among equals) that weigh at least `weight`,
  // or, if `more` is set, more than that.
  void keep_first(std::span<const uint32_t> keys, double weight, bool more, size_t min_keep);
  // After weigh(): the same with the largest logits first.
  void keep_most_likely(double weight, size_t min_keep);

 private:
  struct Bucket {
    double weight = 0;
    size_t count = 0;
  };

  size_t find(uint32_t token) const;  // size(): it is not a candidate
  void set(size_t i, float logit);
  void find_peaks();
  void keep_block(size_t from, size_t to, float logit, size_t& kept);

  bool every_id_ = true;         // candidate i is token i; ids_ is not used
  std::vector<uint32_t> ids_;    // (size)
  std::vector<float> logits_;    // (size)
  std::vector<float> peaks_;     // largest logit of every 64 candidates
  std::vector<float> weights_;   // (size)
  std::vector<double> sums_;     // weights of every 64 candidates
  double total_ = 0;             // of the weights
  std::vector<float> values_;    // scratch of the cuts
  std::vector<uint32_t> keys_;   // scratch
  std::vector<uint64_t> ranks_;  // scratch: key << 32 | index
  std::vector<Bucket> buckets_;  // scratch
  std::vector<uint8_t> which_;   // scratch
};

// The steps that do not look at earlier tokens. Each does nothing if its parameter is off.
void cut_top_n_sigma(Candidates& candidates, const Sampling& sampling);
void cut_top_k(Candidates& candidates, const Sampling& sampling);
void cut_typical_p(Candidates& candidates, const Sampling& sampling);
void cut_top_p(Candidates& candidates, const Sampling& sampling);
void cut_min_p(Candidates& candidates, const Sampling& sampling);
void cut_xtc(Candidates& candidates, const Sampling& sampling, double random);  // 0 <= random < 1
void apply_temperature(Candidates& candidates, const Sampling& sampling);
void cut_surprise(Candidates& candidates, const Sampling& sampling, float bits);  // mirostat: more than these bits

}  // namespace heddle::engine
