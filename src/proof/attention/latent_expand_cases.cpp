// Cases of latent_expand, and its timing. Positions behind the last and pages of no sequence are NaN, so that reading
// them shows.
#include "kernels/attention/latent_expand.h"
#include "proof/attention/attention_problem.h"
#include "proof/bench.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::LatentExpand;

std::vector<f16> rounded_halves(std::vector<float>& values) {
  std::vector<f16> all;
  for (float& value : values) {
    all.push_back(to_f16(value));
    value = to_f32(all.back());
  }
  return all;
}

Case latent_expand(const LatentExpand& spec, uint32_t heads, uint32_t positions, uint32_t page_size = 16) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t row = spec.rank + spec.rotated, whole = spec.plain + spec.rotated, stride = positions + 5;
    const uint32_t sequence = 1;
    PageTable pages(2, positions, page_size);
    for (uint32_t p = 0; p < positions; ++p) pages.need(sequence, p);
    pages.place(random);
    KvRows cache(pages.rows(1), row, spec.cache);
    std::vector<float> latents = random.normals(size_t(positions) * row);
    for (uint32_t p = 0; p < positions; ++p) cache.put(pages.row(sequence, p, 1, 0), &latents[size_t(p) * row], true);
    std::vector<float> k_up = random.normals(size_t(heads) * spec.rank * spec.plain, 0.1f);
    std::vector<float> v_up = random.normals(size_t(heads) * spec.value * spec.rank, 0.1f);
    const f16 untouched{0x5a5a};
    const std::vector<f16> no_keys(size_t(heads) * stride * whole, untouched),
        no_values(size_t(heads) * stride * spec.value, untouched);
    const LatentExpand::Args args{.keys = m.put(no_keys),
                                  .values = m.put(no_values),
                                  .cache = {m.put(cache.bytes).address},
                                  .scales = m.put(cache.scales),
                                  .k_up = m.put(rounded_halves(k_up)),
                                  .v_up = m.put(rounded_halves(v_up)),
                                  .table = m.put(pages.table()),
                                  .sequence = sequence,
                                  .table_stride = pages.stride(),
                                  .page_size = page_size,
                                  .positions = positions,
                                  .stride = stride,
                                  .heads = heads};
    m.launch(spec, args);
    auto compare = [&](const char* what, const std::vector<f16>& got, uint32_t width, auto&& value) {
      std::vector<float> widened;
      for (f16 x : got) widened.push_back(to_f32(x));
      std::vector<double> want(got.size(), to_f32(untouched)), size(got.size(), 0);
      for (uint32_t h = 0; h < heads; ++h)
        for (uint32_t p = 0; p < positions; ++p)
          for (uint32_t i = 0; i < width; ++i) {
            const size_t at = (size_t(h) * stride + p) * width + i;
            value(h, &latents[size_t(p) * row], i, want[at], size[at]);
          }
      // the sum of f16 products in f32, and the result as f16
      check.near(what, widened, want, size, 0x1.1p-11);
    };
    auto sum = [&](const float* latent, auto&& matrix, double& want, double& size) {
      want = 0;
      for (uint32_t j = 0; j < spec.rank; ++j) {
        const double part = double(latent[j]) * matrix(j);
        want += part;
        size += std::abs(part) * 0x1p-9;  // what the sum rounds to, in units of the bound
      }
      size += std::abs(want);
    };
    compare("keys", m.get(args.keys, no_keys.size()), whole,
            [&](uint32_t h, const float* latent, uint32_t i, double& want, double& size) {
              if (i >= spec.plain) {
                want = latent[spec.rank + i - spec.plain];  // exact
                return;
              }
              sum(
                  latent, [&](uint32_t j) { return k_up[(size_t(h) * spec.rank + j) * spec.plain + i]; }, want, size);
            });
    compare("values", m.get(args.values, no_values.size()), spec.value,
            [&](uint32_t h, const float* latent, uint32_t i, double& want, double& size) {
              sum(
                  latent, [&](uint32_t j) { return v_up[(size_t(h) * spec.value + i) * spec.rank + j]; }, want, size);
            });
  };
  return {"latent_expand",
          fmt::format("{} heads={} positions={} pages={}", field_text(spec), heads, positions, page_size),
          target_of(spec), run};
}

Bench latent_expand_bench(uint32_t heads, uint32_t positions, uint32_t cache) {
  LatentExpand spec{.cache = cache};
  spec.chained = 1;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const uint32_t page = 32, pages = (positions + page - 1) / page;
    std::vector<int32_t> table(pages);
    for (uint32_t i = 0; i < pages; ++i) table[i] = int32_t(pages - 1 - i);
    const LatentExpand::Args args{.keys = m.poisoned<f16>(size_t(heads) * positions * 192),
                                  .values = m.poisoned<f16>(size_t(heads) * positions * 128),
                                  .cache = m.put(half_inputs(random, size_t(pages) * page * 576)),
                                  .scales = m.put(std::vector<f16>(size_t(pages) * page * 18, to_f16(0.01f))),
                                  .k_up = m.put(half_inputs(random, size_t(heads) * 512 * 128)),
                                  .v_up = m.put(half_inputs(random, size_t(heads) * 512 * 128)),
                                  .table = m.put(table),
                                  .sequence = 0,
                                  .table_stride = pages,
                                  .page_size = page,
                                  .positions = positions,
                                  .stride = positions,
                                  .heads = heads};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {"latent_expand",
          fmt::format("{} heads, {} positions{}", heads, positions, cache == kernels::kv_q8 ? " of q8" : ""),
          "sm_90",
          double(heads) * positions * 640 + double(positions) * 1152,
          2.0 * heads * positions * 512 * 256,
          prepare};
}

}  // namespace

void add_latent_expand_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const LatentExpand& spec, uint32_t heads, uint32_t positions, uint32_t page_size = 16) {
    cases.push_back(latent_expand(spec, heads, positions, page_size));
  };
  using kernels::kv_q8;
  add({.rank = 64, .plain = 24, .rotated = 8, .value = 40}, 2, 20);
  if (sweep == Sweep::quick) return;
  add({.chained = 1}, 1, 130, 32);
  add({.cache = kv_q8}, 1, 7, 32);
  // ranks that end within a step, heads of more and of less than a block has columns
  for (uint32_t cache : {kernels::kv_f16, kv_q8}) {
    add({.rank = 80, .plain = 192, .rotated = 40, .value = 256, .cache = cache, .chained = cache}, 2, 129, 7);
    add({.rank = 16, .plain = 8, .rotated = 8, .value = 136, .cache = cache}, 3, 1);
    add({.rank = 144, .plain = 136, .rotated = 16, .value = 8, .cache = cache}, 1, 127);
    add({.rank = 32, .plain = 16, .rotated = 16, .value = 16, .cache = cache}, 1, 0);
  }
  if (sweep == Sweep::normal) return;
  for (uint32_t cache : {kernels::kv_f16, kv_q8}) add({.cache = cache, .chained = 1}, 16, 1000, 32);
  add({.plain = 192, .value = 256}, 20, 300, 32);
}

void add_latent_expand_benches(std::vector<Bench>& all) {
  for (uint32_t cache : {kernels::kv_f16, kernels::kv_q8}) all.push_back(latent_expand_bench(16, 2048, cache));
  all.push_back(latent_expand_bench(16, 16384, kernels::kv_f16));
  all.push_back(latent_expand_bench(128, 2048, kernels::kv_f16));
}

}  // namespace heddle::proof
