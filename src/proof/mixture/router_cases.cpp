// Cases of router, and its timing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/mixture/router.h"
#include "proof/bench.h"
#include "proof/format/weights.h"
#include "proof/mixture/expert_choice.h"

namespace heddle::proof {
namespace {

using kernels::Router;

struct RouterShape {
  uint32_t rows, cols, experts, used;
  bool shared = false;  // one more row than experts
  bool equal = false;   // pairs of experts with the same logits
  uint32_t groups = 1;  // of which two are used

  // Other choices than the shares of the largest logits.
  static bool chooses(const Router& spec) {
    return spec.score != kernels::score_softmax || spec.choice_bias || spec.groups || spec.scaled || spec.each_scaled;
  }
};

class RouterProblem {
 public:
  RouterProblem(const Router& spec, const RouterShape& s, Machine& m, Random& random)
      : spec_(spec), s_(s), m_(m), router_rows_(s.experts + s.shared) {
    w_ = random.normals(size_t(router_rows_) * s.cols, 0.3f);
    for (uint32_t e = 1; s.equal && e < s.experts; e += 2)
      std::copy_n(w_.begin() + (e - 1) * s.cols, s.cols, w_.begin() + e * s.cols);
    std::vector<uint8_t> file(w_.size() * 4);
    std::memcpy(file.data(), w_.data(), file.size());
    const uint32_t padded = (s.cols + 3) / 4 * 4, stride = padded + 4;
    x_.assign(size_t(s.rows) * stride, 0.0f);
    norm_.assign(padded, 0.0f);
    shift_.assign(padded, 0.0f);
    for (uint32_t c = 0; c < s.cols; ++c) {
      for (uint32_t r = 0; r < s.rows; ++r) x_[size_t(r) * stride + c] = random.normal() * 3 + 1;
      norm_[c] = random.uniform(0.5f, 1.5f);
      shift_[c] = random.normal() * 0.1f;
    }
    bias_ = random.normals(s.experts);
    choice_bias_ = random.normals(s.experts, 0.3f);
    scales_ = random.normals(s.experts);
    args_ = {.ids = m.poisoned<uint32_t>(size_t(s.rows) * s.used),
             .weights = m.poisoned<float>(size_t(s.rows) * s.used),
             .scores = m.poisoned<float>(size_t(s.rows) * 3),
             .x = m.put(x_),
             .norm = m.put(norm_),
             .shift = m.put(shift_),
             .w = m.put(tiles_of({quant::Format::f32, router_rows_, s.cols, spec.tile_cols}, file)),
             .rows = s.rows,
             .cols = s.cols,
             .experts = s.experts,
             .router_rows = router_rows_,
             .used = s.used,
             .x_stride = stride,
             .scores_stride = 3,
             .epsilon = 1e-5f,
             .bias = m.put(bias_),
             .choice_bias = m.put(choice_bias_),
             .groups = s.groups,
             .groups_used = 2,
             .scale = 2.5f,
             .near = 0.3f,
             .scales = m.put(scales_)};
  }

  void run(Check& check) {
    m_.launch(spec_, args_);
    const std::vector<uint32_t> ids = m_.get(args_.ids, size_t(s_.rows) * s_.used);
    const std::vector<float> all_weights = m_.get(args_.weights, ids.size());
    std::vector<double> want, sizes, scores, score_sizes;
    std::vector<float> got_scores;
    const std::vector<float> all_scores = m_.get(args_.scores, size_t(s_.rows) * 3);
    for (uint32_t r = 0; r < s_.rows; ++r) {
      std::vector<double> logits, errors;
      find_logits(r, logits, errors);
      const auto of_row = std::span(ids).subspan(size_t(r) * s_.used, s_.used);
      if (RouterShape::chooses(spec_)) {
        const auto weights = std::span(all_weights).subspan(size_t(r) * s_.used, s_.used);
        check_routed({.choice = kernels::choice_of(spec_),
                      .used = s_.used,
                      .groups = s_.groups,
                      .groups_used = 2,
                      .scale = 2.5,
                      .near = 0.3f,
                      .logits = {logits.begin(), logits.begin() + s_.experts},
                      .errors = {errors.begin(), errors.begin() + s_.experts},
                      .bias = choice_bias_,
                      .scales = scales_},
                     {of_row.begin(), of_row.end()}, {weights.begin(), weights.end()}, check);
      } else {
        if (!expect_ids(r, of_row, logits, errors, check)) return;
        expect_weights(of_row, logits, errors, want, sizes);
      }
      if (!s_.shared) continue;
      got_scores.push_back(all_scores[r * 3]);
      scores.push_back(logits.back());
      score_sizes.push_back(errors.back());
    }
    if (!want.empty()) check.near("weights", all_weights, want, sizes, 1.0);
    check.near("scores", got_scores, scores, score_sizes, 1.0);
  }

