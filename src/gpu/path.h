// The phases of a layer as products of the rows of a batch. Paths (paths.h) decides which kind of products a batch
// takes; this file has their interface, and the launches that come before and after them.
#pragma once
#include <array>
#include <optional>

#include "gpu/kv_cache.h"
#include "gpu/rank_sums.h"
#include "gpu/recorder.h"
#include "gpu/state_cache.h"
#include "gpu/tuning.h"
#include "gpu/work.h"
#include "kernels/product/product.h"

namespace heddle::gpu {

// Rows of one sequence at consecutive positions.
struct LongPrompt {
  uint32_t first_row = 0, rows = 0;
  uint32_t first_tile = 0, tiles = 0;
  uint32_t table = 0;  // which block table is the sequence's
  uint32_t end = 0;    // positions of the sequence up to the last row
};

// The rows of a batch as the kernels see them.
struct Rows {
  uint32_t count = 0;
  bool each_own = false;            // each row is the only one of its sequence
  uint32_t single = 0;              // this many rows from the first on are the only ones of their sequences
  uint32_t longest_single = 0;      // positions of the longest of those sequences
  bool row_tables = true;           // block table i is that of row i; otherwise that of sequence i
  uint32_t longest = 0;             // positions of the longest sequence
  uint32_t tiles = 0;               // of prompts; the first `single` tiles are the single rows
  std::vector<uint32_t> sequences;  // of each row; empty with row_tables
  std::vector<LongPrompt> prompts;  // of min_expanded_rows and more; none with row_tables
  uint32_t runs = 0;                // sequences with rows; of models with recurrent states
  uint32_t longest_run = 1;         // rows of it
  uint32_t chunked_runs = 0;        // of these, from the first on, are divided into chunks
  uint32_t chunks = 0;              // of all of them
  bool predicts = false;            // model::Batch::predicts
};

// Everything that a launch is recorded from. All of it lives as long as the backend.
struct Resources {
  const model::Model& model;
  const model::Limits& limits;
  const Options& options;
  const DeviceModel& weights;
  const WorkSizes& sizes;
  const Work& work;
  const std::vector<KvCache>& caches;     // by DeviceAttention::cache
  const std::vector<StateCache>& states;  // by DeviceRecurrence::state
  Tuning& tuning;
  Recorder& recorder;
  RankSums* ranks;  // null: the model is whole

  bool q8() const { return limits.kv == model::KvFormat::q8; }
  const KvCache& cache(const DeviceAttention& attention) const { return caches[attention.cache]; }
  // The block tables of its cache.
  uint64_t tables(const DeviceAttention& attention) const {
    return (cache(attention).of_windows() ? work.window_table : work.table).address();
  }
};

// Rows of f16 in the order in which a product on the matrix units reads them: see kernels::operand_place. A kernel that
// writes its result so saves a launch of half_rows.
struct HalfForm {
  uint32_t apart = 0, group = 0;  // 0: rows of f32
  explicit operator bool() const { return group != 0; }
  bool operator==(const HalfForm&) const = default;
};
struct HalfRowsAt {
  HalfForm form = {};
  uint64_t address = 0;
};

// The norm after a product that adds to the residual stream, where that product begins it: see
// kernels/product/late_norm.h.
struct LateNorm {
  const DeviceNorm* norm = nullptr;
  // The rows for the product that ends the norm, once more where its weights have two formats.
  std::array<HalfRowsAt, 2> x = {};
  uint64_t squares = 0, next_squares = 0;  // of its rows; of those of the norm after it
};

// The rows that a product reads.
struct Input {
  uint64_t address;
  uint32_t stride;  // values from row to row
  bool bf16 = false;
  const DeviceNorm* norm = nullptr;  // applied first
  uint64_t list = 0;                 // the address of a list of rows; 0: all in order
  uint64_t factors = 0;              // with a list: of factors of the rows; 0: none
  HalfForm form = {};                // rows of f16, each to be multiplied with its factor at `scales`
  uint64_t scales = 0;
  const LateNorm* late = nullptr;  // the rows are those of a norm that has begun
  // With a norm, where late norms follow: their number, and the first squares.
  uint64_t squares = 0;
  uint32_t late_norms = 0;
};
// Where a product writes, and what it does to the result first.
struct Output {
  uint32_t kind = kernels::Product::store;
  uint64_t y = 0;
  uint32_t stride = 0;
  float scale = 1;
  uint32_t activation = 0;
  model::Xielu xielu = {};  // of that activation
  bool bf16 = false;
  HalfForm form = {};              // gate and act: rows of f16, divided by Product::f16_act
  const LateNorm* late = nullptr;  // add: the norm that it begins
};

// Products with weights as they lie in their tiles: one launch computes the norm, the product and its Output.
class Products {
 public:
  virtual ~Products() = default;
  // `second`: rows of another format below those of w. `attention`: with Product::qkv.
  virtual void product(const Weights& w, const Weights* second, const Input& in, const Output& out, const Rows& rows,
                       const DeviceAttention* attention = nullptr) = 0;
  // Whether the product with these weights takes its input as bf16 rather than f32.
  virtual bool takes_bf16(const Weights& w) const = 0;
  // How a product takes rows of f16, where another kernel may write them so. `first`: see product(), the matrix that
  // has the bias of all.
  virtual HalfForm half_form(const Weights&, const Weights& /*first*/, const Output&, const Rows&,
                             const DeviceAttention* = nullptr) const {
    return {};
  }
};

// Products with the matrices of experts, a few for each row.
class ExpertProducts : public Products {
 public:
  // The experts of `rows` rows, `used` for each, from number `first` on in work.expert_ids.
  struct Experts {
    uint32_t first, rows, used;
  };
  // A result for each expert of a row, from the row's input. `weighted`: what is multiplied with the expert's weight in
  // work.expert_weights.
  virtual void expert_product(const Weights& w, const Input& in, const Output& out, const Experts& which,
                              kernels::Product::Weighted weighted) = 0;
  // The sum over the experts of a row, each with an input of its own. Before it comes an expert_product. `weighted`:
  // biases are multiplied with their expert's weight, which the inputs already have.
  virtual void expert_sum(const Weights& w, const Input& in, const Output& out, const Experts& which,
                          bool weighted) = 0;
  // Whether that takes its input as bf16 rather than f32.
  virtual bool sum_takes_bf16(const Weights& w, uint32_t used) const = 0;
};

// The phases of a layer, by some kind of products: one product does a whole phase, from the norm of its input to the
// residual, the activation or the KV cache.
class Path {
 public:
  Path(const Resources& resources, Products& products) : r_(resources), products_(products) {}

