// Cases of latent_queries, latent_attention and latent_values, and their timing. What must not be read (positions
// behind a row's own, pages of no sequence) is NaN, so that reading it shows.
#include <algorithm>

#include "base/rope_frequencies.h"
#include "kernels/attention/latent_attention.h"
#include "proof/attention/attention_problem.h"
#include "proof/bench.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::LatentAttention;
using kernels::LatentQueries;
using kernels::LatentValues;

// (sequence, position) of each row; a position of ~0 is a row that is not in use.
using LatentRows = std::vector<std::pair<uint32_t, uint32_t>>;

std::string rows_text(const LatentRows& rows) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 6); ++i)
    text += fmt::format("{}@{} ", int32_t(rows[i].second), rows[i].first);
  return rows.size() > 6 ? fmt::format("{}... {}", text, rows.size()) : text;
}
LatentRows consecutive(uint32_t rows, uint32_t first_position = 0) {
  LatentRows all;
  for (uint32_t i = 0; i < rows; ++i) all.emplace_back(0, first_position + i);
  return all;
}
uint32_t sequences_of(const LatentRows& rows) {
  uint32_t n = 1;
  for (auto [sequence, position] : rows) n = std::max(n, sequence + 1);
  return n;
}
uint32_t last_of(const LatentRows& rows) {
  uint32_t last = 0;
  for (auto [sequence, position] : rows)
    if (position != ~0u) last = std::max(last, position);
  return last;
}
std::vector<uint32_t> positions_of(const LatentRows& rows) {
  std::vector<uint32_t> all;
  for (auto [sequence, position] : rows) all.push_back(position);
  return all;
}
std::vector<uint32_t> sequence_list(const LatentRows& rows) {
  std::vector<uint32_t> all;
  for (auto [sequence, position] : rows) all.push_back(sequence);
  return all;
}
std::vector<f16> halves_of(std::vector<float>& values) {
  std::vector<f16> all;
  for (float& value : values) {
    all.push_back(to_f16(value));
    value = to_f32(all.back());
  }
  return all;
}
std::vector<float> floats_of(const std::vector<f16>& values) {
  std::vector<float> all;
  for (const f16 value : values) all.push_back(to_f32(value));
  return all;
}

