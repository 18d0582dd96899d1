// Rows of activations: f32, and as the weights they are multiplied with need them.
#pragma once
#include <vector>

#include "cpu/isa.h"
#include "cpu/pack.h"
#include "cpu/pages.h"

namespace heddle::cpu {

// How much scratch a row of a batch needs: of each kind, what the sublayer with the most needs.
struct RowSizes {
  uint64_t q = 0, k = 0, v = 0, attended = 0;
  uint64_t low = 0;                 // of latent attention: what q_down leaves
  uint64_t heads = 0, by_head = 0;  // of latent attention: heads, and values of each
  uint64_t inner = 0, used = 1, experts = 0, shared = 0;
  uint64_t latent = 0;                          // of experts of latents
  uint64_t gate = 0;                            // of attention and of recurrences
  uint64_t mixed = 0, steps = 0, recurred = 0;  // of sublayers with a state
  uint64_t cut = 0;                             // of the up products that wait for a gate with a cutoff
  uint64_t laurel = 0, others = 0;              // its rank, and the other streams of AltUp
  uint64_t token_inputs = 0;
  uint64_t joined = 0;   // of NextHead: what its matrix reads
  bool partial = false;  // some sublayer leaves a part of a sum over ranks
  explicit RowSizes(const model::Model& model);
};

// Rows as the products take them.
struct RowsView {
  const float* const* f32 = nullptr;
  const XRow *by_32 = nullptr, *by_256 = nullptr, *bf16 = nullptr;
  uint32_t count = 0;

  const XRow* of(XKind kind) const {
    const XRow* const all[] = {nullptr, by_32, by_256, bf16};
    return all[unsigned(kind)];
  }
  RowsView part(uint32_t first, uint32_t rows) const {
    const auto from = [&](auto* all) { return all ? all + first : nullptr; };
    return {from(f32), from(by_32), from(by_256), from(bf16), rows};
  }
};

// The forms that rows have beside f32.
struct RowForms {
  bool by_32 = false, by_256 = false, bf16 = false;
  void add(XKind kind) {
    by_32 = by_32 || kind == XKind::by_32;
    by_256 = by_256 || kind == XKind::by_256;
    bf16 = bf16 || kind == XKind::bf16;
  }
};

class Rows {
 public:
  Rows() = default;
  // `rows` rows of `cols` values.
  Rows(uint32_t rows, uint32_t cols, const RowForms& forms);

  uint32_t cols() const { return cols_; }
  float* row(uint64_t index) { return f32_.data() + index * cols_; }
  const float* row(uint64_t index) const { return f32_.data() + index * cols_; }
  // Writes the other forms of a row that is complete.
  void finish(uint64_t index, const Isa& isa);

  RowsView view(uint32_t count) const { return {pointers_.data(), by_32_.data(), by_256_.data(), bf16_.data(), count}; }

 private:
  friend class GatheredRows;
  uint32_t cols_ = 0;
  std::vector<float> f32_;              // (rows, cols)
  std::vector<const float*> pointers_;  // to each row
  Pages q_32_, q_256_, q_bf16_;         // aligned to a cache line
  std::vector<int8_t> split_sums_;
  std::vector<float> d_32_, d_256_;
  std::vector<int32_t> sums_32_, sums_256_;
  std::vector<XRow> by_32_, by_256_, bf16_;  // of each row
};

// Some rows, in any order.
class GatheredRows {
 public:
  void add(const Rows& rows, uint64_t index);
  void clear();
  RowsView view() const { return {f32_.data(), by_32_.data(), by_256_.data(), bf16_.data(), uint32_t(f32_.size())}; }

 private:
  std::vector<const float*> f32_;
  std::vector<XRow> by_32_, by_256_, bf16_;
};

}  // namespace heddle::cpu
