// What is easy to get wrong in attention, each by value: a maximum that rises with every position, sums that only some
// lanes hold, no positions at all, offsets beyond 32 bits. The sweep over shapes is in src/proof.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/f16.h"
#include "kernels/attention/cluster_attention.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

constexpr uint32_t dim = 64;

template <class Spec>
void run(const Spec& spec, const typename Spec::Args& args, ptx::Memory& memory) {
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel);
  ptx::interpret(kernel, spec.grid(args), args, memory);
}

std::vector<uint8_t> halves(const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * 2);
  for (size_t i = 0; i < x.size(); ++i) {
    const f16 h = to_f16(x[i]);
    std::memcpy(&bytes[i * 2], &h, 2);
  }
  return bytes;
}

// One head of one sequence whose position p has the score scores[p] and at value i: value(p, i).
struct OneHead {
  ptx::Memory memory;
  Attention::Args args{};
  std::vector<double> want;

  OneHead(const std::vector<float>& scores, uint32_t carrier, auto&& value) {
    const size_t n = scores.size();
    std::vector<float> q(dim, 0.0f), k(n * dim, 1000.0f), v(n * dim);  // q is 0 but in the one place `carrier`
    q[carrier] = 1;
    double sum = 0;
    want.assign(dim, 0);
    for (size_t p = 0; p < n; ++p) {
      k[p * dim + carrier] = scores[p];
      const double weight = std::exp(double(scores[p]));
      sum += weight;
      for (uint32_t i = 0; i < dim; ++i) want[i] += weight * (v[p * dim + i] = value(uint32_t(p), i));
    }
    for (double& x : want) x /= sum;
    args.q = memory.put(q), args.k = memory.put(halves(k)), args.v = memory.put(halves(v));
    args.out = memory.alloc<float>(dim);
    args.k_base = memory.put(std::vector{args.k.address}), args.v_base = memory.put(std::vector{args.v.address});
    args.lengths = memory.put(std::vector{int32_t(n)});
    args.table = memory.put(std::vector<int32_t>{0});
    args.sequences = args.heads = args.kv_heads = 1, args.scale = 1;
    args.length = args.max_len = uint32_t(n), args.page_size = 256, args.table_stride = 1;
    args.chunk = 16, args.chunks = 8;
    args.partial = memory.alloc<float>(8 * Attention::partial_row(dim));
  }
  std::vector<float> out(const Attention& spec) {
    run(spec, args, memory);
    if (spec.split)
      run(FlashDecodingReduce{.head_dim = dim},
          {.out = args.out, .partial = args.partial, .sequences = 1, .heads = 1, .chunks = 8}, memory);
    return memory.get(args.out, dim);
  }
  ClusterAttention::Args cluster_args() const {
    return {.out = args.out,
            .q = args.q,
            .k = args.k,
            .v = args.v,
            .k_base = args.k_base,
            .v_base = args.v_base,
            .table = args.table,
            .lengths = args.lengths,
            .partial = {},
            .arrived = {},
            .sequences = args.sequences,
            .heads = args.heads,
            .kv_heads = args.kv_heads,
            .clusters = 1,
            .length = args.length,
            .max_len = args.max_len,
            .page_size = args.page_size,
            .table_stride = args.table_stride,
            .window = args.window,
            .scale = args.scale,
            .softcap = args.softcap};
  }
  std::vector<float> out(const ClusterAttention& spec) {
    auto now = cluster_args();
    if (spec.merge) {
      now.clusters = 3;
      now.partial = memory.alloc<float>(spec.partial_count(1, 1, now.clusters));
      now.arrived = memory.put(std::vector<uint32_t>(spec.arrived_count(1, 1), 0));
    }
    run(spec, now, memory);
    return memory.get(args.out, dim);
  }
};