  // Norm, q, k and v with biases, norms and rotation; k and v go to the cache.
  void qkv(const DeviceAttention& attention, const Input& in, const Rows& rows);
  // Where qkv() leaves q.
  struct Queries {
    uint64_t address;
    uint32_t stride;
  };
  Queries queries(const DeviceAttention& attention) const;
  // Norm, gate and up, activation. `next`: the Output::kind of the product with f.down.
  void feed_forward_in(const DeviceFeedForward& f, const Input& in, const Rows& rows, uint32_t next);
  // Where feed_forward_in() leaves its result.
  Input activated(const DeviceFeedForward& f, const Rows& rows, uint32_t next) const;
  // How the product with `w` in add_to_residual() takes rows of f16.
  HalfForm half_form(const Weights& w, const DeviceNorm& norm, bool partial, const Rows& rows) const;
  // How the products after the norm of a sublayer take rows that a late norm has begun; none: they cannot.
  using Forms = std::array<HalfForm, 2>;
  std::optional<Forms> late_forms(const DeviceAttention& attention, const Rows& rows) const;
  std::optional<Forms> late_forms(const DeviceFeedForward& f, const Rows& rows) const;
  // y = W x + bias.
  void store(const Weights& w, const Input& in, uint64_t y, uint32_t stride, const Rows& rows);
  // residual += scale * norm(W x + bias); then residual *= after, where there is a norm.
  // `partial`: the product is this rank's part of a sum, and the sum is what is normalised and added. `late`: the norm
  // that follows, where the product begins it.
  void add_to_residual(const Weights& w, const Input& in, const DeviceNorm& norm, bool partial, float scale,
                       const Rows& rows, const LateNorm* late = nullptr, float after = 1);
  // The Output::kind of its product.
  static uint32_t residual_kind(const DeviceNorm& norm, bool partial);

 private:
  const Resources& r_;
  Products& products_;
};

// --- launches that products, paths and mixtures share ----------------------------------------------------------------
// The values of the kernels' fields `norm` and `activation`.
uint32_t norm_field(model::Norm::Kind kind);
uint32_t activation_field(model::Activation activation);

// The rows as f16 with a scale each, in work.half, for the product with w on the matrix units.
// `group`: rows of a group; `also`: the rows once more.
void to_half(const Resources& r, const Input& in, const Weights& w, uint32_t rows, uint32_t group,
             const HalfRowsAt& also = {});
// y = activation(gate), or activation(gate) * up where up is not 0, each row times its weight where weights are not 0.
struct GatedRows {
  uint64_t y, gate, up;
  uint32_t y_stride, in_stride, rows, cols;
  uint64_t weights = 0;
  uint32_t up_stride = 0;  // 0: in_stride
};
void activate(const Resources& r, model::Activation activation, const model::Xielu& xielu, const GatedRows& rows);
// The parameters of that activation, as arguments of a kernel.
template <class Args>
void set_xielu(Args& args, const model::Xielu& xielu) {
  args.xielu_positive = xielu.positive;
  args.xielu_negative = xielu.negative;
  args.xielu_beta = xielu.beta;
  args.xielu_epsilon = xielu.epsilon;
}
// y = norm(x), rows of the model's width; y may be x.
void norm_rows(const Resources& r, const DeviceNorm& norm, uint64_t y, uint64_t x, uint32_t rows);
// h = after * (h + scale * norm(y) + also), rows of the model's width; also may be 0.
struct AddedRows {
  uint64_t h, y;
  float scale = 1;
  uint64_t also = 0;
  float after = 1;
};
void norm_and_add(const Resources& r, const DeviceNorm& norm, const AddedRows& rows, uint32_t count);
// The same with the sum of y over all ranks in place of y; without `also`.
void sum_norm_and_add(const Resources& r, const DeviceNorm& norm, const AddedRows& rows, uint32_t count);
// RMSNorms over values that lie on several ranks (model::Norm::across), each of some columns, in place.
struct ColumnsAcross {
  const model::Norm& norm;
  uint64_t x, weight;
  uint32_t cols, stride;
  // With a gate each value is also multiplied by silu(gate): before the norm, or after it.
  uint64_t gate = 0;
  uint32_t gate_stride = 0;
  bool gate_first = false;
};
void norm_across(const Resources& r, std::initializer_list<ColumnsAcross> all, uint32_t rows);
// Norms and rotation of q, k and v, then k and v to the cache. `finished`: the product has done norms and rotation.
void write_heads(const Resources& r, const DeviceAttention& attention, const Path::Queries& q, uint32_t rows,
                 bool finished);

}  // namespace heddle::gpu