Case latent_queries(LatentQueries spec, uint32_t heads, const LatentRows& rows, uint32_t page_size = 16) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t whole = spec.plain + spec.rotated, count = uint32_t(rows.size()), head = spec.head();
    const uint32_t q_stride = heads * whole + 3, kv_stride = head + 5;
    PageTable pages(sequences_of(rows), last_of(rows), page_size);
    for (auto [sequence, position] : rows)
      if (position != ~0u) pages.need(sequence, position);
    pages.place(random);
    const std::vector<float> q = random.normals(size_t(count) * q_stride), norm = random.normals(spec.rank);
    const std::vector<float> kv = random.normals(size_t(count) * kv_stride, 2);
    std::vector<float> up = random.normals(size_t(heads) * spec.rank * spec.plain, 0.2f);
    const auto up_halves = halves_of(up);
    const RopeFrequencies frequencies = rope_frequencies(spec.rotated, 10000);
    const float epsilon = 1e-5f, magnitude = 1.25f;
    const size_t cached = pages.rows(1) * head, outs = size_t(count) * heads * head;
    const std::vector<f16> before(cached, to_f16(7.0f));
    const bool q8 = spec.cache == kernels::kv_q8;
    const size_t cache_rows = q8 ? pages.rows(1) : 0;
    Q8Cache kept(cache_rows, head), untouched = kept;
    const LatentQueries::Args args{.out = m.poisoned<f16>(outs),
                                   .q = m.put(q),
                                   .kv = m.put(kv),
                                   .up = m.put(up_halves),
                                   .norm = m.put(norm),
                                   .turns = m.put(frequencies.turns()),
                                   .positions = m.put(positions_of(rows)),
                                   .sequences = m.put(sequence_list(rows)),
                                   .table = m.put(pages.table()),
                                   .cache = q8 ? ptx::DevicePtr<f16>{m.put(kept.q).address} : m.put(before),
                                   .scales = q8 ? m.put(kept.scales) : ptx::DevicePtr<f16>{},
                                   .rows = count,
                                   .heads = heads,
                                   .q_stride = q_stride,
                                   .kv_stride = kv_stride,
                                   .page_size = page_size,
                                   .table_stride = pages.stride(),
                                   .epsilon = epsilon,
                                   .magnitude = magnitude,
                                   .temperature = spec.temperature ? 0.3f : 0,
                                   .temperature_length = 8,
                                   .temperature_offset = 1};
    m.launch(spec, args);
    if (q8) {
      kept.q = m.get(ptx::DevicePtr<uint8_t>{args.cache.address}, kept.q.size());
      kept.scales = m.get(args.scales, kept.scales.size());
    }
    std::vector<double> want_cache(cached, 7), size_cache(cached, 0);
    std::vector<double> want, size;
    std::vector<float> got;
    const std::vector<f16> out = m.get(args.out, outs);
    const std::vector<float> q_after = m.get(args.q, q.size());
    std::vector<double> q_want(q.begin(), q.end()), q_size(q.size());  // what is not set below stays
    auto rotated = [&](const float* x, uint32_t i, uint32_t position) {
      const uint32_t half = spec.rotated / 2, pair = spec.halves ? i % half : i / 2;
      const uint32_t first = spec.halves ? pair : pair * 2, second = spec.halves ? pair + half : pair * 2 + 1;
      const double angle = position * frequencies.radians[pair];
      return magnitude * (i == first ? x[first] * std::cos(angle) - x[second] * std::sin(angle)
                                     : x[first] * std::sin(angle) + x[second] * std::cos(angle));
    };
    for (uint32_t r = 0; r < count; ++r) {
      const auto [sequence, position] = rows[r];
      if (position == ~0u) continue;
      const double factor = spec.temperature ? 1 + 0.3f * std::log(1 + std::floor((position + 1) / 8.0)) : 1;
      for (uint32_t h = 0; h < heads; ++h) {
        const float* x = q.data() + size_t(r) * q_stride + h * whole;
        for (uint32_t i = 0; i < whole && !spec.absorbed; ++i) {
          const size_t at = size_t(r) * q_stride + h * whole + i;
          q_want[at] = factor * (i < spec.plain ? x[i] : rotated(x + spec.plain, i - spec.plain, position));
          q_size[at] = std::abs(q_want[at]) + 1;
        }
        for (uint32_t i = 0; i < head && spec.absorbed; ++i) {
          got.push_back(to_f32(out[(size_t(r) * heads + h) * head + i]));
          double sum = 0, all = 0;
          if (i < spec.rank)
            for (uint32_t j = 0; j < spec.plain; ++j) {
              const double part = factor * x[j] * up[(size_t(h) * spec.rank + i) * spec.plain + j];
              sum += part;
              all += std::abs(part);
            }
          else
            all = std::abs(sum = factor * rotated(x + spec.plain, i - spec.rank, position)) + 0.01;
          want.push_back(sum);
          size.push_back(all);
        }
      }
      const float* x = kv.data() + size_t(r) * kv_stride;
      double squares = 0;
      for (uint32_t i = 0; i < spec.rank; ++i) squares += double(x[i]) * x[i];
      const double scale = 1 / std::sqrt(squares / spec.rank + epsilon);
      for (uint32_t i = 0; i < head; ++i) {
        const size_t at = pages.row(sequence, position, 1, 0) * head + i;
        want_cache[at] = i < spec.rank ? x[i] * scale * norm[i] : rotated(x + spec.rank, i - spec.rank, position);
        size_cache[at] = std::abs(want_cache[at]) + 0.01;
      }
      if (q8) {
        const size_t row = pages.row(sequence, position, 1, 0);
        const std::vector<double> error(head, 16 * 2e-6);  // values of up to 16, by a norm or a rotation in f32
        kept.expect(check, row, &want_cache[row * head], error.data());
        untouched.copy(row, kept);
      }
    }
    // f16 rounds by 2^-11: the query, and the result
    if (spec.absorbed) check.near("out", got, want, size, 1.05e-3);
    check.near("q", q_after, q_want, q_size, 2e-6);
    if (q8) {
      check.equal("cache", kept.q, untouched.q);
      check.equal("scales", kept.scales, untouched.scales);
      return;
    }
    check.near("cache", floats_of(m.get(args.cache, cached)), want_cache, size_cache, 6e-4);
  };
  return {"latent_queries",
          fmt::format("{} heads={} pages={} rows={}", field_text(spec), heads, page_size, rows_text(rows)),
          target_of(spec), run};
}