 private:
  // In f64, with a bound of the error of each: a lane adds 32 products, then come the lanes and the slices, and a norm
  // adds a few roundings to every value of x.
  void find_logits(uint32_t row, std::vector<double>& logits, std::vector<double>& errors) const {
    std::vector<double> x;
    for (uint32_t c = 0; c < s_.cols; ++c) x.push_back(x_[size_t(row) * args_.x_stride + c]);
    double mean = 0, squares = 0;
    if (spec_.norm == Router::layer) mean = std::accumulate(x.begin(), x.end(), 0.0) / s_.cols;
    for (double v : x) squares += (v - mean) * (v - mean);
    const double factor = 1 / std::sqrt(squares / s_.cols + args_.epsilon);
    double added = 0;  // by the rounding of the mean
    for (uint32_t c = 0; spec_.norm && c < s_.cols; ++c) {
      x[c] = (x[c] - mean) * factor * norm_[c] + (spec_.norm == Router::layer ? shift_[c] : 0);
      added = std::max(added, std::abs(mean) * factor * 0x1p-20);
    }
    for (uint32_t e = 0; e < router_rows_; ++e) {
      double sum = 0, size = 0;
      for (uint32_t c = 0; c < s_.cols; ++c) {
        const double w = w_[size_t(e) * s_.cols + c];
        sum += w * x[c];
        size += std::abs(w) * (std::abs(x[c]) + (spec_.norm == Router::layer ? added / 0x1p-18 : 0));
      }
      if (spec_.bias && e < s_.experts) {
        sum += bias_[e];
        size += std::abs(bias_[e]);
      }
      logits.push_back(sum);
      errors.push_back(size * (64 + spec_.slices + (spec_.norm ? 24 : 0)) * 0x1p-24);
    }
  }

  // Largest first and different ones; none that was left out is larger by more than the errors allow. Equal logits go
  // by the lower id. False if one of them is no expert.
  bool expect_ids(uint32_t row, std::span<const uint32_t> ids, const std::vector<double>& logits,
                  const std::vector<double>& errors, Check& check) const {
    std::vector<bool> taken(s_.experts);
    for (uint32_t j = 0; j < s_.used; ++j) {
      const uint32_t id = ids[j];
      check.that(id < s_.experts && !taken[id], fmt::format("row {}: expert {} is {}", row, j, id));
      if (id >= s_.experts) return false;
      taken[id] = true;
      for (uint32_t e = 0; e < s_.experts; ++e) {
        if (taken[e]) continue;
        const bool better = logits[e] > logits[id] + errors[e] + errors[id];
        const bool tie = s_.equal && e / 2 == id / 2 && e < id;
        check.that(!better && !tie, fmt::format("row {}: {} before {}", row, id, e));
      }
    }
    return true;
  }
  void expect_weights(std::span<const uint32_t> ids, const std::vector<double>& logits,
                      const std::vector<double>& errors, std::vector<double>& want, std::vector<double>& sizes) const {
    const double top = *std::max_element(logits.begin(), logits.begin() + s_.experts);
    const double error = *std::max_element(errors.begin(), errors.end());
    double sum = 0;
    for (uint32_t e = 0; e < s_.experts; ++e)
      if (!spec_.sum_to_one || std::ranges::count(ids, e)) sum += std::exp(logits[e] - top);
    for (uint32_t id : ids) {
      const double share = std::exp(logits[id] - top) / sum;
      want.push_back(share);
      // subnormal numbers have less than 24 bits
      sizes.push_back(share * (8e-7 + 22 * 0x1p-24 + 3 * error + (top - logits[id]) * 0x1p-24) + 0x1p-148);
    }
  }

