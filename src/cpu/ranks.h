// What a backend of the CPU does together with those of other ranks.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/backend.h"
#include "model/collective.h"

namespace heddle::cpu {

class Ranks {
 public:
  explicit Ranks(model::Collective* collective) : collective_(collective) {}  // null: alone

  // False after an Error: what the ranks have is not the same any more.
  bool usable() const { return usable_; }
  void sum(std::span<float> values) {
    together([&] { collective_->sum(values); });
  }
  // Of `count` rows, each rank's part of `parts` values, to rows of all parts.
  void gather_rows(std::span<const float> own, uint64_t count, std::span<const uint64_t> parts, std::span<float> to) {
    std::vector<uint64_t> sizes;
    uint64_t width = 0;
    for (const uint64_t part : parts) {
      sizes.push_back(part * count);
      width += part;
    }
    gathered_.resize(width * count);
    together([&] { collective_->gather(own, sizes, gathered_); });
    const float* from = gathered_.data();
    uint64_t first = 0;
    for (const uint64_t part : parts) {
      for (uint64_t row = 0; row < count; ++row, from += part) std::copy_n(from, part, to.data() + row * width + first);
      first += part;
    }
  }

 private:
  void together(auto&& work) {
    check(collective_ != nullptr, "ranks to compute with: the model is the part of one");
    try {
      work();
    } catch (...) {
      usable_ = false;
      throw;
    }
  }

  model::Collective* collective_;
  bool usable_ = true;
  std::vector<float> gathered_;
};

// The sums of squares of one or two norms over values of several ranks (Norm::across), for each row of a batch.
class Squares {
 public:
  // False: none of the norms is such a one, and there is nothing to sum.
  bool begin(uint64_t rows, const model::Norm& first, const model::Norm& second = {}) {
    behind_first_ = first.across ? first.across->groups : 0;
    stride_ = behind_first_ + (second.across ? second.across->groups : 0);
    sums_.assign(rows * stride_, 0);
    return stride_ != 0;
  }
  void put(uint64_t row, const model::Norm& norm, bool is_second, double squares) {
    if (norm.across && norm.across->counted) sums_[place(row, norm, is_second)] = static_cast<float>(squares);
  }
  std::span<float> all() { return sums_; }
  float of(uint64_t row, const model::Norm& norm, bool is_second) const { return sums_[place(row, norm, is_second)]; }

 private:
  uint64_t place(uint64_t row, const model::Norm& norm, bool is_second) const {
    return row * stride_ + (is_second ? behind_first_ : 0) + norm.across->group;
  }
  uint64_t stride_ = 0, behind_first_ = 0;
  std::vector<float> sums_;  // (rows, groups of both norms)
};

}  // namespace heddle::cpu
