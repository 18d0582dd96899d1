// Where positions of the cache lie, beyond 32 bits too, and the exact division that finds their pages.
#include "kernels/attention/kv_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "ptx/interpret.h"

namespace heddle::kernels {
namespace {

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
  args.k = {0x7000000000};
  args.v = {0x7100000000};
  args.k_base = memory.put(std::vector<uint64_t>{1, 0x7200000000});
  args.sequence = 1;
  args.v_base = memory.put(std::vector<uint64_t>{1, 0x7300000000});
  std::vector<int32_t> table(64);
  for (auto& page : table) page = int32_t(random() >> 33);
  args.table = memory.put(table);
  args.table_stride = 20;
  const ptx::Kernel single = Where::build(kv_single, 256), batched = Where::build(kv_batched, 1024),
                    paged = Where::build(kv_paged, 512);
  auto at = [&](const ptx::Kernel& kernel) {
    ptx::interpret(kernel, {}, args, memory);
    return memory.get(args.out, 2);
  };
  for (int i = 0; i < 200; ++i) {
    args.kv_heads = 1 + uint32_t(random() % 200);
    args.kv_head = uint32_t(random() % args.kv_heads);
    args.max_len = uint32_t(random()) >> random() % 20;
    args.position = uint32_t(random() % (args.max_len + 1ull));
    uint64_t offset = (uint64_t(args.kv_head) * args.max_len + args.position) * 256;
    EXPECT_EQ(at(single), (std::vector{args.k.address + offset, args.v.address + offset}));
    EXPECT_EQ(at(batched), (std::vector{0x7200000000 + offset * 4, 0x7300000000 + offset * 4}));

    args.page_size = 16 * (1 + uint32_t(random() % 300));
    args.position = uint32_t(random() % (args.page_size * 44ull));
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

}  // namespace
}  // namespace heddle::kernels
