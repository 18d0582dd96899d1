#include "gpu/paths.h"

#include "base/error.h"

namespace heddle::gpu {

Paths::Paths(const Resources& resources)
    : vectors(resources),
      matrix_units(resources),
      exact_(resources.options.exact),
      deterministic_(resources.options.deterministic),
      few_by_vectors_(path_of_few_rows(resources, vectors)),
      few_by_matrix_units_(path_of_few_rows(resources, matrix_units)),
      many_(path_of_many_rows(resources)) {}

Products& Paths::products(uint32_t rows) {
  if (exact_ || (rows <= max_vector_rows && !deterministic_)) return vectors;
  return matrix_units;
}

Path& Paths::path(uint32_t rows) {
  if (rows > max_few_rows && !exact_ && !deterministic_) return *many_;
  return &products(rows) == &vectors ? *few_by_vectors_ : *few_by_matrix_units_;
}

// With more rows than that, the tables of sequences with many rows would be sent many times over.
bool Paths::tables_by_row(uint32_t rows) const { return rows <= max_few_rows || deterministic_; }

bool Paths::gathers(size_t outputs) const { return !exact_ && outputs > max_vector_rows; }

// The kernels of every path need clusters, bulk copies and launches that overlap, and rings of shared memory this
// large.
void expect_capable(const cuda::DeviceInfo& device) {
  if (device.sm < 90)
    throw Error("cuda:{} {} has compute capability {}.{}, but models run on 9.0 and later so far", device.ordinal,
                device.name, device.sm / 10, device.sm % 10);
  constexpr uint32_t shared = 227 * 1024;
  if (device.shared_per_block_optin < shared)
    throw Error("cuda:{} {} has {} bytes of shared memory for a block, but models want {} so far", device.ordinal,
                device.name, device.shared_per_block_optin, shared);
}

}  // namespace heddle::gpu