Case latent_attention(LatentAttention spec, uint32_t heads, uint32_t splits, const LatentRows& rows,
                      uint32_t page_size = 16) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t count = uint32_t(rows.size()), head = spec.head();
    PageTable pages(sequences_of(rows), last_of(rows), page_size);
    std::vector<uint32_t> ends(sequences_of(rows));
    for (auto [sequence, position] : rows)
      if (position != ~0u) ends[sequence] = std::max(ends[sequence], position + 1);
    for (uint32_t s = 0; s < ends.size(); ++s)
      for (uint32_t p = 0; p < ends[s]; ++p) pages.need(s, p);
    pages.place(random);
    KvRows cache(pages.rows(1), head, spec.cache);
    std::vector<std::vector<float>> keys;
    for (uint32_t s = 0; s < ends.size(); ++s) {
      keys.push_back(random.normals(size_t(ends[s]) * head));
      for (uint32_t p = 0; p < ends[s]; ++p) cache.put(pages.row(s, p, 1, 0), &keys[s][size_t(p) * head], true);
    }
    std::vector<float> q = random.normals(size_t(count) * heads * head, 2);
    const auto q_halves = halves_of(q);
    const size_t ranges = size_t(count) * heads * splits;
    const float scale = 1 / std::sqrt(float(head));
    const LatentAttention::Args args{.out = m.poisoned<float>(ranges * spec.rank),
                                     .sums = m.poisoned<float>(ranges * 2),
                                     .q = m.put(q_halves),
                                     .cache = {m.put(cache.bytes).address},
                                     .scales = m.put(cache.scales),
                                     .positions = m.put(positions_of(rows)),
                                     .sequences = m.put(sequence_list(rows)),
                                     .table = m.put(pages.table()),
                                     .rows = count,
                                     .heads = heads,
                                     .page_size = page_size,
                                     .table_stride = pages.stride(),
                                     .splits = splits,
                                     .scale = scale};
    m.launch(spec, args);
    const std::vector<float> out = m.get(args.out, ranges * spec.rank), sums = m.get(args.sums, ranges * 2);
    std::vector<float> got;
    std::vector<double> want, size;
    for (uint32_t r = 0; r < count; ++r)
      for (uint32_t h = 0; h < heads; ++h) {
        const auto [sequence, position] = rows[r];
        if (position == ~0u) continue;
        const size_t first = (size_t(r) * heads + h) * splits;
        double top = -1e300, all = 0;
        for (uint32_t s = 0; s < splits; ++s) top = std::max(top, double(sums[(first + s) * 2]));
        std::vector<double> found(spec.rank);
        for (uint32_t s = 0; s < splits; ++s) {
          const double weight = std::exp2(sums[(first + s) * 2] - top);
          all += weight * sums[(first + s) * 2 + 1];
          for (uint32_t i = 0; i < spec.rank; ++i) found[i] += weight * out[(first + s) * spec.rank + i];
        }
        std::vector<double> scores;
        for (uint32_t p = 0; p <= position; ++p) {
          double score = 0;
          for (uint32_t i = 0; i < head; ++i)
            score += double(q[(size_t(r) * heads + h) * head + i]) * keys[sequence][size_t(p) * head + i];
          scores.push_back(score * scale);
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - largest);
        for (uint32_t i = 0; i < spec.rank; ++i) {
          double value = 0, magnitude = 0;
          for (uint32_t p = 0; p <= position; ++p) {
            const double part = scores[p] / sum * keys[sequence][size_t(p) * head + i];
            value += part;
            magnitude += std::abs(part);
          }
          got.push_back(float(found[i] / all));
          want.push_back(value);
          size.push_back(magnitude);
        }
      }
    check.near("out", got, want, size, 6e-4);  // weights are f16
  };
  return {"latent_attention",
          fmt::format("{} heads={} splits={} pages={} rows={}", field_text(spec), heads, splits, page_size,
                      rows_text(rows)),
          target_of(spec), run};
}

