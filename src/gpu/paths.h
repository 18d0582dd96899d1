// Which kernels a batch takes: the only place where that is decided, by its rows, the options and the GPU.
//
// | rows                                               | products       |
// | -------------------------------------------------- | -------------- |
// | 1 or 2; with Options::exact any number             | VectorProducts |
// | 3 to max_few_rows; with Options::deterministic     | MatrixProducts |
// | any number                                         |                |
// | more                                               | WgmmaProducts  |
// | the same on GPUs without wgmma                     | TileProducts   |
//
// | attention of                                        | kernel            |
// | --------------------------------------------------- | ----------------- |
// | leading rows that are the only ones of their        | cluster_attention |
// | sequences; with Options::deterministic all rows     |                   |
// | other rows, in tiles of consecutive positions,      | wgmma_attention   |
// | where most tiles are full and fill the SMs; needs   |                   |
// | wgmma, not with Options::exact                      |                   |
// | other tiles                                         | prompt_attention  |
// | rows that neither takes: of heads of other sizes,   | any_attention     |
// | in a cache of q8 of all but multiples of 32, of 512 |                   |
// | where shared memory is short (Turing); with         |                   |
// | Options::deterministic also those that see both     |                   |
// | directions by distance                              |                   |
//
// | latent attention of                                 | kernels           |
// | --------------------------------------------------- | ----------------- |
// | min_expanded_rows and more of one sequence, where   | latent_expand,    |
// | their tiles fill the SMs; needs wgmma, not with     | wgmma_attention   |
// | Options::exact or deterministic                     |                   |
// | all other rows                                      | latent_attention  |
//
// | recurrent states of                                 | kernels             |
// | --------------------------------------------------- | ------------------- |
// | min_chunked_rows and more of one sequence, keys of  | recurrence_prepare, |
// | up to max_chunked_key; needs sm_80, not with        | recurrence_scan     |
// | Options::exact or deterministic                     |                     |
// | all other rows                                      | recurrence          |
//
// | of a mixture                                       | kernels                         |
// | -------------------------------------------------- | ------------------------------- |
// | the choice of experts, 1 to 8 rows; not with       | router                          |
// | Options::deterministic; needs clusters             |                                 |
// | the same, others, and routers that do not fit      | product as above, then route    |
// | experts, 1 to 8 rows; with Options::exact or       | VectorProducts                  |
// | deterministic, and where gate and up have          |                                 |
// | different formats, any number                      |                                 |
// | the same, more rows, of which an expert expects    | group_rows, mma_product, mix    |
// | up to max_few_expert_rows                          |                                 |
// | the same, more                                     | group_rows, wgmma_product, mix  |
// | the same on GPUs without wgmma                     | group_rows, mma_tiles, mix      |
//
// product, mma_product and cluster_attention bring data to shared memory by bulk copies, or where the GPU has none
// (before 9.0) by cp.async, in shapes for its shared memory (GpuLimits). A product that does not fit for vectors goes
// to the matrix units. Launches overlap from 9.0 on.
//
// Products for another kind of GPU or of matrix unit are a class like those of products.h, a member of Paths, and a
// line in Paths::products().
#pragma once
#include "gpu/products.h"

namespace heddle::gpu {

// Whether a kernel may start while the one before it still runs, and wait for it by itself.
bool can_chain(const cuda::DeviceInfo& device);
// Whether the matrix units take warp groups.
bool has_wgmma(const cuda::DeviceInfo& device);
// Whether the rows of a batch that go to one expert are multiplied together, where they are many: needs a result that
// may depend on the number of rows.
bool can_group_experts(const Options& options);
// Whether long prompts attend to keys and values computed from latents, where the sizes of heads allow it.
bool can_expand_latents(const cuda::DeviceInfo& device, const Options& options);
// Whether rows of one sequence, where they are many, change recurrent states in chunks, where the sizes of heads allow
// it.
bool can_chunk_states(const cuda::DeviceInfo& device, const Options& options);

// The kernels by which the rows of a batch attend to the KV cache.
struct AttentionPath {
  uint32_t newest = 0;  // leading rows that take cluster_attention,
  enum class Others : uint8_t { none, wgmma_tiles, prompt_tiles, any };
  Others others = Others::none;  // and the kernel of all others
  enum class Shape : uint8_t {
    by_length,  // of the longest sequence
    tuned,      // the same by classes of lengths, as a search has found it
    steady,     // one for all batches
  };
  Shape shape = Shape::by_length;  // of cluster_attention
  bool reads_other_rows = false;   // rows of this batch write positions that its other rows read
  bool exact_queries = false;      // prompt_attention keeps more bits of q than f16 has
};

class Paths {
 public:
  explicit Paths(const Resources& resources);

  void begin() { vectors_.begin(); }  // a new plan
  Path& path(uint32_t rows);
  AttentionPath attention(const model::Attention& a, const Rows& rows) const;
  // Whether a prompt attends to keys and values computed from latents, for this many heads at once.
  bool expands_latents(const model::Attention& a, const LongPrompt& prompt, uint32_t heads) const;
  // Whether a run of this many rows of one sequence changes recurrent states in chunks.
  bool chunks_states(uint32_t rows) const { return chunking_ && rows >= min_chunked_rows; }

  // Products outside of a path: those of the head and of a mixture's router,
  Products& products(uint32_t rows);
  // those of the head with Input::list,
  Products& gathering_products(uint32_t rows);
  // and those of experts.
  ExpertProducts& expert_products() { return vectors_; }

  // Whether the experts of a mixture take the rows of a batch grouped by expert.
  bool groups_experts(uint32_t rows) const { return grouping_ && rows > max_expert_vector_rows; }
  // Whether these are multiplied by warp groups, where they are many.
  bool groups_by_wgmma() const { return wgmma_; }
  // Whether a mixture's router, and the choice of the experts, are one kernel.
  bool fuses_router(uint32_t rows) const { return rows <= max_router_rows && !deterministic_ && limits_.clusters; }

  // Whether a batch has a block table per row, not per sequence.
  bool tables_by_row(uint32_t rows) const;
  // Whether the head takes outputs of rows that are not consecutive.
  bool gathers(size_t outputs) const;
  // Which kernels are worth loading before a batch needs them: f32 activations are meant for single streams, and
  // attention that is deterministic has one shape.
  bool expects_many_rows() const { return !exact_; }
  bool attention_shapes_vary() const { return !exact_ && !deterministic_; }

 private:
  bool takes_wgmma(const model::Attention& a, uint32_t rows, uint32_t tiles) const;

  const bool exact_, deterministic_, grouping_, chunking_, wgmma_, q8_;
  const kernels::GpuLimits limits_;
  const uint32_t sms_;
  MatrixProducts matrix_units_;
  TileProducts tiles_;
  VectorProducts vectors_;
  WgmmaProducts warp_groups_;
  Path by_vectors_, by_matrix_units_, by_tiles_, by_warp_groups_;
};

}  // namespace heddle::gpu
