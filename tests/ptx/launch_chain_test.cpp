// Launches that overlap: what may be touched before the wait, and what is reported. Every rule of launch_chain.h has a
// chain that breaks it.
#include "ptx/launch_chain.h"

#include <gtest/gtest.h>

#include <functional>

#include "ptx/builder.h"

namespace heddle::ptx {
namespace {

struct ChainArgs {
  DevicePtr<uint32_t> a, b, c;  // (256) each
};
using ChainBuilder = Builder<ChainArgs>;
using Words = Global<uint32_t>;
using Build = std::function<void(ChainBuilder& k, Words a, Words b, Words c)>;

// Three buffers and a chain of launches on them. A launch returns the report's text, "" if there is none.
class ChainTest : public testing::Test {
 protected:
  std::string run(const std::string& name, bool overlaps, const Build& build, Launch launch = {.threads = 64},
                  Grid grid = {}) {
    ChainBuilder k(name, launch);
    build(k, k.arg(&ChainArgs::a), k.arg(&ChainArgs::b), k.arg(&ChainArgs::c));
    try {
      chain.launch(Lowered(k.finish()), grid, &args, sizeof args, memory, overlaps);
    } catch (const Report& report) {
      EXPECT_EQ(int(report.kind), int(Report::Kind::overlap)) << report.what();
      line = report.line;
      return report.what();
    }
    return "";
  }
  std::string first(const std::string& name, const Build& build) { return run(name, false, build); }
  std::string next(const std::string& name, const Build& build) { return run(name, true, build); }
  static void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), text.npos) << "\"" << part << "\" in \"" << text << "\"";
  }

  static void write_a(ChainBuilder& k, Words a, Words, Words) {
    k.grid_launch_dependents();
    k.grid_wait();
    store(a + k.thread(), k.thread());
  }
  static void read_a(ChainBuilder& k, Words a, Words, Words c) {
    k.grid_launch_dependents();
    k.grid_wait();
    store(c + k.thread(), load(a + k.thread()));
  }

  Memory memory;
  LaunchChain chain;
  uint32_t line = 0;  // of the last report
  const ChainArgs args{memory.alloc<uint32_t>(256), memory.alloc<uint32_t>(256), memory.alloc<uint32_t>(256)};
};

TEST(ByteSet, HoldsWhatWasAddedAndNoMore) {
  ByteSet set;
  set.add(4094, 4);  // over the edge of a page
  set.add(8192, 256);
  set.add(4095, 1);  // again
  for (uint64_t byte : {4094u, 4095u, 4096u, 4097u, 8192u, 8447u}) EXPECT_TRUE(set.meets(byte, 1)) << byte;
  for (uint64_t byte : {0u, 4093u, 4098u, 8191u, 8448u, 12288u}) EXPECT_FALSE(set.meets(byte, 1)) << byte;
  EXPECT_FALSE(set.meets(4098, 8192 - 4098));
  EXPECT_TRUE(set.meets(4098, 8192 - 4098 + 1));
  EXPECT_TRUE(set.meets(0, 100000));
  EXPECT_FALSE(set.meets(8192, 0));
}

TEST_F(ChainTest, ReadsBehindTheWaitAreFine) {
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(next("reader", read_a), "");
  EXPECT_EQ(next("writer", write_a), "");  // of what the reader has read
  EXPECT_EQ(memory.get(args.c, 64)[63], 63u);
}

TEST_F(ChainTest, AReadBeforeTheWait) {
  auto early = [](ChainBuilder& k, Words a, Words, Words c) {
    U32 x = load(a + k.thread());
    k.grid_wait();
    store(c + k.thread(), x);
  };
  EXPECT_EQ(first("writer", write_a), "");
  const uint32_t here = __LINE__;
  expect_says(next("early", early),
              {"early", "thread 0", "reads 4 bytes", "before it waits", "writer, 1 launches before, writes them"});
  EXPECT_GT(line, here - 10);
  EXPECT_LT(line, here);
}

