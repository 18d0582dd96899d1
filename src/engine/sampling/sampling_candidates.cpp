// The plain passes over all candidates. The largest logit of every 64 is kept, so that a cut looks only into those
// blocks where something is left: of 128256 logits top-k 40 reads 2004 peaks and some 40 blocks.
#include "engine/sampling/sampling_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "engine/sampling/sampling_lanes.h"
#include "engine/sampling/sampling_math.h"

namespace heddle::engine {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr size_t block = block_size;

float peak_of(const float* x, size_t count) {
  return count == block ? peak_of_block(x) : peak_of_block(filled_up(x, count).data());
}

uint32_t count_bad(std::span<const float> logits) {
  uint32_t bad = 0;
  for (const float x : logits) bad += !(x <= std::numeric_limits<float>::max());
  return bad;
}

}  // namespace

void Candidates::start(std::span<const float> logits) {
  check(!logits.empty() && logits.size() <= (1u << 19), "1 to 2^19 logits");
  if (count_bad(logits)) {
    const auto nan = std::count_if(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
    throw Error("logits: expected finite numbers or -infinity, found {} NaN and {} +infinity among {}", nan,
                std::count(logits.begin(), logits.end(), infinity), logits.size());
  }
  every_id_ = true;
  logits_.assign(logits.begin(), logits.end());
  find_peaks();
}

void Candidates::find_peaks() {
  peaks_.clear();
  for (size_t from = 0; from < size(); from += block)
    peaks_.push_back(peak_of(&logits_[from], std::min(block, size() - from)));
}

float Candidates::largest() const {
  const float largest = *std::max_element(peaks_.begin(), peaks_.end());
  if (largest == -infinity) throw Error("logits: expected at least one above -infinity, found none");
  return largest;
}

size_t Candidates::best() const {
  const float best = largest();
  const size_t first = block * size_t(std::find(peaks_.begin(), peaks_.end(), best) - peaks_.begin());
  return size_t(std::find(logits_.begin() + ptrdiff_t(first), logits_.end(), best) - logits_.begin());
}

size_t Candidates::possible() const { return size() - size_t(std::count(logits_.begin(), logits_.end(), -infinity)); }

size_t Candidates::find(uint32_t token) const {
  if (every_id_) return std::min<size_t>(token, size());
  const auto found = std::lower_bound(ids_.begin(), ids_.end(), token);
  return found != ids_.end() && *found == token ? size_t(found - ids_.begin()) : size();
}

void Candidates::set(size_t i, float logit) {
  logits_[i] = logit;
  const size_t from = i / block * block;
  peaks_[i / block] = peak_of(&logits_[from], std::min(block, size() - from));
}

void Candidates::heat(double temperature) {
  // the difference first: a logit divided by a tiny temperature may be infinite, and infinity - infinity is NaN
  const float top = largest(), divisor = std::max(float(temperature), std::numeric_limits<float>::denorm_min());
  for (float& x : logits_) x = (x - top) / divisor;
  for (float& x : peaks_) x = (x - top) / divisor;
}

double Candidates::weigh() {
  const float top = largest();
  weights_.resize(size());
  sums_.resize(peaks_.size());
  const size_t whole = size() / block, rest = size() % block;
  for (size_t b = 0; b < whole; ++b) sums_[b] = weigh_block(&logits_[b * block], top, &weights_[b * block]);
  if (rest) {
    auto last = filled_up(&logits_[whole * block], rest);
    sums_[whole] = weigh_block(last.data(), top, last.data());
    std::copy_n(last.begin(), rest, &weights_[whole * block]);
  }
  total_ = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  return total_;
}

size_t Candidates::draw(double part) const {
  double left = part * total_;
  size_t b = 0;
  while (b + 1 < sums_.size() && left >= sums_[b]) left -= sums_[b++];
  // rounding of part * total_ may leave nothing behind the last weight: then it is the last that weighs anything
  size_t drawn = size();
  for (size_t i = b * block; i < size(); ++i) {
    if (weights_[i] == 0) continue;
    drawn = i;
    if (left < double(weights_[i])) return drawn;
    left -= double(weights_[i]);
  }
  return drawn < size() ? drawn : best();
}

double Candidates::entropy() const {
  // -sum p log p with p = w / total and log w = logit - largest
  const float top = largest();
  double mean = 0;
  for (size_t i = 0; i < size(); ++i)
    if (weights_[i] > 0) mean += double(weights_[i]) * double(logits_[i] - top);
  return std::max(0.0, log_of(total_) - mean / total_);
}

}  // namespace heddle::engine
