// The cases across threads, of memory and of asynchronous copies, through the public interpreter: each against its own
// reference, a few hundred items, with warps taking turns in order and in a random order.
#include <gtest/gtest.h>

#include "ptx/builder.h"
#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::ptx::cases {
namespace {

std::vector<Case> these() {
  std::vector<Case> v;
  add_warp(v);
  add_memory(v);
  add_async(v);
  return v;
}
// Names of tests are letters, digits and underscores.
std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string s = info.param.family + "_" + info.param.name;
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return s;
}

class InterpretedCase : public testing::TestWithParam<Case> {};

TEST_P(InterpretedCase, GivesWhatItsReferenceGives) {
  const Case& c = GetParam();
  // some hundred items of a thread or a warp, fewer of a block's tile; not a multiple of the items per block
  const uint32_t items = c.items_per_block > 1 ? 3 * c.items_per_block + 5 : c.in_bytes > 2048 ? 20 : 70;
  const Kernel kernel = c.build();
  ASSERT_NO_THROW(verify(kernel));
  const std::vector<uint8_t> in = make_inputs(c, items, 1), want = reference(c, in, items);
  for (uint64_t seed : {0, 1}) {
    const Difference d = compare(c, in, interpret_case(c, kernel, in, items, {.seed = seed}), want, items);
    EXPECT_EQ(d.mismatches, 0u) << "of " << items << "; " << d.first;
  }
}

// --- launches of several devices
// ---------------------------------------------------------------------------------------
struct RelayArgs {
  DevicePtr<uint32_t> words, flags;
  uint32_t me, next, turns;
};
// Waits for its flag, adds its number to the word, and passes the turn on.
Kernel relay() {
  Builder<RelayArgs> k("relay", 32);
  const auto flags = k.arg(&RelayArgs::flags), words = k.arg(&RelayArgs::words);
  k.when(k.thread() == 0u, [&] {
    k.loop(0, k.arg(&RelayArgs::turns), 1, [&](U32 turn) {
      auto seen = k.var(0u);
      k.loop_while([&] { return seen.get() <= turn; },
                   [&] { seen = load_acquire(flags + k.arg(&RelayArgs::me), Scope::sys); });
      store(words, load(words) * 3u + k.arg(&RelayArgs::me));
      const auto to = flags + k.arg(&RelayArgs::next);
      store_release(to, load(to) + 1u, Scope::sys);
    });
  });
  return k.finish();
}

TEST(InterpretedTogether, QueuesWaitForEachOther) {
  const Lowered kernel(relay());
  for (uint64_t seed : {0, 1, 2, 3}) {
    Memory memory;
    const auto words = memory.put(std::vector<uint32_t>{0}), flags = memory.put(std::vector<uint32_t>{1, 0, 0});
    std::vector<std::vector<QueuedLaunch>> queues(3);
    uint32_t want = 0;
    for (uint32_t i = 0; i < 3 * 8; ++i) want = want * 3 + i % 3;
    for (uint32_t me = 0; me < 3; ++me)
      queues[me].push_back(QueuedLaunch::of(kernel, {}, RelayArgs{words, flags, me, (me + 1) % 3, 8}, {.seed = seed}));
    const InterpretStats stats = interpret_together(queues, memory);
    EXPECT_EQ(memory.get(words, 1)[0], want) << "seed " << seed;
    EXPECT_GT(stats.warp_instructions, 3u * 8 * 5);
  }
}

TEST(InterpretedTogether, ALaunchBeginsWhenTheOneBeforeItHasEnded) {
  const Lowered kernel(relay());
  Memory memory;
  const auto words = memory.put(std::vector<uint32_t>{0}), flags = memory.put(std::vector<uint32_t>{1, 0});
  // the second launch of the first queue looks for the flag that the second queue sets after the first launch
  const std::vector<QueuedLaunch> first{QueuedLaunch::of(kernel, {}, RelayArgs{words, flags, 0, 1, 1}),
                                        QueuedLaunch::of(kernel, {}, RelayArgs{words, flags, 0, 1, 2})};
  const std::vector<QueuedLaunch> second{QueuedLaunch::of(kernel, {}, RelayArgs{words, flags, 1, 0, 3})};
  const std::vector<std::vector<QueuedLaunch>> queues{first, second};
  interpret_together(queues, memory);
  EXPECT_EQ(memory.get(flags, 2), (std::vector<uint32_t>{4, 3}));
}

TEST(InterpretedTogether, ReportsWhatNeverComes) {
  const Lowered kernel(relay());
  Memory memory;
  const auto words = memory.put(std::vector<uint32_t>{0}), flags = memory.put(std::vector<uint32_t>{0, 0});
  std::vector<std::vector<QueuedLaunch>> queues(2);
  for (uint32_t me : {0u, 1u})
    queues[me].push_back(
        QueuedLaunch::of(kernel, {}, RelayArgs{words, flags, me, 1 - me, 1}, {.max_idle_steps = 1 << 16}));
  try {
    interpret_together(queues, memory);
    FAIL() << "nothing was reported";
  } catch (const Report& report) {
    EXPECT_EQ(report.kind, Report::Kind::no_progress) << report.what();
  }
  EXPECT_EQ(interpret_together({}, memory).warp_instructions, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, InterpretedCase, testing::ValuesIn(these()), test_name);

}  // namespace

void PrintTo(const Case& c, std::ostream* out) { *out << c.family << " " << c.name; }

}  // namespace heddle::ptx::cases