TEST_F(ChainTest, WhatNoLaunchWritesMayBeReadEarly) {
  auto prefetches = [](ChainBuilder& k, Words, Words b, Words c) {
    U32 weight = load(b + k.thread());
    k.grid_wait();
    store(c + k.thread(), weight);
  };
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(next("prefetches", prefetches), "");
}

TEST_F(ChainTest, BytesBesideThoseWrittenMayBeReadEarly) {
  auto write_half = [](ChainBuilder& k, Words a, Words, Words) {
    k.grid_launch_dependents();
    k.grid_wait();
    k.when(k.thread() < 32u, [&] { store(a + k.thread(), 1u); });
  };
  auto read_from = [](uint32_t word) {
    return [word](ChainBuilder& k, Words a, Words, Words c) {
      U32 x = load(a + word);
      k.grid_wait();
      store(c + k.thread(), x);
    };
  };
  EXPECT_EQ(first("writer", write_half), "");
  EXPECT_EQ(next("beside", read_from(32)), "");
  EXPECT_EQ(first("writer", write_half), "");
  EXPECT_NE(next("inside", read_from(31)), "");
}

TEST_F(ChainTest, AWriteBeforeTheWait) {
  auto early = [](ChainBuilder& k, Words a, Words, Words) {
    store(a + k.thread(), 7u);
    k.grid_wait();
  };
  EXPECT_EQ(first("writer", write_a), "");
  expect_says(next("early", early), {"writes 4 bytes", "before it waits", "writer, 1 launches before, writes them"});
  chain.join();
  EXPECT_EQ(first("reader", read_a), "");
  expect_says(next("early", early), {"writes 4 bytes", "reader, 1 launches before, reads them"});
  chain.join();
  auto counts = [](ChainBuilder& k, Words a, Words, Words) {
    reduce(Atomic::add, a, 1u);
    k.grid_wait();
  };
  EXPECT_EQ(first("reader", read_a), "");
  expect_says(next("counts", counts), {"writes 4 bytes", "reader"});
}

// One thread waits for all; what orders the others behind it is a barrier.
TEST_F(ChainTest, ABarrierPassesTheWaitOn) {
  auto one_waits = [](bool barrier) {
    return [barrier](ChainBuilder& k, Words a, Words, Words c) {
      auto unused = k.shared<uint32_t>(1);
      k.when(k.thread() == 0u, [&] {
        k.grid_wait();
        store(unused, 0u);
      });
      if (barrier) k.barrier();
      store(c + k.thread(), load(a + k.thread()));
    };
  };
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(next("all", one_waits(true)), "");
  EXPECT_EQ(first("writer", write_a), "");
  expect_says(next("some", one_waits(false)), {"thread 1", "before it waits"});
}

TEST_F(ChainTest, AClusterBarrierPassesTheWaitOn) {
  auto first_block_waits = [](bool barrier) {
    return [barrier](ChainBuilder& k, Words a, Words, Words c) {
      k.when(k.cluster_rank() == 0u, [&] { k.grid_wait(); });
      if (barrier) k.cluster_barrier();
      store(c + (k.block_id() * 64u + k.thread()), load(a + k.thread()));
    };
  };
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(run("all", true, first_block_waits(true), {.threads = 64, .cluster = 2}, {2, 1, 1}), "");
  EXPECT_EQ(first("writer", write_a), "");
  expect_says(run("some", true, first_block_waits(false), {.threads = 64, .cluster = 2}, {2, 1, 1}),
              {"block (1, 0, 0)", "before it waits"});
}

// The launch in the middle decides how far back launches may still run when the third starts.
TEST_F(ChainTest, ALaunchThatStartsTheNextBeforeItWaits) {
  auto early_reader = [](ChainBuilder& k, Words a, Words, Words c) {
    U32 x = load(a + k.thread());
    k.grid_wait();
    store(c + k.thread(), x);
  };
  enum class When { before_its_wait, after_its_wait, never };
  auto middle = [](When when) {
    return [when](ChainBuilder& k, Words, Words b, Words) {
      if (when == When::before_its_wait) k.grid_launch_dependents();
      k.grid_wait();
      store(b + k.thread(), 1u);
      if (when == When::after_its_wait) k.grid_launch_dependents();
    };
  };
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(next("middle", middle(When::before_its_wait)), "");
  EXPECT_EQ(next("middle", middle(When::before_its_wait)), "");
  expect_says(next("early", early_reader), {"writer, 3 launches before, writes them"});
  for (When when : {When::after_its_wait, When::never}) {
    EXPECT_EQ(first("writer", write_a), "");
    EXPECT_EQ(next("middle", middle(when)), "");
    EXPECT_EQ(next("early", early_reader), "");
  }
}

