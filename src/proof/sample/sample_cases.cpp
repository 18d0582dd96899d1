// Cases of sample, top_tokens and step_advance.
#include <algorithm>

#include "kernels/sample/sample.h"
#include "proof/bench.h"
#include "proof/case.h"
#include "proof/sample/sample_problem.h"
#include "proof/sample/sample_reference.h"

namespace heddle::proof {

// Cases of sampling: the ids of the reference, whatever the number of threads and blocks.

namespace {

using kernels::no_token;
using kernels::Sample;
using kernels::Sampled;
using kernels::SampleRow;

struct Results {
  std::vector<Sampled> picked;
  std::vector<SampleRow> params;
  std::vector<uint32_t> texts;  // (places, capacity)
};
Results launch(const Sample& spec, Machine& m, const std::vector<float>& logits, const std::vector<SampleRow>& params,
               const Past& past, uint32_t vocab) {
  const auto rows = uint32_t(params.size());
  std::vector<uint32_t> texts(size_t(past.places) * past.capacity, 0xdddddddd);
  for (size_t r = 0; r < rows; ++r)
    std::copy(past.texts[r].begin(), past.texts[r].end(),
              texts.begin() + ptrdiff_t(past.texts[r].empty() ? 0 : params[r].place * past.capacity));
  const auto out = m.poisoned<Sampled>(rows);
  const auto on_device = m.put(params);
  const auto text = m.put(texts);
  m.launch(spec, Sample::Args{.out = {out.address},
                              .logits = m.put(logits),
                              .params = {on_device.address},
                              .biases = {past.capacity ? m.put(past.biases).address : 0},
                              .texts = {past.capacity ? text.address : 0},
                              .changed = {past.capacity ? m.poisoned<float>(size_t(past.places) * vocab).address : 0},
                              .masks = {past.masks.empty() ? 0 : m.put(past.masks).address},
                              .rows = rows,
                              .vocab = vocab,
                              .capacity = past.capacity});
  return {m.get(out, rows), m.get(on_device, rows), m.get(text, texts.size())};
}

Case named(const Sample& spec, const std::string& shape, const std::function<void(Machine&, Random&, Check&)>& run) {
  const bool cluster = spec.splits > 1;
  return {cluster ? "cluster_sample" : "sample", field_text(spec) + shape, cluster ? "sm_90" : target_of(spec), run};
}

// capacity: of the texts; 0: no penalties and biases.
Case sample(Sample spec, uint32_t rows, uint32_t vocab, Logits kind, uint32_t capacity = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> logits = make_logits(random, rows, vocab, kind);
    std::vector<SampleRow> params = all_kinds(random, rows);
    Past past = make_past(random, params, vocab, capacity);
    if (spec.masked) add_masks(random, params, vocab, past);
    const Results got = launch(spec, m, logits, params, past, vocab);
    for (uint32_t r = 0; r < rows; ++r) {
      const SampleRow& row = params[r];
      const std::string what = fmt::format("row {}", r);
      const auto given = std::span(logits).subspan(size_t(r) * vocab, vocab);
      const SampleReference want =
          sample_reference({.logits = given,
                            .allowed = allowed_logits(given, row, past),
                            .row = row,
                            .biases = std::span(past.biases).subspan(row.first_bias, row.biases),
                            .text = past.texts[r]});
      const Sampled& picked = got.picked[r];
      check.that(picked.id == want.id, fmt::format("{}: id {}, not {}", what, picked.id, want.id));
      if (spec.logprob)  // the weights to 2^-34 of the largest, the last rounding
        check.near(what + ": log-probability", std::array{picked.log_probability}, std::array{want.log_probability},
                   std::array{std::abs(want.log_probability) * 0x1p-22 + vocab * 0x1p-33 + 1e-6}, 1);
      else
        check.that(picked.log_probability == 0, what + ": a log-probability that was not asked for");
      const bool remembered = want.id != no_token;
      check.that(got.params[r].length == row.length + remembered, what + ": length of its text");
      if (row.place == SampleRow::no_place) continue;
      std::vector<uint32_t> text = past.texts[r];
      if (remembered) text.push_back(want.id);
      text.resize(capacity, 0xdddddddd);
      const auto begin = got.texts.begin() + ptrdiff_t(row.place) * capacity;
      check.equal(what + ": text", std::vector<uint32_t>(begin, begin + capacity), text);
    }
    check.that(got.picked.size() == rows, "all rows");
  };
  return named(spec, fmt::format(" rows={} vocab={} logits={} capacity={}", rows, vocab, text(kind), capacity), run);
}

// A text longer than the ring is known by its end; picks go on around it.
Case around(Sample spec, uint32_t capacity, uint32_t turns) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    constexpr uint32_t vocab = 40;
    SampleRow row{.temperature = 0.9f, .repetition = 1.5f, .frequency = 0.5f, .repetition_last = ~0u, .seed = 7};
    row.place = 0;
    std::vector<uint32_t> all, ring(capacity);
    for (uint32_t turn = 0; turn < turns; ++turn) {
      const std::vector<float> logits = random.normals(vocab);
      const Past past{.texts = {ring}, .capacity = capacity, .places = 1};
      const Results got = launch(spec, m, logits, {row}, past, vocab);
      SampleRow known = row;  // as if the text began where the ring does
      known.length = std::min(row.length, capacity);
      const SampleReference want =
          sample_reference({.logits = logits, .row = known, .text = std::span(all).last(known.length)});
      check.that(got.picked[0].id == want.id, fmt::format("turn {}: id {}, not {}", turn, got.picked[0].id, want.id));
      all.push_back(want.id);
      ring[turn % capacity] = want.id;
      check.equal("ring", got.texts, ring);
      row = got.params[0];
      ++row.step;
      check.that(row.length == turn + 1, "the length goes on");
    }
  };
  return named(spec, fmt::format(" around={} turns={}", capacity, turns), run);
}

}  // namespace

