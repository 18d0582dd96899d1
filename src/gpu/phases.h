// The verbs of a forward pass as launches: which kernel does what for so many rows. Appends to a plan; runs nothing.
#pragma once
#include "cuda/plan.h"
#include "gpu/library.h"
#include "gpu/tuning.h"
#include "gpu/work.h"
#include "kernels/product/mma_product.h"
#include "kernels/product/product.h"

namespace heddle::gpu {

// A launch of a plan, for those who look at times.
struct LaunchNote {
  std::string kernel;  // "product"
  std::string phase;   // "qkv"
  int layer;           // -1: none
  uint64_t bytes;      // of weights and cache that it reads; what else there is is small
};

// The rows of a step as the kernels see them.
struct Rows {
  uint32_t count = 0;
  bool each_own = false;            // every row is the newest of a sequence of its own
  uint32_t single = 0;              // so many of the first rows are the only ones of their sequences
  uint32_t longest_single = 0;      // positions of the longest among these
  bool row_tables = true;           // table row i is that of row i; else that of sequence i
  uint32_t longest = 0;             // positions of the longest sequence
  uint32_t tiles = 0;               // of attention to prompts; the first are of single rows
  std::vector<uint32_t> sequences;  // of each row, where tables are those of sequences
};

inline constexpr uint32_t chained = 1;  // every kernel of a plan waits for the one before it by itself
// As the fields `norm` of kernels count them.
constexpr uint32_t norm_kind(model::Norm::Kind kind) {
  return kind == model::Norm::Kind::rms ? 1 : kind == model::Norm::Kind::layer ? 2 : 0;
}

class Phases {
 public:
  Phases(const model::Model& model, const model::Limits& limits, DeviceModel& weights, Work& work,
         const WorkSizes& sizes, std::vector<cuda::Buffer>& keys, std::vector<cuda::Buffer>& values, Library& library,
         Tuning& tuning, bool exact, bool deterministic);

  void begin(const Rows& rows);
  void embed();
  void compute(uint32_t layer, uint32_t sublayer);
  void add(uint32_t layer, uint32_t sublayer);
  void attend(const DeviceAttention& attention);  // the part of compute() whose kernel depends on the lengths
  void keep_states();                             // of all rows, to work.result
  // Of `count` rows: those that work.outputs names from `first` on, or `from_row` on where they follow each other.
  void logits(uint32_t first, uint32_t count, std::optional<uint32_t> from_row);

  template <class Spec>
  size_t launch(const Spec& spec, const typename Spec::Args& args, uint64_t bytes = 0) {
    uint32_t shared = 0;
    if constexpr (requires { spec.dynamic_shared(args); }) shared = spec.dynamic_shared(args);
    if (wanted) return wanted->emplace_back(spec), 0;
    const Loaded& kernel = library_.get(spec);
    notes.push_back({std::string(Spec::name), phase_, layer_, bytes});
    return plan.launch(kernel.launch(spec.grid(args), shared, &args, sizeof args));
  }

  // Set: nothing is launched, and the kernels that would be are listed here.
  std::vector<kernels::AnySpec>* wanted = nullptr;
  cuda::Plan plan;
  std::vector<LaunchNote> notes;  // one per launch
  void name(const std::string& phase) { phase_ = phase; }

  // Positions up to which attention runs as for `longest`.
  uint32_t attention_class(uint32_t longest) const;

 private:
  struct In {
    uint64_t address;
    uint32_t stride;
    bool bf16 = false;
    const DeviceNorm* norm = nullptr;
  };
  struct Out {
    uint32_t kind = kernels::Product::store;
    uint64_t y = 0;
    uint32_t stride = 0;
    float scale = 1;
    uint32_t activation = 0;
    bool bf16 = false;
  };
  // Where q is, and how many values its rows are apart.
  struct Queries {
    uint64_t address;
    uint32_t stride;
  };
  Queries queries(const DeviceAttention& attention) const;
  bool q8() const { return limits_.kv == model::KvFormat::q8; }
  uint64_t scales(const cuda::Buffer& cache) const;  // of a q8 cache; else 0
  void compute(const DeviceAttention& a);
  void compute(const DeviceFeedForward& f);
  void compute(const DeviceMixture& m);
  void add(const DeviceAttention& a, float scale);
  void add(const DeviceFeedForward& f, float scale);
  void add(const DeviceMixture& m, float scale);
  void qkv(const DeviceAttention& attention);
  // gate and up of `in`, and activation, to work.act.
  void feed_forward_in(const DeviceFeedForward& f, const In& in);
  // Norm, rotation, and k and v to the cache. `finished`: they only have to go there.
  void write_heads(const DeviceAttention& attention, bool finished);
  // Rows whose products take the weights as they are and do all that follows; more than these take them unpacked.
  bool few() const { return rows_.count <= some_rows || exact_ || deterministic_; }
  // Whether a product of so many of them goes to the matrix units.
  bool on_matrix_units(uint32_t rows) const { return !exact_ && (rows > product_rows || deterministic_); }
  bool exact_for(const Weights& w) const;
  // W x with what follows, by the ring product or by the matrix units. `second`: rows of another format below those of
  // w.
  void product(const Weights& w, const Weights* second, const In& in, const Out& out, uint32_t rows,
               const DeviceAttention* attention = nullptr);
  // The same on the matrix units. `list`: rows of `in` that work.outputs names from there on.
  void mma_product(const Weights& w, const Weights* second, const In& in, const Out& out, uint32_t rows,
                   const DeviceAttention* attention = nullptr, std::optional<uint32_t> list = {});
  void put_attention(kernels::Product::Args& args, const DeviceAttention& attention, uint32_t first_row,
                     uint32_t table_row, uint32_t table_stride) const;
  void expert_product(const Weights& w, const In& in, uint32_t x_share, const Out& out, uint32_t first,
                      uint32_t vectors);
  // The rows as f16 for the matrix units, then products of them: y = W x + bias, or y += that.
  // Row by row, or in the slices and groups of mma_product.
  void halve(const In& in, uint32_t cols, uint32_t rows, std::optional<uint32_t> list = {}, uint32_t slice_cols = 0,
             uint32_t group = 0);
  void large_product(const Weights& w, uint64_t y, uint32_t stride, bool add, uint32_t rows);
  // W x, then norm, and added to h.
  void add_to_residual(const Weights& w, const In& in, const DeviceNorm& norm, float scale);
  void norm_add(const DeviceNorm& norm, float scale);
  void activate(model::Activation activation, uint64_t y, uint32_t stride, uint64_t gate, uint64_t up,
                uint32_t in_stride, uint32_t rows, uint32_t cols);
  void append_product(const kernels::Product& spec, const kernels::Product::Args& args, uint64_t bytes);

  const model::Model& model_;
  const model::Limits& limits_;
  DeviceModel& weights_;
  Work& work_;
  const WorkSizes& sizes_;
  std::vector<cuda::Buffer>&keys_, &values_;
  Library& library_;
  Tuning& tuning_;
  bool exact_, deterministic_;
  uint32_t sms_;
  Rows rows_;
  std::string phase_;
  int layer_ = -1;
  bool act_bf16_ = false;  // how the last feed_forward_in left its result
  bool large_ = false;     // whose turn it is among the products
};

}  // namespace heddle::gpu
