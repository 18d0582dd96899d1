// Timing of what a prompt needs: products of many rows, the rows made ready for them, attention of many tokens.
#include "kernels/attention/prompt_attention.h"
#include "kernels/product/gemm.h"
#include "kernels/product/half_rows.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

constexpr uint32_t prompt_sms = 132;

// The bits of f16 inputs matter for the power a GPU draws, so they are normal numbers.
std::vector<f16> halves(Random& random, size_t count) {
  std::vector<f16> x(count);
  std::vector<float> some = random.normals(4099);
  for (size_t i = 0; i < count; ++i) x[i] = to_f16(some[i % some.size()]);
  return x;
}

Bench gemm(uint32_t m, uint32_t n, uint32_t k) {
  kernels::Gemm spec = kernels::gemm_choice(m, n, k, prompt_sms);
  spec.chained = 1;
  const double weights = 2.0 * n * k, bytes = weights + 2.0 * m * k + 4.0 * m * n;
  auto prepare = [=](Machine& machine, Random& random) -> Bench::Round {
    const std::vector<f16> one = halves(random, size_t(n) * k);
    std::vector<ptx::DevicePtr<f16>> b;
    for (uint32_t i = 0; i < copies(bytes); ++i) b.push_back(machine.put(one));
    kernels::Gemm::Args args{.y = machine.poisoned<float>(size_t(m) * n),
                             .a = machine.put(halves(random, size_t(m) * k)),
                             .b = {},
                             .scale = machine.put(std::vector<float>(m, 1.0f)),
                             .bias = {},
                             .m = m,
                             .n = n,
                             .k = k,
                             .lda = k,
                             .ldb = k,
                             .y_stride = n};
    return [=](Machine& now, uint32_t r) mutable {
      args.b = b[r % b.size()];
      now.launch(spec, args);
    };
  };
  return {"gemm",          fmt::format("{} x {} -> {}, tiles of {} x {}", m, k, n, spec.rows, spec.cols),
          "sm_90",         bytes,
          2.0 * m * n * k, prepare};
}

Bench half_rows(uint32_t rows, uint32_t cols, uint32_t norm) {
  kernels::HalfRows spec = kernels::half_rows_choice(cols, cols, cols);
  spec.norm = norm, spec.weight = norm != kernels::HalfRows::none, spec.chained = 1;
  const double bytes = 6.0 * rows * cols;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    std::vector<ptx::DevicePtr<float>> x;
    const std::vector<float> one = random.normals(size_t(rows) * cols);
    for (uint32_t i = 0; i < copies(bytes); ++i) x.push_back(m.put(one));
    kernels::HalfRows::Args args{.out = m.poisoned<f16>(size_t(rows) * cols),
                                 .scale = m.poisoned<float>(rows),
                                 .x = {},
                                 .weight = m.put(random.normals(cols)),
                                 .bias = {},
                                 .list = {},
                                 .rows = rows,
                                 .cols = cols,
                                 .x_stride = cols,
                                 .ld = cols,
                                 .epsilon = 1e-5f};
    return [=](Machine& now, uint32_t r) mutable {
      args.x = x[r % x.size()];
      now.launch(spec, args);
    };
  };
  return {"half_rows", fmt::format("{}{} x {}", norm ? "rms " : "", rows, cols), "sm_90", bytes, 0, prepare};
}

// The last `rows` tokens of `length`, 32 heads over 8 kv heads.
Bench attention(uint32_t head_dim, uint32_t length, uint32_t rows, uint32_t exact_q) {
  constexpr uint32_t heads = 32, kv_heads = 8, page = 64;
  kernels::PromptAttention spec = kernels::prompt_choice(head_dim, rows, exact_q);
  spec.chained = 1;
  const double seen = double(rows) * (length - (rows - 1) / 2.0);
  const double bytes = 4.0 * length * kv_heads * head_dim + 8.0 * rows * heads * head_dim;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const uint32_t pages = (length + page - 1) / page, width = heads * head_dim;
    std::vector<int32_t> table(pages);
    for (uint32_t i = 0; i < pages; ++i) table[i] = int32_t(pages - 1 - i);
    std::vector<kernels::PromptTile> tiles;
    for (uint32_t r = 0; r < rows; r += spec.queries)
      tiles.push_back({0, r, std::min(spec.queries, rows - r), length - rows + r});
    auto cache = [&] {
      return ptx::DevicePtr<uint8_t>{m.put(halves(random, size_t(pages) * page * kv_heads * head_dim)).address};
    };
    const kernels::PromptAttention::Args args{.out = m.poisoned<float>(size_t(rows) * width),
                                              .q = m.put(random.normals(size_t(rows) * width)),
                                              .k = cache(),
                                              .v = cache(),
                                              .table = m.put(table),
                                              .tiles = m.put(tiles),
                                              .tile_count = uint32_t(tiles.size()),
                                              .heads = heads,
                                              .kv_heads = kv_heads,
                                              .q_stride = width,
                                              .out_stride = width,
                                              .page_size = page,
                                              .table_stride = pages,
                                              .window = 0,
                                              .scale = 1 / std::sqrt(float(head_dim)),
                                              .softcap = 0};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {"prompt_attention",
          fmt::format("{} of {} tokens, 32 heads of {}{}", rows, length, head_dim, exact_q ? ", exact q" : ""),
          "sm_90",
          bytes,
          4.0 * seen * heads * head_dim,
          prepare};
}

}  // namespace

void add_prompt_benches(std::vector<Bench>& all) {
  for (uint32_t m : {16u, 32u, 64u, 128u, 512u, 2048u})
    for (auto [n, k] : {std::pair{6144u, 4096u}, {4096u, 4096u}, {28672u, 4096u}, {4096u, 14336u}})
      all.push_back(gemm(m, n, k));
  all.push_back(half_rows(512, 4096, kernels::HalfRows::none));
  all.push_back(half_rows(512, 4096, kernels::HalfRows::rms));
  all.push_back(half_rows(2048, 14336, kernels::HalfRows::none));
  for (uint32_t exact_q : {0u, 1u}) {
    for (uint32_t length : {512u, 2048u, 8192u}) all.push_back(attention(128, length, length, exact_q));
    all.push_back(attention(128, 8192, 512, exact_q));
  }
  for (uint32_t dim : {64u, 80u, 256u}) all.push_back(attention(dim, 4096, 4096, 0));
}

}  // namespace heddle::proof