void add_sample_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(sample({.threads = 64, .splits = 2, .vec = 2}, 16, 1000, Logits::normal, 100));
  cases.push_back(sample({.threads = 64}, 4, 500, Logits::normal, 20));
  cases.push_back(sample({.threads = 64, .splits = 2, .logprob = 1, .masked = 1}, 16, 1000, Logits::normal, 100));
  if (sweep == Sweep::quick) return;
  for (Logits kind : {Logits::normal, Logits::equal, Logits::few, Logits::near, Logits::peaked, Logits::low,
                      Logits::zeros, Logits::bad, Logits::nothing}) {
    cases.push_back(sample({.threads = 64, .logprob = kind == Logits::low}, 16, 777, kind));
    cases.push_back(sample({.threads = 32, .splits = 4}, 16, 61, kind, 40));
    cases.push_back(sample({.threads = 32, .splits = 2}, 16, 1, kind, 3));
    cases.push_back(sample({.threads = 64, .splits = 4, .masked = 1}, 16, 333, kind, 40));
    cases.push_back(sample({.threads = 32, .logprob = kind == Logits::few, .masked = 1}, 16, 63, kind));
  }
  cases.push_back(sample({.threads = 96, .splits = 8, .vec = 4, .logprob = 1}, 16, 9216, Logits::normal, 300));
  cases.push_back(sample({.threads = 32, .splits = 16, .chained = 1}, 16, 1500, Logits::few, 9));
  cases.push_back(sample({.threads = 256}, 6, 20001, Logits::normal, 50));  // more ids than shared memory has words
  cases.push_back(sample({.threads = 1024, .splits = 2, .vec = 4, .chained = 1}, 2, 32000, Logits::normal));
  cases.push_back(sample({}, 0, 100, Logits::normal));
  cases.push_back(around({.threads = 32}, 5, 12));
  cases.push_back(around({.threads = 32, .splits = 4}, 3, 8));
  if (sweep == Sweep::normal) return;
  for (const uint32_t splits : {1u, 8u, 16u}) {
    for (Logits kind : {Logits::normal, Logits::few, Logits::equal, Logits::peaked, Logits::near})
      cases.push_back(sample({.splits = splits, .vec = 4, .logprob = 1}, 30, 128256, kind, 4096));
    cases.push_back(sample({.splits = splits, .vec = 4}, 30, 262144, Logits::normal));
    cases.push_back(sample({.splits = splits, .vec = 4, .logprob = 1, .masked = 1}, 30, 128256, Logits::normal, 4096));
    cases.push_back(sample({.splits = splits, .vec = 4, .masked = 1, .chained = 1}, 30, 151936, Logits::few));
    cases.push_back(sample({.splits = splits, .chained = 1}, 300, 50257, Logits::normal, 1000));
  }
}