Case latent_values(LatentValues spec, uint32_t heads, uint32_t splits, uint32_t rows) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const size_t ranges = size_t(rows) * heads * splits;
    const uint32_t out_stride = heads * spec.value + 2;
    std::vector<float> x = random.normals(ranges * spec.rank, 3), sums;
    for (size_t i = 0; i < ranges; ++i) {
      const bool empty = splits > 1 && i % splits == splits - 1;  // the last range has no positions
      sums.push_back(empty ? std::numeric_limits<float>::lowest() : random.uniform(-4, 4));
      sums.push_back(empty ? 0 : random.uniform(1, 9));
      if (empty) std::fill_n(x.begin() + long(i * spec.rank), spec.rank, 0.0f);
    }
    std::vector<float> up = random.normals(size_t(heads) * spec.value * spec.rank, 0.1f);
    const auto up_halves = halves_of(up);
    const std::vector<float> before = random.normals(size_t(rows) * out_stride);
    const LatentValues::Args args{.out = m.put(before),
                                  .x = m.put(x),
                                  .sums = m.put(sums),
                                  .up = m.put(up_halves),
                                  .rows = rows,
                                  .heads = heads,
                                  .out_stride = out_stride,
                                  .splits = splits};
    m.launch(spec, args);
    std::vector<double> want(before.begin(), before.end()), size(before.size());
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t h = 0; h < heads; ++h) {
        const size_t first = (size_t(r) * heads + h) * splits;
        std::vector<double> latent(spec.rank);
        double all = 0;
        for (uint32_t s = 0; s < splits; ++s) {
          const double weight = std::exp2(double(sums[(first + s) * 2]));
          all += weight * sums[(first + s) * 2 + 1];
          for (uint32_t i = 0; i < spec.rank; ++i) latent[i] += weight * x[(first + s) * spec.rank + i];
        }
        for (uint32_t v = 0; v < spec.value; ++v) {
          double sum = 0, magnitude = 0;
          for (uint32_t i = 0; i < spec.rank; ++i) {
            const double part = latent[i] / all * up[(size_t(h) * spec.value + v) * spec.rank + i];
            sum += part;
            magnitude += std::abs(part);
          }
          const size_t at = size_t(r) * out_stride + h * spec.value + v;
          want[at] = sum;
          size[at] = magnitude;
        }
      }
    check.near("out", m.get(args.out, before.size()), want, size, 6e-4);  // latents become f16
  };
  return {"latent_values", fmt::format("{} heads={} splits={} rows={}", field_text(spec), heads, splits, rows),
          target_of(spec), run};
}

Bench latent_bench(uint32_t heads, uint32_t rows, uint32_t length) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    LatentAttention spec = kernels::latent_choice(512, 64);
    spec.chained = 1;
    const uint32_t splits = kernels::latent_splits(spec, rows, heads, length, m.processors()), page = 32;
    const size_t ranges = size_t(rows) * heads * splits, pages = size_t(rows) * ((length + page - 1) / page);
    std::vector<int32_t> table(pages);
    std::iota(table.begin(), table.end(), 0);
    std::vector<float> cache = random.normals(4096);
    std::vector<f16> halves;
    for (size_t i = 0; i < pages * page * 576; ++i) halves.push_back(to_f16(cache[i % cache.size()]));
    std::vector<uint32_t> sequences(rows);
    std::iota(sequences.begin(), sequences.end(), 0u);
    const LatentAttention::Args args{.out = m.poisoned<float>(ranges * 512),
                                     .sums = m.poisoned<float>(ranges * 2),
                                     .q = m.put(std::vector<f16>(size_t(rows) * heads * 576, to_f16(0.1f))),
                                     .cache = m.put(halves),
                                     .positions = m.put(std::vector<uint32_t>(rows, length - 1)),
                                     .sequences = m.put(sequences),
                                     .table = m.put(table),
                                     .rows = rows,
                                     .heads = heads,
                                     .page_size = page,
                                     .table_stride = (length + page - 1) / page,
                                     .splits = splits,
                                     .scale = 0.07f};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {"latent_attention",
          fmt::format("{} heads, {} rows after {}", heads, rows, length),
          "sm_90",
          double(rows) * length * 1152,
          0,
          prepare};
}

}  // namespace

