// Cases of recurrence_prepare and recurrence_scan, which only together have a result: against f64 row by row.
#include "kernels/state/chunked_recurrence.h"
#include "proof/bench.h"
#include "proof/state/recurrent_heads.h"

namespace heddle::proof {
namespace {

using kernels::chunk_rows;
using kernels::ChunkedArgs;
using kernels::Recurrence;
using kernels::RecurrencePrepare;
using kernels::RecurrenceScan;
using kernels::StateRun;

// The same heads in chunks: what is handed over is not read before it is written.
ChunkedArgs in_chunks(Machine& m, const Recurrence::Args& args, std::vector<StateRun> runs, uint32_t padded) {
  ChunkedArgs chunked{args};
  std::vector<uint32_t> chunks;
  for (StateRun& run : runs) {
    run.first_chunk = uint32_t(chunks.size() / 2);
    for (uint32_t at = 0; at < run.count; at += chunk_rows)
      chunks.insert(chunks.end(), {run.begin + at, std::min(run.count - at, chunk_rows)});
  }
  chunked.runs = m.put(numbers_of(runs));
  chunked.chunks = m.put(chunks);
  chunked.chunk_count = uint32_t(chunks.size() / 2);
  const size_t rows = size_t(chunked.chunk_count) * chunk_rows;
  for (auto member : {&ChunkedArgs::keys, &ChunkedArgs::queries})
    chunked.*member = m.poisoned<f16>(rows * args.key_heads * padded);
  for (auto member : {&ChunkedArgs::inverses, &ChunkedArgs::scores})
    chunked.*member = m.poisoned<f16>(rows * args.heads * chunk_rows);
  chunked.factors = m.poisoned<float>(rows * args.heads * 4);
  return chunked;
}

// Eight operands are rounded to f16, each by up to 2^-11 of it: q, k against the state and in it, the state, the right
// side, the inverse, u and the scores. What is below 2^-33 of the largest number of a chunk, which becomes 2^8, is
// rounded away (2^-25), and sums have 64 of these: 2^-27 of it, which is 2^-19 of the bound.
constexpr double rounded_to_f16 = 0x1p-11;
static_assert(RecurrentHeads::chunk == chunk_rows && RecurrentHeads::columns == RecurrenceScan::warp_columns);

Case chunked(const char* kernel, RecurrenceScan spec, HeadShape shape, std::vector<uint32_t> lengths) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const RecurrentHeads heads(random, spec.key, spec.rule, shape, lengths);
    const ChunkedArgs args = in_chunks(m, heads.put(m), heads.runs().all, spec.padded_key());
    m.launch(RecurrencePrepare{.key = spec.key, .rule = spec.rule, .chained = spec.chained}, args);
    m.launch(spec, args);
    heads.compare_rounded(m, check, args, 8 * rounded_to_f16, std::sqrt(8.0) * rounded_to_f16);
  };
  return {kernel, fmt::format("{} {} rows={}", field_text(spec), shape.text(), lengths_text(lengths)), target_of(spec),
          run};
}

}  // namespace

void add_chunked_recurrence_cases(Sweep sweep, std::vector<Case>& cases) {
  constexpr uint32_t ssd = kernels::rule_ssd, delta = kernels::rule_delta;
  const char *prepare = "recurrence_prepare", *scan = "recurrence_scan";
  const HeadShape small{.heads = 2, .key_heads = 1, .value = 33};
  cases.push_back(chunked(scan, {.key = 32, .stages = 2}, small, {70, 3}));
  cases.push_back(chunked(prepare, {.key = 16, .rule = ssd}, small, {65}));
  if (sweep == Sweep::quick) return;
  for (const uint32_t rule : {ssd, delta}) {
    cases.push_back(chunked(scan, {.key = 13, .rule = rule, .stages = 2},
                            {.heads = 4, .key_heads = 2, .value = 7, .tiled = 1}, {1, 64, 200}));
    cases.push_back(chunked(prepare, {.key = 48, .rule = rule}, {.heads = 3, .key_heads = 1, .value = 40}, {63, 129}));
    cases.push_back(chunked(scan, {.key = 128, .rule = rule, .columns = 64, .stages = 2, .chained = 1},
                            {.heads = 2, .key_heads = 1, .value = 32, .harsh = 1}, {90, 64}));
    cases.push_back(
        chunked(prepare, {.key = 64, .rule = rule}, {.heads = 4, .key_heads = 2, .value = 16, .harsh = 1}, {300}));
  }
  if (sweep == Sweep::normal) return;
  for (const uint32_t rule : {ssd, delta})
    for (const uint32_t harsh : {0u, 1u}) {
      const HeadShape large{.heads = 32, .key_heads = 16, .value = 128, .harsh = harsh};
      cases.push_back(chunked(scan, {.key = 128, .rule = rule, .stages = 2}, large, {2048, 1, 77}));
      cases.push_back(chunked(prepare, {.key = 128, .rule = rule, .chained = 1}, large, {300, 500, 65, 64}));
    }
}

// A prompt, and four at once. The floor is what is handed over, and f16 products at the matrix units' rate.
void add_chunked_recurrence_benches(std::vector<Bench>& all) {
  for (const auto& [sequences, rows] : {std::pair(1u, 2048u), {4u, 512u}}) {
    const BenchedHeads heads{sequences, rows};
    const double each_row = double(heads.all_rows()) * heads.heads,
                 handed_over = each_row * (2 * chunk_rows * 2 + heads.size * 2 + 16);
    const auto add = [&](auto spec, double bytes, double flops) {
      Bench bench{.kernel = std::string(spec.name),
                  .shape = heads.text(),
                  .lowest_target = "sm_90",
                  .bytes = bytes,
                  .flops = each_row * flops};
      bench.prepare = [=](Machine& m, Random& random) -> Bench::Round {
        const RecurrencePrepare prepare{.key = heads.size, .chained = 1};
        ChunkedArgs args = in_chunks(m, heads.put(m, random), heads.runs(), heads.size);
        args.state = heads.put_states(m, 1)[0];
        m.launch(prepare, args);
        return [=](Machine& machine, uint32_t) { machine.launch(spec, args); };
      };
      all.push_back(std::move(bench));
    };
    const double columns = heads.size;
    add(RecurrencePrepare{.key = heads.size, .chained = 1}, handed_over + each_row * 2 * heads.size * 4,
        2.0 * chunk_rows * columns * 2 + chunk_rows * chunk_rows);
    add(RecurrenceScan{.key = heads.size, .columns = sequences == 1 ? 32u : 64u, .stages = 2, .chained = 1},
        handed_over + heads.bytes(), 2.0 * (3 * columns * columns + 2 * chunk_rows * columns));
  }
}

}  // namespace heddle::proof