void add_sample_benches(std::vector<Bench>& all) {
  struct Kind {
    const char* name;
    SampleRow row;
  };
  constexpr uint32_t vocab = 128256, capacity = 4096;
  const double min_p = std::log(0.05);
  const Kind kinds[] = {
      {"greedy", {.temperature = 0}},
      {"temperature", {.temperature = 0.8f}},
      {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}},
      {"top-k 40, top-p 0.95, min-p 0.05", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .log_min_p = min_p}},
      {"top-k 40, 1000 tokens seen",
       {.temperature = 0.8f,
        .top_k = 40,
        .repetition = 1.1f,
        .frequency = 0.1f,
        .repetition_last = ~0u,
        .length = 1000}}};
  for (uint32_t rows : {1u, 64u})
    for (const uint32_t splits : rows == 1 ? std::vector{1u, 8u, 16u} : std::vector{1u, 2u, 4u})
      for (const auto& [name, row] : kinds) {
        const double n = double(rows) * vocab;
        Bench bench = float_bench(
            splits > 1 ? "cluster_sample" : "sample",
            fmt::format("{} x {} {}, {} blocks a row", rows, vocab, name, splits),
            Sample{.splits = splits, .vec = 4, .chained = 1}, size_t(n), n * 4, n,
            [=, given = row](Machine& m, Random& random) {
              std::vector<uint32_t> texts(size_t(rows) * capacity);
              for (uint32_t& id : texts) id = random.below(vocab);
              std::vector<SampleRow> params(rows, given);
              for (uint32_t r = 0; r < rows; ++r) params[r].place = r;
              return Sample::Args{.out = {m.poisoned<Sampled>(rows).address},
                                  .logits = {},
                                  .params = {m.put(params).address},
                                  .biases = {},
                                  .texts = m.put(texts),
                                  .changed = m.poisoned<float>(size_t(rows) * vocab),
                                  .rows = rows,
                                  .vocab = vocab,
                                  .capacity = capacity};
            },
            [](Sample::Args& a, ptx::DevicePtr<float> x) { a.logits = x; });
        if (splits > 1) bench.lowest_target = "sm_90";
        all.push_back(bench);
      }
}

// Cases of top_tokens: the order of the logits, and log-probabilities in f64.

namespace {

using kernels::TopTokens;

Case top_tokens(TopTokens spec, uint32_t rows, uint32_t vocab, Logits kind, uint32_t most) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> logits = make_logits(random, rows, vocab, kind);
    std::vector<SampleRow> params(rows);
    for (uint32_t r = 0; r < rows; ++r) params[r].top = r % 4 == 3 ? 0 : r % 4 == 2 ? most + 5 : random.below(most + 1);
    constexpr Sampled untouched{77, 0.5f};
    const auto out = m.put(std::vector<Sampled>(size_t(rows) * most, untouched));
    m.launch(spec, TopTokens::Args{.out = {out.address},
                                   .logits = m.put(logits),
                                   .params = {m.put(params).address},
                                   .rows = rows,
                                   .vocab = vocab,
                                   .most = most});
    const std::vector<Sampled> got = m.get(out, size_t(rows) * most);
    for (uint32_t r = 0; r < rows; ++r) {
      const auto row = std::span(logits).subspan(size_t(r) * vocab, vocab);
      std::vector<uint32_t> order;
      double largest = -INFINITY, sum = 0;
      bool bad = false;
      for (uint32_t id = 0; id < vocab; ++id) {
        bad |= !(row[id] < INFINITY);
        if (row[id] > -INFINITY) order.push_back(id);
        largest = std::max(largest, double(row[id]));
      }
      if (bad) order.clear();
      for (const uint32_t id : order) sum += std::exp(double(row[id]) - largest);
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return row[a] > row[b]; });
      for (uint32_t i = 0; i < most; ++i) {
        const std::string what = fmt::format("row {}, place {}", r, i);
        const Sampled& one = got[size_t(r) * most + i];
        const uint32_t want = i >= params[r].top ? untouched.id : i < order.size() ? order[i] : no_token;
        check.that(one.id == want, fmt::format("{}: id {}, not {}", what, one.id, want));
        if (i >= params[r].top) check.that(one.log_probability == untouched.log_probability, what + ": written to");
        if (i >= params[r].top || want == no_token) continue;
        const double log_probability = double(row[want]) - largest - std::log(sum);
        check.near(what + ": log-probability", std::array{one.log_probability}, std::array{log_probability},
                   std::array{std::abs(log_probability) * 0x1p-22 + vocab * 0x1p-33 + 1e-6}, 1);
      }
    }
    check.that(got.size() == size_t(rows) * most, "all rows");
  };
  return {"top_tokens",
          fmt::format("{} rows={} vocab={} logits={} most={}", field_text(spec), rows, vocab, text(kind), most),
          spec.splits > 1 ? "sm_90" : target_of(spec), run};
}

}  // namespace

