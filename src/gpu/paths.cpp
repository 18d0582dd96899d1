#include "gpu/paths.h"

#include "base/error.h"
#include "gpu/gpu.h"
#include "kernels/attention/cluster_attention.h"

namespace heddle::gpu {

namespace {

constexpr uint32_t max_table_rows = 64;  // with a block table each

}  // namespace

// --- the GPU --------------------------------------------------------------------------------------------------------
void expect_capable(const cuda::DeviceInfo& device) {
  if (device.sm < 75)
    throw Error("cuda:{} {} has compute capability {}.{}, but models run on 7.5 (Turing) and later", device.ordinal,
                device.name, device.sm / 10, device.sm % 10);
}

std::string path_text(const cuda::DeviceInfo& device) {
  if (device.sm < 75) return "none: models need compute capability 7.5 (Turing) or later";
  if (has_wgmma(device)) return "wgmma, clusters, bulk copies and overlapping launches";
  if (device.sm >= 90) return "clusters, bulk copies and overlapping launches; mma, because wgmma is of 9.0 alone";
  if (device.sm >= 80) return "cp.async and mma, one launch after the other: clusters and bulk copies need 9.0";
  return "loads and mma, one launch after the other: cp.async needs 8.0, clusters and bulk copies 9.0";
}

bool can_chain(const cuda::DeviceInfo& device) { return device.sm >= 90; }

bool has_wgmma(const cuda::DeviceInfo& device) { return device.sm == 90 && device.specific; }

bool can_group_experts(const Options& options) { return !options.exact && !options.deterministic; }

bool can_expand_latents(const cuda::DeviceInfo& device, const Options& options) {
  return has_wgmma(device) && !options.exact && !options.deterministic;
}

bool can_chunk_states(const cuda::DeviceInfo& device, const Options& options) {
  return device.sm >= 80 && !options.exact && !options.deterministic;
}

// --- the rows -------------------------------------------------------------------------------------------------------
Paths::Paths(const Resources& resources)
    : exact_(resources.options.exact),
      deterministic_(resources.options.deterministic),
      grouping_(resources.sizes.expert_slots != 0),
      chunking_(resources.sizes.chunks != 0),
      wgmma_(has_wgmma(resources.recorder.device()) && !exact_ && !deterministic_),
      q8_(resources.q8()),
      limits_(resources.recorder.limits()),
      sms_(resources.recorder.sms()),
      matrix_units_(resources),
      tiles_(resources),
      vectors_(resources, exact_, matrix_units_),
      warp_groups_(resources),
      by_vectors_(resources, vectors_),
      by_matrix_units_(resources, matrix_units_),
      by_tiles_(resources, tiles_),
      by_warp_groups_(resources, warp_groups_) {}

Products& Paths::products(uint32_t rows) {
  if (exact_ || (rows <= max_vector_rows && !deterministic_)) return vectors_;
  return gathering_products(rows);
}

Products& Paths::gathering_products(uint32_t rows) {
  if (rows <= max_few_rows || deterministic_) return matrix_units_;
  if (wgmma_) return warp_groups_;
  return tiles_;
}

Path& Paths::path(uint32_t rows) {
  const Products* taken = &products(rows);
  if (taken == &vectors_) return by_vectors_;
  if (taken == &matrix_units_) return by_matrix_units_;
  return taken == &tiles_ ? by_tiles_ : by_warp_groups_;
}

AttentionPath Paths::attention(const model::Attention& a, const Rows& rows) const {
  using Others = AttentionPath::Others;
  using Shape = AttentionPath::Shape;
  const bool usual = is_usual_head(a.head) && a.value_head == a.head && !(q8_ && a.head % 32) &&
                     kernels::cluster_fits_heads(a.head, limits_);
  AttentionPath path{.shape = deterministic_    ? Shape::steady
                              : rows.row_tables ? Shape::tuned
                                                : Shape::by_length,
                     .reads_other_rows = deterministic_ && !rows.each_own,
                     .exact_queries = exact_};
  // cluster_attention takes a row for the last of its sequence
  const bool by_distance = a.window || a.chunk || !a.slopes.empty();
  if (usual && !(deterministic_ && !a.causal && by_distance))
    path.newest = rows.each_own || deterministic_ ? rows.count : rows.single;
  if (path.newest == rows.count) return path;
  path.others = Others::any;
  if (usual && rows.tiles && !deterministic_)
    path.others =
        takes_wgmma(a, rows.count - path.newest, rows.tiles - path.newest) ? Others::wgmma_tiles : Others::prompt_tiles;
  return path;
}

// wgmma_attention computes whole tiles, however few rows they have, and does not divide their positions among SMs.
bool Paths::takes_wgmma(const model::Attention& a, uint32_t rows, uint32_t tiles) const {
  return wgmma_ && uint64_t(rows) * 8 >= uint64_t(tiles) * prompt_tile * 3 && uint64_t(tiles) * a.heads * 2 >= sms_;
}

bool Paths::expands_latents(const model::Attention& a, const LongPrompt& prompt, uint32_t heads) const {
  return wgmma_ && can_expand(*a.latent) && uint64_t(prompt.tiles) * heads * 2 >= sms_;
}

// mma_product reads a table for each row. With more rows, the tables of sequences with many rows would be sent many
// times over.
bool Paths::tables_by_row(uint32_t rows) const { return rows <= max_table_rows || deterministic_; }

bool Paths::gathers(size_t outputs) const { return !exact_ && outputs > max_vector_rows; }

}  // namespace heddle::gpu
