#include "kernels/layer/all_reduce.h"

#include "kernels/layer/row_kernel.h"
#include "kernels/spec/catalog.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t polls_between_looks = 64;  // at the clock and at the host's word: that one lies beyond the bus

// The addresses of one row's round, as this rank sees them.
struct SumRound {
  std::vector<Global<float>> parts;  // of each rank
  U32 number;
  Global<uint32_t> flag_to, flag_from;  // of the rank that is the thread's number
};

// Waits for the rank that is the thread's number.
void wait_for_flag(Builder<AllReduce::Args>& k, const SumRound& round) {
  const auto stop = k.arg(&AllReduce::Args::stop);
  const U64 start = k.globaltimer();
  auto behind = k.var(1u), polls = k.var(0u), given_up = k.var(0u);
  k.loop_while([&] { return (behind.get() & ~given_up.get()) != 0u; },
               [&] {
                 const U32 seen = load_acquire(round.flag_from, Scope::sys);
                 // a rank may be a round ahead; rounds are counted modulo 2^32
                 behind = (seen - round.number) >> 31;
                 polls += 1u;
                 k.when((polls.get() & (polls_between_looks - 1)) == 0u, [&] {
                   const U64 waited = k.globaltimer() - start;
                   const U32 stopped = load_relaxed(stop, Scope::sys);
                   given_up = select(waited > k.arg(&AllReduce::Args::limit), k.constant(~0u), 0u) |
                              select(stopped != 0u, k.constant(~0u), 0u);
                 });
               });
  k.when(behind.get() != 0u, [&] {
    k.when(load_relaxed(stop, Scope::sys) == 0u, [&] { store_relaxed(stop, k.thread() + 1u, Scope::sys); });
  });
}

}  // namespace

Kernel AllReduce::build() const {
  if (norm != norm_none && !add) throw Error("{}: a norm without add", name);
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const U32 places = k.arg(&Args::places), place = k.arg(&Args::place), rank = k.arg(&Args::rank);
    const U64 start = mul_wide(row, cols);
    const U32 count = min(cols, k.arg(&Args::values) - to<uint32_t>(start));
    const auto y = k.arg(&Args::y) + start, h = k.arg(&Args::h) + start;
    auto each = [&](auto&& f) { k.loop(k.thread() * vec, count, threads * vec, f); };

    // where things lie: MailboxLayout
    std::vector<Global<uint8_t>> box;
    for (uint32_t r = 0; r < ranks; ++r) box.push_back(k.arg(boxes[r]));
    auto own = box[0].base, of_thread = box[0].base;
    for (uint32_t r = 1; r < ranks; ++r) {
      own = select(rank == r, box[r].base, own);
      of_thread = select(k.thread() == r, box[r].base, of_thread);
    }
    const U64 flags_at = mul_wide(places * 2u, place * 4u);
    const auto flags = [&](U64 in) { return Global<uint32_t>{in + flags_at}; };
    const auto rounds = flags(own) + (places * ranks + row);
    SumRound round;
    round.number = load(rounds) + 1u;
    const U64 at = mul_wide((round.number & 1u) * places + row, place);
    for (uint32_t r = 0; r < ranks; ++r) round.parts.push_back(box[r].as<float>() + at);
    round.flag_to = flags(of_thread) + (rank * places + row);
    round.flag_from = flags(own) + (k.thread() * places + row);

    const auto mine = Global<float>{own} + at;
    each([&](U32 i) { store_wide(mine + i, load_wide(y + i, vec)); });
    k.barrier();
    k.when(k.thread() < ranks, [&] {
      store_release(round.flag_to, round.number, Scope::sys);
      wait_for_flag(k, round);
    });
    k.barrier();
    k.when(k.thread() == 0u, [&] { store(rounds, round.number); });

    auto sums = [&](U32 i) {
      auto sum = load_wide(round.parts[0] + i, vec);
      for (uint32_t r = 1; r < ranks; ++r) {
        const auto part = load_wide(round.parts[r] + i, vec);
        for (uint32_t j = 0; j < vec; ++j) sum[j] = sum[j] + part[j];
      }
      return sum;
    };
    // with a norm, a thread reads again what it has stored
    if (norm != norm_none || !add) each([&](U32 i) { store_wide(y + i, sums(i)); });
    if (!add) return;
    const RowNorm made = row_norm(
        k, norm, cols, k.arg(&Args::epsilon),
        [&](auto&& f) {
          each([&](U32 i) {
            for (F32 v : load_wide(y + i, vec)) f(v);
          });
        },
        [&](F32 v) { return block_sum(k, v); });
    each([&](U32 i) {
      auto sum = norm == norm_none ? sums(i) : load_wide(y + i, vec), to = load_wide(h + i, vec);
      std::vector<F32> weight;
      if (norm != norm_none) weight = load_wide(k.arg(&Args::weight) + i, vec, {.nc = true});
      for (uint32_t j = 0; j < vec; ++j) {
        const F32 v = norm == norm_none ? sum[j] : made.of(sum[j]) * weight[j];
        to[j] = fma(v, k.arg(&Args::scale), to[j]);
        if (after) to[j] = to[j] * k.arg(&Args::after);
      }
      store_wide(h + i, to);
    });
  });
}

Grid AllReduce::grid(const Args& args) const {
  if (args.rows > args.places || args.cols > args.place)
    throw Error("{}: {} rows of {} values, but the mailbox has {} places of {}", name, args.rows, args.cols,
                args.places, args.place);
  if (args.place % 64) throw Error("{}: places of {} values, expected a multiple of 64", name, args.place);
  if (args.cols % vec || args.values % vec)
    throw Error("{}: {} values in rows of {}, but with vec = {} both must be multiples of it", name, args.values,
                args.cols, vec);
  const uint64_t full = uint64_t(args.rows) * args.cols;
  if (args.values > full || args.values + uint64_t(args.cols) <= full || (norm != norm_none && args.values != full))
    throw Error("{}: {} values, which are not {} rows of {}", name, args.values, args.rows, args.cols);
  if (args.rank >= ranks) throw Error("{}: rank {} of {}", name, args.rank, ranks);
  return row_grid(*this, args);
}

void add_all_reduce_kernels(std::vector<Entry>& all) { all.push_back(entry<AllReduce>()); }

}  // namespace heddle::kernels