  const Router& spec_;
  const RouterShape& s_;
  Machine& m_;
  const uint32_t router_rows_;
  std::vector<float> w_, x_, norm_, shift_, bias_, choice_bias_, scales_;
  Router::Args args_{};
};

Case router(Router spec, const RouterShape& s) {
  return {"router",
          fmt::format("{} rows={} cols={} used={}/{} shared={} equal={} groups={}", field_text(spec), s.rows, s.cols,
                      s.used, s.experts, s.shared, s.equal, s.groups),
          "sm_90", [=](Machine& m, Random& random, Check& check) { RouterProblem(spec, s, m, random).run(check); }};
}

Router chosen_router(uint32_t experts, uint32_t router_rows, uint32_t cols) {
  Router spec = *kernels::router_choice(experts, router_rows, cols);
  spec.sum_to_one = 1;
  spec.chained = 1;
  return spec;
}

Bench router_bench(const Router& spec, uint32_t rows, uint32_t cols, uint32_t experts, uint32_t used) {
  const uint64_t bytes = uint64_t(experts) * cols * 4;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) {
      const std::vector<float> one = random.normals(bytes / 4);
      w.push_back({m.put(one).address});
    }
    Router::Args args{.ids = m.poisoned<uint32_t>(size_t(rows) * used),
                      .weights = m.poisoned<float>(size_t(rows) * used),
                      .x = m.put(random.normals(size_t(rows) * cols)),
                      .norm = m.put(std::vector<float>(cols, 1.0f)),
                      .rows = rows,
                      .cols = cols,
                      .experts = experts,
                      .router_rows = experts,
                      .used = used,
                      .x_stride = cols};
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {"router",
          fmt::format("{} rows x {} -> {} of {} splits={} warps={} depth={}", rows, cols, used, experts, spec.splits,
                      spec.warps, spec.depth),
          "sm_90",
          double(bytes),
          2.0 * rows * cols * experts,
          prepare};
}

}  // namespace

void add_router_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(router({.slices = 1, .splits = 2, .warps = 2, .depth = 2}, {2, 900, 30, 4, true}));
  if (sweep == Sweep::quick) return;
  for (uint32_t norm : {Router::none, Router::rms, Router::layer})
    for (uint32_t sum_to_one : {0u, 1u}) {
      cases.push_back(router(
          {.slices = 3, .largest = 64, .splits = 4, .norm = norm, .sum_to_one = sum_to_one, .chained = sum_to_one},
          {1, 3000, 50, 6, true}));
      cases.push_back(router({.tile_cols = 256,
                              .slices = 1,
                              .largest = 32,
                              .splits = 2,
                              .warps = 1,
                              .norm = norm,
                              .sum_to_one = sum_to_one},
                             {3, 60, 32, 32, true, true}));
    }
  cases.push_back(router({.tile_cols = 512, .slices = 2, .largest = 256, .splits = 8}, {2, 1000, 200, 8}));
  cases.push_back(router({.tile_cols = 256, .slices = 3, .largest = 512, .splits = 16, .depth = 2}, {1, 768, 512, 10}));
  cases.push_back(router({.tile_cols = 256, .slices = 1, .splits = 2}, {2, 64, 1, 1}));
  cases.push_back(router({.tile_cols = 256, .slices = 1, .splits = 2, .bias = 1}, {2, 64, 40, 4, true}));
  for (const Router& choice : routing_choices(Router{.tile_cols = 256, .slices = 1, .splits = 2, .bias = 1}))
    cases.push_back(router(choice, {2, 100, 120, 4, true, false, 6}));
  cases.push_back(router(chosen_router(128, 128, 2048), {1, 2048, 128, 8}));
  cases.push_back(router(chosen_router(8, 8, 4096), {3, 4096, 8, 2}));
  cases.push_back(router(chosen_router(60, 61, 2048), {1, 2048, 60, 4, true}));
  if (sweep == Sweep::normal) return;
  cases.push_back(router(chosen_router(256, 256, 7168), {8, 7168, 256, 8}));
  cases.push_back(router(chosen_router(512, 513, 4096), {16, 4096, 512, 10, true}));
}

void add_router_benches(std::vector<Bench>& all) {
  for (uint32_t rows : {1u, 2u, 4u, 8u}) all.push_back(router_bench(chosen_router(128, 128, 2048), rows, 2048, 128, 8));
  for (uint32_t splits : {8u, 16u})
    for (uint32_t warps : {4u, 8u}) {
      Router spec = chosen_router(128, 128, 2048);
      spec.splits = splits;
      spec.warps = warps;
      spec.depth = std::max(1u, 64 / splits / warps);
      all.push_back(router_bench(spec, 1, 2048, 128, 8));
    }
}

}  // namespace heddle::proof
