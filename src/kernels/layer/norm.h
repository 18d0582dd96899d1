// Normalisation of rows: RMSNorm and LayerNorm, alone or before an addition to the residual stream.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"
#include "ptx/warp.h"

namespace heddle::kernels {

// The mean and factor that a row is normalised with, computed by the threads that share it: a warp or a block.
enum NormKind : uint32_t { norm_none, norm_rms, norm_layer };
inline Allowed norm_kinds() { return named({"none", "rms", "layer"}); }

// (x - mean - rest) * scale; without a norm x itself.
struct RowNorm {
  uint32_t kind = norm_none;
  ptx::F32 mean{}, rest{}, scale{};

  ptx::F32 of(ptx::F32 x) const {
    if (kind == norm_none) return x;
    return (kind == norm_layer ? x - mean - rest : x) * scale;
  }
};

// each(f): f(x) for every value of this thread. sum(x): over all threads that share the row, the same for each of them.
RowNorm row_norm(ptx::Code& k, uint32_t kind, ptx::U32 size, ptx::F32 epsilon, auto&& each, auto&& sum) {
  using ptx::F32;
  RowNorm norm{.kind = kind};
  if (kind == norm_none) return norm;
  const F32 part = rcp(to_f32(size));
  auto squares = k.var(0.0f);
  if (kind == norm_rms) {
    each([&](F32 x) { squares.add_product(x, x); });
    norm.scale = rsqrt_approx(fma(sum(squares.get()), part, epsilon));
    return norm;
  }
  auto total = k.var(0.0f), differences = k.var(0.0f);
  each([&](F32 x) { total += x; });
  norm.mean = sum(total.get()) * part;
  // The mean of large values is off by many units in their last place: the remaining mean of the differences corrects
  // it, and the variance.
  each([&](F32 x) {
    F32 d = x - norm.mean;
    differences += d;
    squares.add_product(d, d);
  });
  norm.rest = sum(differences.get()) * part;
  const F32 variance = max(fma(-norm.rest, norm.rest, sum(squares.get()) * part), 0.0f);
  norm.scale = rsqrt_approx(variance + epsilon);
  return norm;
}

// y = x / sqrt(mean(x^2) + eps) * w, one block per row. y may be x.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm", summary = "RMSNorm of rows of f32, one block per row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;  // (rows, cols)
    ptx::DevicePtr<float> w;     // (cols)
    uint32_t rows, cols;
    float eps;
  };
  uint32_t threads = 256;
  uint32_t vec = 1;       // values per load; cols must be a multiple of it
  uint32_t plus_one = 0;  // times (1 + w), as Gemma stores its weights
  uint32_t chained = 0;
  auto operator<=>(const RmsNorm&) const = default;
  static auto fields() {
    return std::tuple(Field<RmsNorm>{"threads", &RmsNorm::threads, range(32, 1024, 32)},
                      Field<RmsNorm>{"vec", &RmsNorm::vec, one_of({1, 2, 4})},
                      Field<RmsNorm>{"plus_one", &RmsNorm::plus_one, yes_or_no()},
                      Field<RmsNorm>{"chained", &RmsNorm::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// y = (x - mean(x)) / sqrt(variance(x) + eps) * w + b, one block per row. y may be x.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm", summary = "LayerNorm of rows of f32, one block per row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;  // (rows, cols)
    ptx::DevicePtr<float> w, b;  // (cols); b is not read without a bias
    uint32_t rows, cols;
    float eps;
  };
  uint32_t threads = 256;
  uint32_t vec = 1;  // values per load; cols must be a multiple of it
  uint32_t bias = 1;
  uint32_t chained = 0;
  auto operator<=>(const LayerNorm&) const = default;
  static auto fields() {
    return std::tuple(Field<LayerNorm>{"threads", &LayerNorm::threads, range(32, 1024, 32)},
                      Field<LayerNorm>{"vec", &LayerNorm::vec, one_of({1, 2, 4})},
                      Field<LayerNorm>{"bias", &LayerNorm::bias, yes_or_no()},
                      Field<LayerNorm>{"chained", &LayerNorm::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// h += scale * (norm(y) * weight + bias), or without a norm h += scale * (y + bias). One block per row. With `also` a
// second row is added, and with `after` the sum is multiplied.
struct NormAdd {
  static constexpr std::string_view name = "norm_add", summary = "h += scale * norm(y), rows of f32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> h, y;          // (rows, cols)
    ptx::DevicePtr<float> weight, bias;  // (cols); the weight is read with a norm, the bias with `bias`
    uint32_t rows, cols;
    float scale = 1, epsilon = 0;
    ptx::DevicePtr<float> also{};  // (rows, cols); read with `also`
    float after = 1;               // the factor of `after`
  };
  uint32_t threads = 256;
  uint32_t norm = norm_rms;
  uint32_t bias = 0;
  uint32_t also = 0, after = 0;
  uint32_t chained = 0;
  auto operator<=>(const NormAdd&) const = default;
  static auto fields() {
    using F = Field<NormAdd>;
    return std::tuple(F{"threads", &NormAdd::threads, range(32, 1024, 32)}, F{"norm", &NormAdd::norm, norm_kinds()},
                      F{"bias", &NormAdd::bias, yes_or_no()}, F{"also", &NormAdd::also, yes_or_no()},
                      F{"after", &NormAdd::after, yes_or_no()}, F{"chained", &NormAdd::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// h += scale * norm(norm(a) + norm(b)), and with `after` the sum is multiplied. The norms are RMSNorms, each with a
// weight of its own. One block per row.
struct NormSum {
  static constexpr std::string_view name = "norm_sum", summary = "h += scale * norm(norm(a) + norm(b)), rows of f32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> h, a, b;                     // (rows, cols)
    ptx::DevicePtr<float> a_weight, b_weight, weight;  // (cols)
    uint32_t rows, cols;
    float a_epsilon, b_epsilon, epsilon;
    float scale = 1;
    float after = 1;  // the factor of `after`
  };
  uint32_t threads = 256;
  uint32_t after = 0;
  uint32_t chained = 0;
  auto operator<=>(const NormSum&) const = default;
  static auto fields() {
    using F = Field<NormSum>;
    return std::tuple(F{"threads", &NormSum::threads, range(32, 1024, 32)}, F{"after", &NormSum::after, yes_or_no()},
                      F{"chained", &NormSum::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// y = p * |x| / |p|: rows of p, made as long as those of x. The mean square of p counts as `least` where it is less.
// One block per row. y may be p.
struct MatchLength {
  static constexpr std::string_view name = "match_length", summary = "rows of f32 made as long as those of another",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, p, x;  // (rows, cols)
    uint32_t rows, cols;
    float least;
  };
  uint32_t threads = 256;
  uint32_t chained = 0;
  auto operator<=>(const MatchLength&) const = default;
  static auto fields() {
    using F = Field<MatchLength>;
    return std::tuple(F{"threads", &MatchLength::threads, range(32, 1024, 32)},
                      F{"chained", &MatchLength::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
