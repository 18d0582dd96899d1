// Random inputs, comparisons and the list of all cases.
#include "proof/case.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "ptx/verify.h"

namespace heddle::proof {

float Random::normal() {
  // Box and Muller; the second of the pair is for the next call
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  const double u = (double(bits_() >> 11) + 0.5) * 0x1p-53, v = double(bits_() >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  second_ = float(radius * std::sin(angle));
  has_second_ = true;
  return float(radius * std::cos(angle));
}

std::vector<float> Random::normals(size_t n, float scale) {
  std::vector<float> v(n);
  for (auto& x : v) x = normal() * scale;
  return v;
}

std::vector<uint8_t> Random::bytes(size_t n) {
  std::vector<uint8_t> v(n);
  for (size_t i = 0; i < n; i += 8) {
    const uint64_t b = bits_();
    std::memcpy(v.data() + i, &b, std::min<size_t>(8, n - i));
  }
  return v;
}

const std::vector<float>& beyond_f16() {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<float> all{nan, infinity, -infinity, 65504, 65520, -65520, 3e38f, -nan};
  return all;
}

std::vector<f16> within_f16(const std::vector<float>& x) {
  std::vector<f16> y;
  for (float v : x) y.push_back(to_f16(std::isnan(v) ? v : std::clamp(v, -65504.0f, 65504.0f)));
  return one_nan(std::move(y));
}

std::vector<f16> one_nan(std::vector<f16> x) {
  for (f16& v : x)
    if ((v.bits & 0x7fff) > 0x7c00) v.bits = 0x7fff;
  return x;
}

void Check::near(const std::string& what, std::span<const float> got, std::span<const double> want,
                 std::span<const double> scale, double bound) {
  checked_ = true;
  if (got.size() != want.size() || scale.size() != want.size())
    return fail(fmt::format("{}: {} values, {} expected, {} scales", what, got.size(), want.size(), scale.size()));
  for (size_t i = 0; i < got.size(); ++i) {
    ++compared_;
    const double error = std::abs(double(got[i]) - want[i]), allowed = bound * scale[i];
    if (error <= allowed && std::isfinite(allowed)) {
      if (allowed > 0) worst_ = std::max(worst_, error / allowed);
      continue;
    }
    if (failure_.empty())
      fail(
          fmt::format("{}[{}] is {}, not {}: off by {:.3g}, allowed {:.3g}", what, i, got[i], want[i], error, allowed));
  }
}

void Check::near_relative(const std::string& what, std::span<const float> got, std::span<const double> want,
                          double bound) {
  std::vector<double> scale(want.size());
  for (size_t i = 0; i < want.size(); ++i) scale[i] = std::abs(want[i]);
  near(what, got, want, scale, bound);
}

// Each file of cases appends its own, in a function at its end that is named after it.
using AddCases = void(Sweep sweep, std::vector<Case>& cases);
AddCases add_tile_pack_cases, add_half_rows_cases, add_mma_product_cases, add_mma_tiles_cases, add_wgmma_product_cases,
    add_product_cases, add_stream_read_cases;
AddCases add_cluster_attention_cases, add_prompt_attention_cases, add_wgmma_attention_cases, add_any_attention_cases,
    add_heads_cases, add_latent_attention_cases, add_latent_expand_cases;
AddCases add_embedding_cases, add_norm_cases, add_elementwise_cases, add_cut_gate_cases, add_altup_cases,
    add_all_reduce_cases, add_norm_across_cases, add_move_parts_cases;
AddCases add_mixture_cases, add_router_cases, add_group_rows_cases, add_own_experts_cases;
AddCases add_recurrence_cases, add_chunked_recurrence_cases, add_convolution_cases;
AddCases add_sample_cases, add_step_advance_cases, add_top_tokens_cases;

std::vector<Case> all_cases(Sweep sweep) {
  std::vector<Case> cases;
  for (AddCases* add : {add_tile_pack_cases,
                        add_half_rows_cases,
                        add_mma_product_cases,
                        add_mma_tiles_cases,
                        add_wgmma_product_cases,
                        add_product_cases,
                        add_stream_read_cases,
                        add_cluster_attention_cases,
                        add_prompt_attention_cases,
                        add_wgmma_attention_cases,
                        add_any_attention_cases,
                        add_heads_cases,
                        add_latent_attention_cases,
                        add_latent_expand_cases,
                        add_embedding_cases,
                        add_norm_cases,
                        add_elementwise_cases,
                        add_mixture_cases,
                        add_router_cases,
                        add_group_rows_cases,
                        add_sample_cases,
                        add_step_advance_cases,
                        add_top_tokens_cases,
                        add_recurrence_cases,
                        add_chunked_recurrence_cases,
                        add_convolution_cases,
                        add_cut_gate_cases,
                        add_altup_cases,
                        add_all_reduce_cases,
                        add_norm_across_cases,
                        add_move_parts_cases,
                        add_own_experts_cases})
    add(sweep, cases);
  return cases;
}

void add_once(std::vector<Case>& cases, Case one) {
  if (std::none_of(cases.begin(), cases.end(),
                   [&](const Case& c) { return c.kernel == one.kernel && c.shape == one.shape; }))
    cases.push_back(std::move(one));
}

Check run_case(const Case& c, Machine& machine, uint64_t seed) {
  for (char letter : c.kernel + " " + c.shape) seed = (seed ^ uint8_t(letter)) * 0x100000001b3;  // FNV-1a
  Random random(seed);
  Check check;
  try {
    machine.clear();
    c.run(machine, random, check);
    machine.check_guards();
    if (!check.checked()) check.fail("nothing was compared");
  } catch (const ptx::TooMuchShared&) {
    check.set_too_large();
  } catch (const std::exception& error) {
    check.fail(error.what());
  }
  return check;
}

}  // namespace heddle::proof
