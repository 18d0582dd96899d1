// The half of Candidates that takes candidates away.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/error.h"
#include "engine/sampling/sampling_candidates.h"
#include "engine/sampling/sampling_lanes.h"

namespace heddle::engine {
namespace {

constexpr size_t cut_block = block_size;

// Unsigned integers in the order of the floats; -0 is +0.
uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

}  // namespace

void Candidates::keep_block(size_t from, size_t to, float logit, size_t& kept) {
  for (size_t i = from; i < to; ++i) {  // kept <= i: what is overwritten has been read
    const float x = logits_[i];
    ids_[kept] = id(i);
    logits_[kept] = x;
    kept += x >= logit;
  }
}

void Candidates::keep_from(float logit, size_t min_keep) {
  size_t enough = 0;
  for (size_t b = 0; b < peaks_.size() && enough < min_keep; ++b) enough += peaks_[b] >= logit;
  if (enough < min_keep) {  // too few blocks to be sure
    enough = size_t(std::count_if(logits_.begin(), logits_.end(), [&](float x) { return x >= logit; }));
    if (enough < min_keep) return keep_largest(min_keep);
  }
  if (every_id_) ids_.resize(size());
  size_t kept = 0;
  for (size_t b = 0; b < peaks_.size(); ++b)
    if (peaks_[b] >= logit) keep_block(b * cut_block, std::min(size(), (b + 1) * cut_block), logit, kept);
  every_id_ = false;
  ids_.resize(kept);
  logits_.resize(kept);
  find_peaks();
}

void Candidates::keep_only(size_t i) {
  const uint32_t only = id(i);
  const float logit = logits_[i];
  every_id_ = false;
  ids_.assign(1, only);
  logits_.assign(1, logit);
  find_peaks();
}

void Candidates::keep(const std::vector<uint8_t>& which) {
  if (every_id_) ids_.resize(size());
  size_t kept = 0;
  for (size_t i = 0; i < size(); ++i) {
    ids_[kept] = id(i);
    logits_[kept] = logits_[i];
    kept += which[i] != 0;
  }
  every_id_ = false;
  ids_.resize(kept);
  logits_.resize(kept);
  find_peaks();
}

void Candidates::keep_largest(size_t count) {
  if (count >= size()) return;
  check(count > 0, "at least one candidate is kept");
  const auto nth_largest = [&](const std::vector<float>& from) {
    values_ = from;
    std::nth_element(values_.begin(), values_.begin() + ptrdiff_t(count) - 1, values_.end(), std::greater<>());
    return values_[count - 1];
  };
  // At least `count` blocks have a peak as large as the count-th peak, so none of the largest is below it.
  if (count < peaks_.size()) keep_from(nth_largest(peaks_), 1);
  const float last = nth_largest(logits_);
  const auto above = size_t(std::count_if(logits_.begin(), logits_.end(), [&](float x) { return x > last; }));
  size_t equals = count - above;  // of those as large as the last, so many from the beginning
  which_.resize(size());
  for (size_t i = 0; i < size(); ++i) which_[i] = logits_[i] > last || (logits_[i] == last && equals && equals--);
  keep(which_);
}

void Candidates::keep_first(std::span<const uint32_t> keys, double weight, bool more, size_t min_keep) {
  const auto enough = [&](double sum, size_t count) {
    return count >= min_keep && (more ? sum > weight : sum >= weight);
  };
  // Buckets by the upper bits find the one where the cut is, and only that one is sorted. Sums are exact (see
  // weights_of): their order does not matter.
  constexpr uint32_t lower_bits = 19;  // of floats: 16 buckets from each power of two to the next
  const auto bucket_of = [&](size_t i) { return keys[i] >> lower_bits; };
  const auto rank_of = [&](size_t i) { return uint64_t(keys[i]) << 32 | i; };
  const bool sort_all = size() <= 512;  // 8192 buckets would be more work
  double sum = 0;
  size_t count = 0, at = 0;
  if (!sort_all) {
    buckets_.assign(1u << (32 - lower_bits), {});
    for (size_t i = 0; i < size(); ++i) {
      Bucket& bucket = buckets_[bucket_of(i)];
      bucket.weight += double(weights_[i]);
      ++bucket.count;
    }
    for (; at < buckets_.size() && !enough(sum + buckets_[at].weight, count + buckets_[at].count); ++at)
      sum += buckets_[at].weight, count += buckets_[at].count;
  }
  ranks_.clear();
  for (size_t i = 0; i < size(); ++i)
    if (sort_all || bucket_of(i) == at) ranks_.push_back(rank_of(i));
  if (ranks_.empty()) return;  // no bucket was enough: all stay
  std::sort(ranks_.begin(), ranks_.end());
  size_t last = 0;  // of the ranks, the last that is kept
  for (;; ++last) {
    sum += double(weights_[uint32_t(ranks_[last])]);
    if (enough(sum, ++count) || last + 1 == ranks_.size()) break;
  }
  which_.resize(size());
  for (size_t i = 0; i < size(); ++i) which_[i] = rank_of(i) <= ranks_[last];
  keep(which_);
}

void Candidates::keep_most_likely(double weight, size_t min_keep) {
  const float top = largest();
  // Most of a sharp distribution lies near its top: look there first, so that the exact cut has few candidates.
  for (const float depth : {4.f, 10.f}) {
    double sum = 0;
    size_t count = 0;
    for (size_t b = 0; b < peaks_.size(); ++b) {
      if (peaks_[b] < top - depth) continue;
      for (size_t i = b * cut_block; i < std::min(size(), (b + 1) * cut_block); ++i)
        sum += logits_[i] >= top - depth ? double(weights_[i]) : 0, count += logits_[i] >= top - depth;
    }
    if (sum < weight || count < min_keep) continue;
    keep_from(top - depth, 1);
    weigh();
    break;
  }
  // How many floats lie between: a difference would be rounded, and others would become equal.
  keys_.resize(size());
  for (size_t i = 0; i < size(); ++i) keys_[i] = ordered_bits(top) - ordered_bits(logits_[i]);
  keep_first(keys_, weight, false, min_keep);
}

}  // namespace heddle::engine