const std::vector<Attention> kinds = {
    {.head_dim = dim},
    {.head_dim = dim, .length = length_indirect, .warps = 4},
    {.head_dim = dim, .layout = kv_batched, .length = length_indirect, .warps = 2},
    {.head_dim = dim, .layout = kv_paged, .length = length_indirect, .warps = 2},
    {.head_dim = dim, .warps = 2, .split = 1},
};
const std::vector<ClusterAttention> cluster_kinds = {
    {.head_dim = dim, .splits = 1, .rows = 2, .stages = 2, .warps = 1},
    {.head_dim = dim, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
    {.head_dim = dim, .layout = kv_batched, .length = length_direct, .splits = 4, .chained = 1},
    {.head_dim = dim, .splits = 2, .rows = 2, .stages = 2, .warps = 1, .merge = 1, .chained = 1},
};
// f(spec) for a spec of every kind.
void each_kind(auto&& f) {
  for (auto& spec : kinds) f(spec);
  for (auto& spec : cluster_kinds) f(spec);
}

TEST(Attention, TheMaximumMayRiseWithEveryPosition) {
  for (float step : {0.25f, 1.0f, -1.0f}) {
    std::vector<float> scores;
    for (int p = 0; p < 100; ++p) scores.push_back(float(p) * step * 0.5f);
    OneHead one(scores, 0, [](uint32_t p, uint32_t i) { return float((p * 7 + i) % 16) - 7; });
    each_kind([&](const auto& spec) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < dim; ++i) ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    });
  }
}

// Whichever lane holds the only product that is not 0, every value of the row is weighted with it.
TEST(Attention, EveryLaneHasTheWholeScore) {
  for (uint32_t carrier : {0u, 7u, 8u, 31u, 40u, 63u}) {
    OneHead one({0.5f, 2, -1, 3, 0, 1, 1, -2, 2.5f}, carrier,
                [](uint32_t p, uint32_t i) { return float(p) + 0.25f * float(i % 8); });
    each_kind([&](const auto& spec) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < dim; ++i) ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    });
  }
}

TEST(Attention, ScoresFarApartNeitherOverflowNorVanish) {
  OneHead one({-30000, 30000, 29999, -60000, 100}, 3, [](uint32_t p, uint32_t) { return float(p); });
  const double e = std::exp(-1.0);  // to_f16(29999) is 30000
  one.want.assign(dim, to_f32(to_f16(29999.0)) == 30000 ? 1.5 : (1 + 2 * e) / (1 + e));
  each_kind([&](const auto& spec) {
    for (float x : one.out(spec)) ASSERT_NEAR(x, one.want[0], 1e-5) << field_text(spec);
  });
}

TEST(Attention, NoPositionsGiveZeros) {
  each_kind([](const auto& spec) {
    OneHead one({}, 0, [](uint32_t, uint32_t) { return 1.0f; });
    EXPECT_EQ(one.out(spec), std::vector<float>(dim, 0.0f)) << field_text(spec);
  });
}

