// Cases: a kernel, a shape, fresh random inputs, and the f64 reference. The same cases are interpreted in the tests and
// run on the GPU by `heddle selftest`.
#pragma once
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/f16.h"
#include "kernels/spec/gpu_limits.h"
#include "proof/machine.h"

namespace heddle::proof {

// Random inputs, the same for a seed on every machine (the standard's distributions differ between libraries).
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint64_t bits() { return bits_(); }
  uint32_t below(uint32_t n) { return uint32_t(bits_() % n); }
  float uniform(float low, float high) { return low + (high - low) * float(bits_() >> 40) * 0x1p-24f; }
  float normal();
  std::vector<float> normals(size_t n, float scale = 1);
  std::vector<uint8_t> bytes(size_t n);

 private:
  std::mt19937_64 bits_;
  float second_ = 0;
  bool has_second_ = false;
};

// Numbers that f16 cannot hold, and the largest that it can: what a kernel must turn into NaN or +-65504 on the way to
// f16.
const std::vector<float>& beyond_f16();
// Each value as f16, where infinities and what is beyond the range become +-65504 and NaN stays NaN.
std::vector<f16> within_f16(const std::vector<float>& x);
// With one pattern for all NaNs: a kernel may give any of them.
std::vector<f16> one_nan(std::vector<f16> x);

// What a case compares. The first difference is kept as text; nothing is thrown, so that a table can show them all.
class Check {
 public:
  // |got - want| <= bound * scale for each value; scale is what the size of a rounding error follows (for a sum: the
  // sum of the magnitudes). NaN or infinity in `got` where `want` is finite is a failure.
  void near(const std::string& what, std::span<const float> got, std::span<const double> want,
            std::span<const double> scale, double bound);
  // The same with scale = |want|.
  void near_relative(const std::string& what, std::span<const float> got, std::span<const double> want, double bound);
  // Bit for bit.
  template <class T>
  void equal(const std::string& what, const std::vector<T>& got, const std::vector<T>& want) {
    checked_ = true;
    if (got.size() != want.size()) return fail(fmt::format("{}: {} values, not {}", what, got.size(), want.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      ++compared_;
      if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0)
        return fail(fmt::format("{}[{}] is {}, not {}", what, i, show(got[i]), show(want[i])));
    }
  }
  void that(bool holds, const std::string& what) {
    checked_ = true;
    ++compared_;
    if (!holds) fail(what);
  }
  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what.empty() ? "failed" : what;
  }

  const std::string& failure() const { return failure_; }  // empty: none
  double worst() const { return worst_; }                  // largest error / (bound * scale)
  uint64_t compared() const { return compared_; }          // values
  bool checked() const { return checked_; }                // something was compared, if only an empty list
  // False: the machine's GPU has too little shared memory for the case's kernel. Nothing has failed.
  bool fits() const { return fits_; }
  void set_too_large() { fits_ = false; }

 private:
  template <class T>
  static std::string show(const T& v) {
    if constexpr (std::is_arithmetic_v<T>)
      return fmt::format("{}", v);
    else
      return fmt::format("{}", to_f32(v));
  }
  std::string failure_;
  double worst_ = 0;
  uint64_t compared_ = 0;
  bool checked_ = false, fits_ = true;
};

struct Case {
  std::string kernel;         // the name in the catalog
  std::string shape;          // "f16 head_dim=128 length=129": unique among the kernel's cases
  std::string lowest_target;  // "sm_75"
  std::function<void(Machine&, Random&, Check&)> run;
  const char* file = __builtin_FILE();  // where it is written: "src/proof/layer/norm_cases.cpp"
};

// The lowest target of a spec: launches that are chained and bulk copies need sm_90.
template <class Spec>
std::string target_of(const Spec& spec) {
  if (spec.chained) return "sm_90";
  if constexpr (requires { spec.copies; }) return spec.copies == kernels::copies_bulk ? "sm_90" : "sm_75";
  return std::string(Spec::lowest_target);
}

// Appends a case unless the list has one of this kernel and shape: GPUs may take the same shape of a kernel.
void add_once(std::vector<Case>& cases, Case one);

// quick: one or two per kernel, for sanitizers of any kind. normal: the sweep of the tests, cheap enough to interpret.
// full: adds sizes that only a GPU does in reasonable time.
enum class Sweep { quick, normal, full };

std::vector<Case> all_cases(Sweep sweep);

// Runs one case on a cleared machine; exceptions become failures. The inputs follow from the seed and the case's names.
Check run_case(const Case& c, Machine& machine, uint64_t seed);

}  // namespace heddle::proof