TEST_F(ChainTest, OneBlockThatWaitsFirstHoldsBackTheNextLaunch) {
  auto middle = [](uint32_t late_blocks) {
    return [late_blocks](ChainBuilder& k, Words, Words b, Words) {
      k.when(k.block_id() >= late_blocks, [&] { k.grid_launch_dependents(); });
      k.grid_wait();
      k.when(k.block_id() < late_blocks, [&] { k.grid_launch_dependents(); });
      store(b + k.thread(), 1u);
    };
  };
  auto early_reader = [](ChainBuilder& k, Words a, Words, Words c) {
    U32 x = load(a + k.thread());
    k.grid_wait();
    store(c + k.thread(), x);
  };
  for (uint32_t late : {0u, 1u, 3u}) {
    EXPECT_EQ(first("writer", write_a), "");
    EXPECT_EQ(run("middle", true, middle(late), {.threads = 64}, {3, 1, 1}), "");
    EXPECT_EQ(next("early", early_reader) == "", late > 0) << late;
    chain.join();
  }
}

TEST_F(ChainTest, TheReadOnlyPathIsForWhatDoesNotChangeWhileTheKernelRuns) {
  auto read_only = [](ChainBuilder& k, Words a, Words, Words c) {
    k.grid_wait();
    store(c + k.thread(), load(a + k.thread(), {.nc = true}));
  };
  EXPECT_EQ(first("writer", write_a), "");
  expect_says(next("read_only", read_only), {"through the read-only path", "writer, 1 launches before"});
  EXPECT_EQ(first("writer", write_a), "");
  EXPECT_EQ(first("read_only", read_only), "");  // begins after the writer has ended
}

TEST_F(ChainTest, CopiesCountWhenTheyAreBegun) {
  auto copies = [](bool bulk) {
    return [bulk](ChainBuilder& k, Words a, Words, Words c) {
      auto s = k.shared<uint32_t>(256);
      auto done = mbarrier(k);
      if (bulk) {
        k.when(k.thread() == 0u, [&] {
          done.init(1u);
          fence_mbarrier_init(k);
          done.arrive_expect_bytes(256u);
          bulk_load(s, a, 256u, done);
        });
      } else {
        copy_async<16>(s + k.thread() * 4u, a + k.thread() * 4u);
        copy_commit(k);
      }
      k.grid_wait();
      k.barrier();
      if (bulk)
        done.wait(k, 0u);
      else
        copy_wait(k, 0);
      store(c + k.thread(), load(s + k.thread() % 4u));
    };
  };
  for (bool bulk : {false, true}) {
    EXPECT_EQ(first("reader", read_a), "");
    EXPECT_EQ(first("writer", write_a), "");
    expect_says(next("copies", copies(bulk)), {bulk ? "reads 256 bytes" : "reads 16 bytes", "before it waits"});
    chain.join();
  }
}

TEST_F(ChainTest, OtherWorkOfTheStreamEndsTheChain) {
  auto early = [](ChainBuilder& k, Words a, Words, Words c) {
    U32 x = load(a + k.thread());
    k.grid_wait();
    store(c + k.thread(), x);
  };
  EXPECT_EQ(first("writer", write_a), "");
  chain.join();
  EXPECT_EQ(next("early", early), "");
}

TEST_F(ChainTest, ALaunchThatMayStartEarlyMustWait) {
  auto never = [](ChainBuilder& k, Words, Words, Words c) { store(c + k.thread(), 1u); };
  EXPECT_EQ(first("writer", write_a), "");
  expect_says(next("never", never), {"never", "no thread waits"});
}

}  // namespace
}  // namespace heddle::ptx