void add_top_tokens_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(top_tokens({.threads = 64, .splits = 2}, 5, 500, Logits::normal, 6));
  if (sweep == Sweep::quick) return;
  for (Logits kind : {Logits::normal, Logits::equal, Logits::few, Logits::near, Logits::peaked, Logits::low,
                      Logits::zeros, Logits::bad, Logits::nothing}) {
    cases.push_back(top_tokens({.threads = 64}, 5, 301, kind, 7));
    cases.push_back(top_tokens({.threads = 32, .splits = 4, .chained = 1}, 5, 13, kind, 20));
  }
  cases.push_back(top_tokens({.threads = 32, .splits = 16}, 3, 2000, Logits::low, 3));
  cases.push_back(top_tokens({.threads = 32}, 3, 1, Logits::normal, 4));
  cases.push_back(top_tokens({}, 0, 100, Logits::normal, 5));
  if (sweep == Sweep::normal) return;
  for (const uint32_t splits : {1u, 2u, 8u, 16u})
    for (Logits kind : {Logits::normal, Logits::few, Logits::near, Logits::low})
      cases.push_back(top_tokens({.splits = splits, .chained = 1}, 30, 128256, kind, 20));
}

// Cases of step_advance.

namespace {

using kernels::StepAdvance;

template <class T>
std::vector<uint32_t> words(const std::vector<T>& x) {
  std::vector<uint32_t> w(x.size() * sizeof(T) / 4);
  if (!x.empty()) std::memcpy(w.data(), x.data(), w.size() * 4);
  return w;
}

// Several steps after one another; every fourth row is not in use, and in the second step nothing could be picked for
// the first row.
Case advance(StepAdvance spec, uint32_t rows, uint32_t ring, uint32_t steps, uint64_t first_step = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> tokens(rows), positions(rows), lengths(rows);
    std::vector<SampleRow> params(rows);
    std::vector<Sampled> history(size_t(ring) * rows, Sampled{7, 0.5f});
    for (uint32_t r = 0; r < rows; ++r) {
      tokens[r] = random.below(1000);
      lengths[r] = random.below(100000);
      positions[r] = r % 4 == 3 ? ~0u : lengths[r];
      params[r].temperature = random.uniform(0, 2);
      params[r].top_k = random.below(100);
      params[r].seed = random.bits();
      params[r].step = r == 0 ? 0xffffffff : random.below(1000);  // a carry
    }
    StepAdvance::Args args{.tokens = m.put(tokens),
                           .positions = m.put(positions),
                           .lengths = m.put(lengths),
                           .params = m.put(words(params)),
                           .history = m.put(words(history)),
                           .step = m.put(std::vector<uint64_t>{first_step}),
                           .rows = rows,
                           .ring = ring};
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<Sampled> picked(rows);
      for (uint32_t r = 0; r < rows; ++r)
        picked[r] = {step == 1 && r == 0 ? kernels::no_token : random.below(200000), random.normal()};
      args.picked = m.put(words(picked));
      m.launch(spec, args);
      for (uint32_t r = 0; r < rows; ++r) {
        if (r % 4 == 3) continue;
        tokens[r] = picked[r].id == kernels::no_token ? 0 : picked[r].id;
        ++positions[r];
        ++lengths[r];
        ++params[r].step;
        history[(first_step + step) % ring * rows + r] = picked[r];
      }
    }
    check.equal("tokens", m.get(args.tokens, rows), tokens);
    check.equal("positions", m.get(args.positions, rows), positions);
    check.equal("lengths", m.get(args.lengths, rows), lengths);
    check.equal("params", m.get(args.params, words(params).size()), words(params));
    check.equal("history", m.get(args.history, words(history).size()), words(history));
    check.equal("step", m.get(args.step, 1), std::vector<uint64_t>{first_step + steps});
  };
  return {"step_advance",
          fmt::format("{} rows={} ring={} steps={}+{}", field_text(spec), rows, ring, first_step, steps),
          target_of(spec), run};
}

}  // namespace

void add_step_advance_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(advance({}, 5, 2, 3));
  if (sweep == Sweep::quick) return;
  cases.push_back(advance({.chained = 1}, 300, 1, 2));
  cases.push_back(advance({}, 1, 3, 7, 0xffffffff));
  cases.push_back(advance({}, 0, 4, 2));
  if (sweep == Sweep::normal) return;
  cases.push_back(advance({.chained = 1}, 4096, 16, 40));
}

}  // namespace heddle::proof