TEST(Attention, NoSequencesTouchNothing) {
  OneHead one({1, 2}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  one.args.sequences = 0;
  each_kind([&](const auto& spec) {
    if constexpr (requires { spec.split; })
      if (spec.split) return;
    for (float x : one.out(spec)) {
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      ASSERT_EQ(bits, 0xccccccccu) << field_text(spec);
    }
  });
}

// The cache begins so far before the buffer that only 64-bit offsets lead back into it.
TEST(Attention, LongSequencesAndManyPagesNeed64Bits) {
  const std::vector<float> scores(16, 0.0f);
  OneHead one(scores, 0, [](uint32_t p, uint32_t) { return float(p); });
  const uint64_t row = dim * 2;
  auto before = [](ptx::DevicePtr<uint8_t> p, uint64_t bytes) { return ptx::DevicePtr<uint8_t>{p.address - bytes}; };

  const auto small = one.args;
  one.args.length = 0x7ffffff0, one.args.window = 16;  // the last 16 of 2^31 positions
  one.args.k = before(small.k, (one.args.length - 16) * row),
  one.args.v = before(small.v, (one.args.length - 16) * row);
  EXPECT_EQ(one.out(Attention{.head_dim = dim, .window = 1}), std::vector<float>(dim, 7.5f));
  EXPECT_EQ(one.out(Attention{.head_dim = dim, .warps = 2, .split = 1, .window = 1}), std::vector<float>(dim, 7.5f));
  EXPECT_EQ(one.out(ClusterAttention{.head_dim = dim, .length = length_direct, .splits = 2, .window = 1}),
            std::vector<float>(dim, 7.5f));

  one.args = small;
  const uint64_t page = 0x7ffffff1;
  one.args.page_size = 16, one.args.table = one.memory.put(std::vector{int32_t(page)});
  one.args.k = before(small.k, page * 16 * row), one.args.v = before(small.v, page * 16 * row);
  EXPECT_EQ(one.out(Attention{.head_dim = dim, .layout = kv_paged}), std::vector<float>(dim, 7.5f));
  EXPECT_EQ(one.out(ClusterAttention{.head_dim = dim, .layout = kv_paged, .length = length_direct, .splits = 2}),
            std::vector<float>(dim, 7.5f));
}

// The first wait for the kernels before this one, in the order of the text: that of the warp that fetches.
ptx::Inst* first_wait(ptx::Block& block) {
  for (ptx::Inst& inst : block) {
    if (inst.op == ptx::Op::grid_wait) return &inst;
    for (ptx::Block* inner : {&inst.head, &inst.body, &inst.otherwise})
      if (ptx::Inst* found = first_wait(*inner)) return found;
  }
  return nullptr;
}

// Before the wait everything but the new position is fetched: the kernel ends there by a trap, and the last row of the
// cache (or, to see that something is fetched at all, every row) lies outside the buffer.
TEST(ClusterAttention, FetchesAllButTheNewPositionEarly) {
  const ClusterAttention spec{.head_dim = dim, .splits = 1, .rows = 2, .stages = 4, .warps = 1, .chained = 1};
  ptx::Kernel kernel = spec.build();
  ptx::Inst* wait = first_wait(kernel.body);
  ASSERT_NE(wait, nullptr);
  wait->op = ptx::Op::trap;
  auto ends_by = [&](uint32_t length, uint32_t rows) {
    OneHead one(std::vector<float>(rows, 0.0f), 0, [](uint32_t, uint32_t) { return 1.0f; });
    auto args = one.cluster_args();
    args.lengths = one.memory.put(std::vector{int32_t(length)});
    try {
      ptx::interpret(kernel, spec.grid(args), args, one.memory);
    } catch (const ptx::Report& report) {
      return report.kind;
    }
    throw Error("nothing was reported");
  };
  for (uint32_t length : {1u, 16u, 17u, 49u}) EXPECT_EQ(ends_by(length, length - 1), ptx::Report::Kind::trap) << length;
  for (uint32_t length : {2u, 16u, 17u, 49u})
    EXPECT_EQ(ends_by(length, length - 2), ptx::Report::Kind::out_of_bounds) << length;
  EXPECT_EQ(ends_by(65, 64), ptx::Report::Kind::trap);  // the fifth stage must wait for its place
  EXPECT_EQ(ends_by(66, 64), ptx::Report::Kind::trap);
  EXPECT_EQ(ends_by(66, 63), ptx::Report::Kind::out_of_bounds);
}

bool has_wait(ptx::Block& block) { return first_wait(block) != nullptr; }

// The kernel after the next one relies on this one having waited, whatever it had to do.
TEST(Attention, WaitsWithoutSequencesToo) {
  auto check = [](ptx::Kernel kernel, const std::string& text) {
    for (ptx::Inst& inst : kernel.body) EXPECT_EQ(has_wait(inst.body), has_wait(inst.otherwise)) << text;
    EXPECT_TRUE(has_wait(kernel.body)) << text;
  };
  each_kind([&](auto spec) {
    spec.chained = 1;
    check(spec.build(), field_text(spec));
  });
}

TEST(ClusterAttention, TheChoiceFillsTheGpu) {
  for (uint32_t head_dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
    for (uint32_t kv_heads : {1u, 2u, 8u, 32u})
      for (uint32_t sequences : {0u, 1u, 4u, 100u})
        for (uint32_t length : {0u, 512u, 5000u, 100000u}) {
          const auto [spec, clusters] = cluster_choice(head_dim, kv_heads, sequences, length, 132);
          EXPECT_LE(spec.stages * spec.stage_bytes(), 160 * 1024) << field_text(spec);
          EXPECT_TRUE(clusters == 1 || (spec.merge && kv_heads * sequences * spec.splits * clusters <= 132))
              << field_text(spec);
        }
  const auto [spec, clusters] = cluster_choice(128, 8, 1, 32768, 132);
  EXPECT_EQ(spec.splits * clusters, 16u);
}

// Where KvCache says that a position is, for any kv head and sequence.
struct Where {
  struct Args {
    ptx::DevicePtr<uint64_t> out;  // k, v
    ptx::DevicePtr<uint8_t> k, v;
    ptx::DevicePtr<uint64_t> k_base, v_base;
    ptx::DevicePtr<int32_t> table;
    uint32_t kv_heads, max_len, page_size, table_stride, sequence, kv_head, position;
  };
  static ptx::Kernel build(uint32_t layout, uint32_t row_bytes) {
    ptx::Builder<Args> k("where", 32);
    KvCache<Args> cache(k, layout, row_bytes, k.arg(&Args::sequence), k.arg(&Args::kv_head));
    ptx::U64 offset = cache.offset(k.arg(&Args::position));
    store(k.arg(&Args::out), cache.k().base + offset);
    store(k.arg(&Args::out).offset(1), cache.v().base + offset);
    return k.finish();
  }
};

TEST(KvCache, AddressesAre64BitsWide) {
  ptx::Memory memory;
  std::mt19937_64 random(1);
  Where::Args args{};
  args.out = memory.alloc<uint64_t>(2);
  args.k = {0x7000000000}, args.v = {0x7100000000};
  args.k_base = memory.put(std::vector<uint64_t>{1, 0x7200000000}), args.sequence = 1;
  args.v_base = memory.put(std::vector<uint64_t>{1, 0x7300000000});
  std::vector<int32_t> table(64);
  for (auto& page : table) page = int32_t(random() >> 33);
  args.table = memory.put(table), args.table_stride = 20;
  const ptx::Kernel single = Where::build(kv_single, 256), batched = Where::build(kv_batched, 1024),
                    paged = Where::build(kv_paged, 512);
  auto at = [&](const ptx::Kernel& kernel) {
    ptx::interpret(kernel, {}, args, memory);
    return memory.get(args.out, 2);
  };
  for (int i = 0; i < 200; ++i) {
    args.kv_heads = 1 + uint32_t(random() % 200), args.kv_head = uint32_t(random() % args.kv_heads);
    args.max_len = uint32_t(random()) >> random() % 20, args.position = uint32_t(random() % (args.max_len + 1ull));
    uint64_t offset = (uint64_t(args.kv_head) * args.max_len + args.position) * 256;
    EXPECT_EQ(at(single), (std::vector{args.k.address + offset, args.v.address + offset}));
    EXPECT_EQ(at(batched), (std::vector{0x7200000000 + offset * 4, 0x7300000000 + offset * 4}));

    args.page_size = 16 * (1 + uint32_t(random() % 300)), args.position = uint32_t(random() % (args.page_size * 44ull));
    const uint64_t page = uint32_t(table[20 + args.position / args.page_size]);
    offset = ((page * args.kv_heads + args.kv_head) * args.page_size + args.position % args.page_size) * 512;
    EXPECT_EQ(at(paged), (std::vector{args.k.address + offset, args.v.address + offset}));
  }
}

struct DivideArgs {
  ptx::DevicePtr<uint32_t> out, n;
  uint32_t divisor;
};
TEST(Divider, IsExact) {
  ptx::Builder<DivideArgs> k("divide", 32);
  Divider by(k, k.arg(&DivideArgs::divisor));
  store(k.arg(&DivideArgs::out) + k.thread(), by.divide(load(k.arg(&DivideArgs::n) + k.thread())));
  const ptx::Kernel kernel = k.finish();
  ptx::Memory memory;
  std::mt19937 random(2);
  for (uint32_t divisor : {1u, 2u, 3u, 16u, 48u, 64u, 65535u, 65537u, 0x7fffffffu, 0x80000001u, 0xffffffffu}) {
    std::vector<uint32_t> n = {0, 1, divisor - 1, divisor, divisor + 1, 0xffffffff, 0xfffffffe, 2 * divisor};
    while (n.size() < 32) n.push_back(uint32_t(random()) >> random() % 32);
    const DivideArgs args{.out = memory.alloc<uint32_t>(32), .n = memory.put(n), .divisor = divisor};
    ptx::interpret(kernel, {}, args, memory);
    for (uint32_t& x : n) x /= divisor;
    EXPECT_EQ(memory.get(args.out, 32), n) << divisor;
  }
}

// A q8 cache has as many bytes in flight as an f16 one, in pieces whose scales can be copied.
TEST(ClusterAttention, ShapesForQ8KeepTheirBytes) {
  for (uint32_t size : {64u, 96u, 128u, 160u, 192u, 256u})
    for (uint32_t rows : {2u, 4u, 8u, 16u})
      for (uint32_t stages : {1u, 3u, 8u}) {
        const ClusterAttention given{.head_dim = size, .layout = kv_paged, .splits = 2, .rows = rows, .stages = stages};
        const ClusterAttention q8 = as_q8(given);
        EXPECT_EQ(q8.kv, uint32_t(kv_q8));
        EXPECT_EQ(q8.rows * size % 256, 0u);
        const uint32_t bytes = given.stages * given.stage_bytes(), now = q8.stages * q8.stage_bytes();
        EXPECT_LE(now, std::max(bytes, q8.stage_bytes())) << field_text(q8);
        EXPECT_TRUE(now + q8.stage_bytes() > bytes || q8.stages == 16) << field_text(q8);
      }
  for (uint32_t size : {64u, 80u, 128u, 256u}) EXPECT_EQ(steady_cluster_choice(size).clusters, 1u);
}

TEST(Attention, RefusesWhatItCannotDo) {
  EXPECT_THROW(Attention{.head_dim = 48}.build(), Error);
  EXPECT_THROW(Attention{.warps = 0}.build(), Error);
  OneHead one({1}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  auto refused = [&](Attention spec, auto&& change) {
    Attention::Args args = one.args;
    EXPECT_NO_THROW(spec.grid(args));
    change(args);
    EXPECT_THROW(spec.grid(args), Error) << field_text(spec);
  };
  refused({}, [](auto& a) { a.kv_heads = 0; });
  refused({}, [](auto& a) { a.heads = 0; });
  refused({}, [](auto& a) { a.heads = 3, a.kv_heads = 2; });
  refused({}, [](auto& a) { a.sequences = 2; });
  refused({}, [](auto& a) { a.k.address += 8; });
  refused({}, [](auto& a) { a.q.address += 4; });
  refused({.layout = kv_batched}, [](auto& a) { a.sequences = 65536; });
  refused({.layout = kv_paged}, [](auto& a) { a.page_size = 24; });
  refused({.layout = kv_paged}, [](auto& a) { a.page_size = 0; });
  refused({.split = 1}, [](auto& a) { a.chunk = 0; });
  refused({.split = 1}, [](auto& a) { a.chunks = 0; });
  one.args.window = 1, one.args.softcap = 1;
  refused({.window = 1}, [](auto& a) { a.window = 0; });
  refused({.softcap = 1}, [](auto& a) { a.softcap = 0; });
  ClusterAttention::Args args = one.cluster_args();
  EXPECT_NO_THROW(ClusterAttention{}.grid(args));
  args.heads = 9;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  args = one.cluster_args();
  args.out.address += 8;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  args = one.cluster_args();
  args.clusters = 2;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  EXPECT_NO_THROW(ClusterAttention{.merge = 1}.grid(args));
  args.clusters = 0;
  EXPECT_THROW(ClusterAttention{.merge = 1}.grid(args), Error);
  EXPECT_THROW((ClusterAttention{.rows = 4, .warps = 4}.build()), Error);
  const ClusterAttention q8{.kv = kv_q8, .layout = kv_paged, .splits = 2};
  EXPECT_NO_THROW(q8.build());
  auto cannot = [&](auto&& change) {
    ClusterAttention spec = q8;
    change(spec);
    EXPECT_THROW(spec.build(), Error) << field_text(spec);
  };
  cannot([](auto& s) { s.layout = kv_single; });
  cannot([](auto& s) { s.kv = kv_f32; });
  cannot([](auto& s) { s.head_dim = 80; });
  cannot([](auto& s) { s.head_dim = 96, s.rows = 4, s.warps = 2; });  // scales of a piece: 24 bytes
  cannot([](auto& s) { s.kv = kv_f16, s.layout = kv_batched, s.mapped = 1; });
  args = one.cluster_args();
  args.page_size = 16;
  EXPECT_NO_THROW(q8.grid(args));
  args.v_scale.address = 8;
  EXPECT_THROW(q8.grid(args), Error);
  args = one.cluster_args();
  args.q_stride = 129;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  EXPECT_THROW((ClusterAttention{.splits = 3}.build()), Error);
  EXPECT_THROW((ClusterAttention{.head_dim = 192, .rows = 16, .warps = 8}.build()), Error);
  EXPECT_THROW(FlashDecodingReduce{}.grid({.out = {}, .partial = {}, .sequences = 1, .heads = 0, .chunks = 1}), Error);
}

}  // namespace
}  // namespace heddle::kernels
