// Threads take rows; the number of the step is written last.
#include "kernels/sample/step_advance.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/sample/sample.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t step_threads = 128;
constexpr uint32_t sampled_words = sizeof(Sampled) / 4, params_words = sizeof(SampleRow) / 4;
static_assert(sampled_words == 2 && offsetof(Sampled, id) == 0 && offsetof(SampleRow, step) % 8 == 0);

}  // namespace

Kernel StepAdvance::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), step_threads);
  chain_wait(k, chained);  // without chain_start: see the header
  const U32 rows = k.arg(&Args::rows);
  const U64 step = load(k.arg(&Args::step));
  const U64 history_row = step % widen(k.arg(&Args::ring)) * widen(rows);
  k.loop(k.thread(), rows, step_threads, [&](U32 row) {
    const auto position = k.arg(&Args::positions) + row, length = k.arg(&Args::lengths) + row;
    const U32 before = load(position);
    k.when(before < no_position, [&] {
      const auto picked = load_vec<2>(k.arg(&Args::picked) + row * sampled_words);
      store(k.arg(&Args::tokens) + row, select(picked[0] != no_token, picked[0], 0u));
      store(position, before + 1u);
      store(length, load(length) + 1u);
      const auto params = k.arg(&Args::params) + row * params_words;
      const auto drawn = params.offset(offsetof(SampleRow, step) / 4).template as<uint64_t>();
      store(drawn, load(drawn) + uint64_t(1));
      store_vec(k.arg(&Args::history) + (history_row + widen(row)) * uint64_t(sampled_words), picked);
    });
  });
  k.barrier();  // all threads have read the step and written their rows
  k.when(k.thread() == 0u, [&] { store_release(k.arg(&Args::step), step + uint64_t(1), Scope::sys); });
  return k.finish();
}

Grid StepAdvance::grid(const Args& args) const {
  if (args.ring == 0) throw Error("{}: a history of 0 steps", name);
  if (args.picked.address % 8 || args.history.address % 8 || args.params.address % 8 || args.step.address % 8)
    throw Error("{}: picked, history, params and step must be 8-byte aligned", name);
  if (args.rows > (1u << 24)) throw Error("{}: {} rows, {} at most", name, args.rows, 1u << 24);
  return {.x = 1};
}

void add_step_advance_kernels(std::vector<Entry>& all) { all.push_back(entry<StepAdvance>()); }

}  // namespace heddle::kernels
