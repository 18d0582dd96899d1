// Which kernels a batch takes: the only place where that is decided.
//
// | rows                                         | products         | path      |
// | -------------------------------------------- | ---------------- | --------- |
// | 1 or 2; with Options::exact any number       | VectorProducts   | few rows  |
// | 3 to 64; if Options::deterministic any number | MatrixProducts  | few rows  |
// | more                                         | unpacked weights | many rows |
#pragma once
#include <memory>

#include "gpu/products.h"

namespace heddle::gpu {

std::unique_ptr<Path> path_of_few_rows(const Resources& resources, Products& products);
std::unique_ptr<Path> path_of_many_rows(const Resources& resources);

class Paths {
 public:
  explicit Paths(const Resources& resources);

  void begin() { vectors.begin(); }  // a new plan
  Path& path(uint32_t rows);
  // For products outside a path: the head, and the router of a mixture.
  Products& products(uint32_t rows);
  // Whether a batch has a block table per row, not per sequence.
  bool tables_by_row(uint32_t rows) const;
  // Whether the head takes outputs whose rows do not follow each other.
  bool gathers(size_t outputs) const;

  VectorProducts vectors;  // also of experts, whatever the path
  MatrixProducts matrix_units;

 private:
  const bool exact_, deterministic_;
  const std::unique_ptr<Path> few_by_vectors_, few_by_matrix_units_, many_;
};

}  // namespace heddle::gpu
