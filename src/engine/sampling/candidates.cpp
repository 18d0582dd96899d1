// Passes over all candidates. The largest logit of every 64 is kept, so a cut looks only into the blocks where
// something is left: of 128256 logits, top-k 40 reads 2004 peaks and about 40 blocks.
#include "engine/sampling/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "engine/sampling/numbers.h"

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

// Unsigned integers in the order of the floats; -0 is +0.
uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
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
  // part * total_ may be rounded beyond the last weight: then the last candidate with a weight is drawn
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
    if (peaks_[b] >= logit) keep_block(b * block, std::min(size(), (b + 1) * block), logit, kept);
  every_id_ = false;
  ids_.resize(kept);
  logits_.resize(kept);
  find_peaks();
}

void Candidates::keep_allowed(std::span<const uint32_t> words) {
  check(every_id_ && words.size() == (size() + 31) / 32, "a bit for each token");
  ids_.clear();
  for (size_t w = 0; w < words.size(); ++w)
    for (uint32_t left = words[w]; left; left &= left - 1) {
      const auto token = uint32_t(w * 32) + uint32_t(std::countr_zero(left));
      check(token < size(), "bits of tokens alone");
      logits_[ids_.size()] = logits_[token];
      ids_.push_back(token);
    }
  if (ids_.empty()) throw Error("expected a token that may be picked, found none that the constraint allows");
  every_id_ = false;
  logits_.resize(ids_.size());
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
  size_t equals = count - above;  // of those as large as the last, this many are kept, from the beginning
  which_.resize(size());
  for (size_t i = 0; i < size(); ++i) which_[i] = logits_[i] > last || (logits_[i] == last && equals && equals--);
  keep(which_);
}

void Candidates::keep_first(std::span<const uint32_t> keys, double weight, bool more, size_t min_keep) {
  const auto enough = [&](double sum, size_t count) {
    return count >= min_keep && (more ? sum > weight : sum >= weight);
  };
  // Buckets by the upper bits of the keys: only the one with the cut is sorted. Sums are exact (see weights_of), so
  // their order does not matter.
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
    for (; at < buckets_.size() && !enough(sum + buckets_[at].weight, count + buckets_[at].count); ++at) {
      sum += buckets_[at].weight;
      count += buckets_[at].count;
    }
  }
  ranks_.clear();
  for (size_t i = 0; i < size(); ++i)
    if (sort_all || bucket_of(i) == at) ranks_.push_back(rank_of(i));
  if (ranks_.empty()) return;  // all buckets together are not enough: all are kept
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
  // Most of a sharp distribution lies near its top: it is looked at first, so that the exact cut has few candidates.
  for (const float depth : {4.f, 10.f}) {
    double sum = 0;
    size_t count = 0;
    for (size_t b = 0; b < peaks_.size(); ++b) {
      if (peaks_[b] < top - depth) continue;
      for (size_t i = b * block; i < std::min(size(), (b + 1) * block); ++i) {
        sum += logits_[i] >= top - depth ? double(weights_[i]) : 0;
        count += logits_[i] >= top - depth;
      }
    }
    if (sum < weight || count < min_keep) continue;
    keep_from(top - depth, 1);
    weigh();
    break;
  }
  // The key is the number of floats between: a difference would be rounded, and different logits become equal.
  keys_.resize(size());
  for (size_t i = 0; i < size(); ++i) keys_[i] = ordered_bits(top) - ordered_bits(logits_[i]);
  keep_first(keys_, weight, false, min_keep);
}

void cut_top_n_sigma(Candidates& candidates, const Sampling& s) {
  if (s.top_n_sigma <= 0 || candidates.size() <= 1) return;
  const float top = candidates.largest();
  const auto logits = candidates.logits();
  // Distances from the largest, so that squares are small; -infinity does not count.
  double sum[8] = {}, squares[8] = {};
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool counts = logits[i] >= std::numeric_limits<float>::lowest();
    const double x = counts ? double(logits[i] - top) : 0;
    sum[i % 8] += x;
    squares[i % 8] += x * x;
  }
  double mean = 0, square = 0;
  for (size_t i = 0; i < 8; ++i) {
    mean += sum[i];
    square += squares[i];
  }
  const double count = double(candidates.possible());
  mean /= count;
  square /= count;
  const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
  candidates.keep_from(float(double(top) - double(s.top_n_sigma) * deviation), s.min_keep);
}

void cut_top_k(Candidates& candidates, const Sampling& s) {
  if (s.top_k > 0) candidates.keep_largest(std::max(uint32_t(s.top_k), s.min_keep));
}

void cut_typical_p(Candidates& candidates, const Sampling& s) {
  if (s.typical_p >= 1) return;
  const double total = candidates.weigh();
  const double entropy = candidates.entropy(), log_total = log_of(total);
  const float top = candidates.largest();
  std::vector<uint32_t> keys(candidates.size());  // how far the surprise is from the entropy: a float of 0 or more
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = std::bit_cast<uint32_t>(float(std::abs(log_total - double(candidates.logits()[i] - top) - entropy)));
  candidates.keep_first(keys, double(s.typical_p) * total, true, s.min_keep);
}

void cut_top_p(Candidates& candidates, const Sampling& s) {
  if (s.top_p >= 1) return;
  candidates.keep_most_likely(double(s.top_p) * candidates.weigh(), s.min_keep);
}

void cut_min_p(Candidates& candidates, const Sampling& s) {
  if (s.min_p <= 0) return;
  candidates.keep_from(float(double(candidates.largest()) + log_of(double(s.min_p))), s.min_keep);
}

void cut_xtc(Candidates& candidates, const Sampling& s, double random) {
  if (s.xtc_probability <= 0 || s.xtc_threshold > 0.5f || candidates.size() < 2) return;
  if (random >= double(s.xtc_probability)) return;
  const double threshold = double(s.xtc_threshold) * candidates.weigh();
  const auto weights = candidates.weights();
  size_t likely = 0, last = 0;  // the last is the least likely, of equals the one with the highest id
  for (size_t i = 0; i < weights.size(); ++i) {
    if (double(weights[i]) < threshold) continue;
    if (likely++ == 0 || candidates.logits()[i] <= candidates.logits()[last]) last = i;
  }
  if (likely < 2 || candidates.size() - (likely - 1) < s.min_keep) return;
  std::vector<uint8_t> which(candidates.size());
  for (size_t i = 0; i < which.size(); ++i) which[i] = double(weights[i]) < threshold || i == last;
  candidates.keep(which);
}

void apply_temperature(Candidates& candidates, const Sampling& s) {
  double temperature = double(s.temperature);
  const size_t possible = s.dynamic_range > 0 ? candidates.possible() : 1;
  if (possible > 1) {
    const double low = std::max(0.0, temperature - double(s.dynamic_range));
    const double high = temperature + double(s.dynamic_range);
    candidates.weigh();
    const double share = candidates.entropy() / log_of(double(possible));  // of the largest possible entropy
    temperature = low + (high - low) * power_of(share, double(s.dynamic_exponent));
  }
  if (temperature <= 0)
    candidates.keep_only(candidates.best());
  else if (temperature != 1)
    candidates.heat(temperature);
}

void cut_surprise(Candidates& candidates, const Sampling& s, float bits) {
  // surprise = log2 total - (logit - largest) / ln 2
  constexpr double ln2 = 0.69314718055994531;
  const double deepest = log_of(candidates.weigh()) - double(bits) * ln2;
  candidates.keep_from(float(double(candidates.largest()) + std::min(0.0, deepest)), s.min_keep);
}

}  // namespace heddle::engine
