// A product with what surrounds it in a layer: inputs, and the f64 reference that `product`, `mma_product`,
// `mma_tiles` and `wgmma_product` are held to.
#pragma once
#include <optional>
#include <variant>

#include "kernels/product/mma_product.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/wgmma_product.h"
#include "proof/format/weights.h"

namespace heddle::proof {

struct ProductShape {
  uint32_t rows, cols, blocks;
  uint32_t second_rows = 0;  // mixed: the last rows
  // qkv
  uint32_t heads = 0, kv_heads = 0, head = 0, rotary = 0;
  Quants quants = Quants::random;
};

// Vectors as the kernel reads them, and the values that they stand for after the norm.
struct ProductVectors {
  std::vector<uint8_t> bytes;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> step;  // the largest change of a value by rounding to int8
  uint32_t stride;
};
ProductVectors product_vectors(Random& random, const kernels::Product& spec, uint32_t cols, uint32_t count,
                               const std::vector<float>& weight, const std::vector<float>& shift, float epsilon);

struct ProductWeights {
  std::vector<uint8_t> file;
  kernels::TileShape shape;
  const uint8_t* row(uint32_t r) const { return file.data() + size_t(r) * (file.size() / shape.rows); }
};
ProductWeights product_weights(Random& random, quant::Format format, uint32_t rows, uint32_t cols, uint32_t tile_cols,
                               Quants quants = Quants::random);

// A row times a vector, with the magnitude that roundings are relative to and what the rounding to int8 may have moved.
struct ProductSum {
  double value = 0, scale = 0, moved = 0;
};
ProductSum product_sum(const ProductWeights& w, uint32_t r, const std::vector<double>& x,
                       const std::vector<double>& step);

// The parameters of xielu in all cases.
inline constexpr float xielu_of_cases[] = {0.8125f, 1.125f, 0.5f, -0x1p-20f};
void set_xielu(kernels::Product::Args& args);
// What an activation, or a gate with its up, gives for two sums, and how far rounding errors of these may move it.
struct Activated {
  double value, error;
};
Activated activated(uint32_t which, double sum, double error);
Activated gated(uint32_t which, double gate, double gate_error, double up, double up_error);

// The kernels of the matrix units.
using MatrixSpec = std::variant<kernels::MmaProduct, kernels::MmaTiles, kernels::WgmmaProduct>;
// The product that computes the same.
template <class Spec>
kernels::Product product_like(const Spec& s, uint32_t vectors) {
  kernels::Product like{.format = s.format,
                        .tile_cols = s.tile_cols,
                        .slices = s.slices,
                        .columns = vectors,
                        .exact = 1,
                        .out = s.out,
                        .activation = s.activation,
                        .y_bf16 = s.y_bf16,
                        .bias = s.bias,
                        .cache = s.cache,
                        .halves = s.halves};
  like.y_apart = s.y_apart;
  like.next_apart = s.next_apart;
  like.next_also = s.next_also;
  return like;
}

// Launches the product and compares. With `units` the same is computed by a kernel of the matrix units, for any number
// of vectors (spec.columns of them); two formats are two launches of it.
void run_product(const kernels::Product& spec, const ProductShape& shape, Machine& m, Random& random, Check& check,
                 std::optional<MatrixSpec> units = {});
// "4096 -> 40 vectors=3 blocks=2", then the second format, the heads and the quants, where a shape has them.
std::string shape_text(const ProductShape& s, uint32_t vectors, quant::Format second);

// Sums that f16 cannot hold on their way into the cache: launches the spec (of f32 weights, out = qkv, with a bias), or
// `units` in its place, with weights of 0, so that the sums are the biases.
void run_special_sums(const kernels::Product& spec, Machine& m, Check& check, std::optional<MatrixSpec> units = {});

}  // namespace heddle::proof