void add_latent_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const Case& one) { cases.push_back(one); };
  add(latent_queries({.rank = 64, .plain = 24, .rotated = 8}, 2, {{0, 5}, {1, 17}}));
  add(latent_attention({.rank = 64, .rotated = 8, .positions = 32}, 2, 2, {{0, 40}, {1, 3}}));
  add(latent_values({.rank = 64, .value = 40}, 2, 2, 3));
  if (sweep == Sweep::quick) return;
  const LatentRows mixed{{1, 20}, {0, 0}, {1, 21}, {0, ~0u}, {2, 35}};
  add(latent_queries({.chained = 1}, 2, {{0, 70}}));
  add(latent_queries({.rank = 80, .plain = 40, .rotated = 24, .tiles = 2, .halves = 1}, 3, mixed, 7));
  add(latent_queries({.rank = 16, .plain = 8, .rotated = 8, .temperature = 1}, 1, mixed));
  add(latent_queries({.rank = 32, .plain = 16, .rotated = 16, .tiles = 4}, 2, consecutive(71, 3)));
  for (uint32_t temperature : {0u, 1u})
    for (uint32_t cache : {kernels::kv_f16, kernels::kv_q8})
      add(latent_queries({.rank = 80,
                          .plain = 40,
                          .rotated = 24,
                          .halves = cache,
                          .absorbed = 0,
                          .temperature = temperature,
                          .cache = cache,
                          .chained = temperature},
                         3, mixed, 7));
  add(latent_queries({}, 2, {}));
  add(latent_queries({.absorbed = 0}, 2, {}));
  add(latent_queries({.cache = kernels::kv_q8, .chained = 1}, 2, {{0, 70}}));
  for (uint32_t halves : {0u, 1u})  // groups across the end of the latent, and a shorter last one
    add(latent_queries({.rank = 80, .plain = 40, .rotated = 40, .tiles = 2, .halves = halves, .cache = kernels::kv_q8},
                       3, mixed, 7));
  add(latent_queries({.rank = 16, .plain = 8, .rotated = 8, .temperature = 1, .cache = kernels::kv_q8}, 1, mixed));
  add(latent_queries({.cache = kernels::kv_q8}, 2, {}));
  add(latent_attention({.positions = 64, .stages = 2, .chained = 1}, 16, 3, {{0, 200}}));
  add(latent_attention({.positions = 64, .stages = 2}, 5, 1, mixed, 7));
  add(latent_attention({}, 5, 1, mixed, 7));
  for (uint32_t stages : {1u, 2u, 3u, 4u})
    add(latent_attention({.rank = 48, .rotated = 24, .positions = stages % 2 ? 32u : 64u, .stages = stages}, 17, 2,
                         {{0, 63}, {0, 64}, {1, 255}, {0, 0}}));
  add(latent_attention({.rank = 16, .rotated = 8, .positions = 64, .stages = 2}, 1, 64, {{0, 300}, {1, 2}}));
  add(latent_attention({.rank = 128, .rotated = 32, .positions = 32}, 20, 1, consecutive(9, 60)));
  add(latent_attention({}, 16, 2, {}));
  add(latent_attention({.positions = 64, .stages = 2, .cache = kernels::kv_q8, .chained = 1}, 16, 3, {{0, 200}}));
  for (uint32_t stages : {1u, 2u}) {
    const uint32_t step = stages == 1 ? 32 : 64;
    add(latent_attention({.positions = step, .stages = stages, .cache = kernels::kv_q8}, 5, 1, mixed, 7));
    add(latent_attention({.rank = 48, .rotated = 24, .positions = step, .stages = stages, .cache = kernels::kv_q8}, 17,
                         2, {{0, 63}, {0, 64}, {1, 255}, {0, 0}}));
  }
  add(latent_attention({.rank = 16, .rotated = 8, .positions = 64, .stages = 2, .cache = kernels::kv_q8}, 1, 64,
                       {{0, 300}, {1, 2}}));
  add(latent_attention({.cache = kernels::kv_q8}, 16, 2, {}));
  add(latent_values({.chained = 1}, 2, 1, 1));
  add(latent_values({.rank = 80, .value = 72, .tiles = 2}, 3, 5, 37));
  add(latent_values({.rank = 16, .value = 8, .tiles = 4}, 1, 64, 65));
  add(latent_values({}, 2, 3, 0));
  if (sweep == Sweep::normal) return;
  add(latent_queries({.tiles = 4, .chained = 1}, 16, consecutive(300, 5000), 32));
  add(latent_attention({.positions = 64, .stages = 2, .chained = 1}, 16, 8, {{0, 5000}, {1, 4999}, {2, 100}}, 32));
  add(latent_attention({.stages = 1}, 128, 1, consecutive(40, 700), 32));
  add(latent_queries({.tiles = 4, .cache = kernels::kv_q8, .chained = 1}, 16, consecutive(300, 5000), 32));
  add(latent_attention({.positions = 64, .stages = 2, .cache = kernels::kv_q8, .chained = 1}, 16, 8,
                       {{0, 5000}, {1, 4999}, {2, 100}}, 32));
  add(latent_values({.tiles = 4, .chained = 1}, 16, 1, 300));
}

void add_latent_attention_benches(std::vector<Bench>& all) {
  for (uint32_t length : {512u, 4096u, 16384u}) all.push_back(latent_bench(16, 1, length));
  all.push_back(latent_bench(16, 32, 4096));
  all.push_back(latent_bench(128, 8, 4096));
}

}  // namespace heddle::proof
