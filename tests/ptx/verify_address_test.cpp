// Alignment and bounds of addresses that verify can follow.
#include <functional>

#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

using Empty = Builder<NoArgs>;

TEST(VerifyAddress, OffsetsAreMultiplesOfTheAccess) {
  struct Row {
    int64_t bytes;
    bool one, four;  // one float, four at once
  };
  for (const Row& row : {Row{0, true, true},
                         {16, true, true},
                         {-32, true, true},
                         {4, true, false},
                         {8, true, false},
                         {2, false, false}}) {
    for (bool four : {false, true}) {
      Builder<Pointers> k("offset", 32);
      auto x = k.arg(&Pointers::x);
      x.bytes = row.bytes;
      const uint32_t line = __LINE__ + 1;
      four ? void(load_vec<4>(x)) : void(load(x));
      if (four ? row.four : row.one)
        EXPECT_TRUE(accepted(k.finish()));
      else
        EXPECT_TRUE(refused(k.finish(), {at(line), "ld.global",
                                         fmt::format("base + {} is not a multiple of {}", row.bytes, four ? 16 : 4)}));
    }
  }
}

TEST(VerifyAddress, WhatAnIndexAddsIsKnownByItsStep) {
  Builder<Pointers> k("step", 32);
  auto x = k.arg(&Pointers::x) + k.lane();
  load_vec<4>(x.offset(1));  // lane may be 3, 7, ...
  EXPECT_TRUE(accepted(k.finish()));

  Builder<Pointers> odd("odd", 32);
  auto y = (odd.arg(&Pointers::x) + odd.lane()).as<uint8_t>() + 2u;
  load(y.as<float>());
  EXPECT_TRUE(refused(odd.finish(), {at(__LINE__ - 1), "base + 2 + n * 4 is not a multiple of 4"}));

  Empty bytes("bytes", 32);
  auto tile = bytes.shared<uint8_t>(256);
  load((tile + (bytes.lane() << 3)).offset(4).as<float>());
  load((tile + (bytes.lane() & 0xfcu)).as<float>());
  load((tile + bytes.lane()).as<float>());  // nothing is known
  Kernel good = bytes.finish();
  EXPECT_TRUE(accepted(good));
  find(good, Op::load).offset = 6;
  EXPECT_TRUE(refused(good, {"ld.shared", "shared memory + 6 + n * 8 is not a multiple of 4"}));
}

TEST(VerifyAddress, SharedAddressesAreFollowed) {
  Empty k("shared", 32);
  k.shared<uint8_t>(8, 8);
  auto odd = k.shared<uint8_t>(24, 1);  // bytes 8 to 32
  store(odd.as<uint64_t>(), uint64_t(0));
  EXPECT_TRUE(accepted(k.finish()));

  Empty vec("vec", 32);
  vec.shared<uint8_t>(8, 8);
  load_vec<4>(vec.shared<uint8_t>(24, 1).as<float>());
  EXPECT_TRUE(refused(vec.finish(), {at(__LINE__ - 1), "shared memory + 8 is not a multiple of 16"}));
}

TEST(VerifyAddress, KnownAddressesAreInside) {
  for (uint32_t i : {31u, 32u}) {
    Empty k("inside", 32);
    auto tile = k.shared<float>(32);
    const uint32_t line = __LINE__ + 1;
    store(tile + i, 1.0f);
    if (i < 32)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {at(line), "st.shared", "4 bytes at byte 128 of 128 bytes of shared memory"}));
  }
  Empty before("before", 32);
  auto tile = before.shared<float>(32);
  store(Shared<float>{(tile.offset(-1)).address()}, 1.0f);
  EXPECT_TRUE(refused(before.finish(), {"4 bytes at byte -4 of 128 bytes of shared memory"}));

  for (uint32_t i : {3u, 4u}) {
    Empty k("constants", 32);
    auto table = k.constants<uint32_t>({1, 2, 3, 4});
    load(table + i);
    if (i < 4)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {"ld.const", "4 bytes at byte 16 of 16 bytes of constants"}));
  }

  Builder<Pointers> args("args", 32);
  args.arg(&Pointers::cols);
  Kernel k = args.finish();
  EXPECT_TRUE(accepted(k));
  find(k, Op::load).offset = sizeof(Pointers);
  EXPECT_TRUE(refused(k, {"ld.param", "4 bytes at byte 24 of 24 bytes of arguments"}));
  find(k, Op::load).offset = 2;
  EXPECT_TRUE(refused(k, {"arguments + 2 is not a multiple of 4"}));
}

TEST(VerifyAddress, AtomicsMatricesCopiesAndBarriersAreAligned) {
  struct Row {
    const char* name;
    uint32_t good, bad;  // bytes from the start of shared memory
    uint32_t align;
    std::function<void(Builder<Pointers>&, Shared<uint8_t>)> emit;
  };
  const Row table[] = {
      {"atom", 4, 2, 4, [](auto&, auto s) { atomic_add(s.template as<uint32_t>(), 1u); }},
      {"ldmatrix", 16, 8, 16, [](auto&, auto s) { load_matrices<1>(s.template as<f16>()); }},
      {"stmatrix", 16, 8, 16, [](auto& k, auto s) { store_matrices<1>(s.template as<f16>(), {k.constant(0u)}); }},
      {"cp.async", 8, 4, 8,
       [](auto& k, auto s) {
         copy_async<8>(s, k.arg(&Pointers::x));
         copy_commit(k);
         copy_wait(k, 0);
       }},
      {"cp.async.bulk", 16, 8, 16,
       [](auto& k, auto s) {
         bulk_store(k.arg(&Pointers::x), s, 32u);
         bulk_commit(k);
         bulk_wait(k, 0);
       }},
      {"mbarrier.init", 8, 4, 8, [](auto&, auto s) { Mbarrier{s.template as<uint64_t>()}.init(1u); }},
      {"mbarrier.try_wait", 8, 12, 8, [](auto&, auto s) { Mbarrier{s.template as<uint64_t>()}.try_wait(1u); }},
  };
  for (const Row& row : table)
    for (bool good : {true, false}) {
      Builder<Pointers> k("aligned", 32);
      auto memory = k.shared<uint8_t>(64);
      row.emit(k, memory + (good ? row.good : row.bad));
      if (good)
        EXPECT_TRUE(accepted(k.finish())) << row.name;
      else
        EXPECT_TRUE(refused(
            k.finish(),
            {__FILE__, row.name, fmt::format("shared memory + {} is not a multiple of {}", row.bad, row.align)}));
    }
  Builder<Pointers> k("outside", 32);
  bulk_store(k.arg(&Pointers::x), k.shared<uint8_t>(64), 80u);
  bulk_commit(k);
  bulk_wait(k, 0);
  EXPECT_TRUE(refused(k.finish(), {"cp.async.bulk", "80 bytes at byte 0 of 64 bytes of shared memory"}));
}

struct alignas(64) MapArgs {
  TensorMap map;
  DevicePtr<float> x;
};

TEST(VerifyAddress, TensorCopiesWantSharedMemoryAlignedTo128) {
  for (uint32_t align : {128u, 16u}) {
    Builder<MapArgs> k("tensor", 32);
    auto tile = k.shared<float>(256, align);
    auto done = mbarrier(k);
    S32 zero = k.constant(0);
    const uint32_t line = __LINE__ + 1;
    tensor_load(tile, k.arg(&MapArgs::map), Vec<int32_t, 1>{zero}, done);
    done.wait(k, 0u);
    if (align == 128)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(
          refused(k.finish(), {at(line), "needs shared memory aligned to 128 bytes, the kernel's is aligned to 16"}));
  }
}

TEST(VerifyAddress, ArgumentsAndConstantsKeepTheirSpace) {
  Builder<MapArgs> k("map", 32);
  load(Global<float>{k.arg(&MapArgs::map)});
  EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "the address of an argument is for tensor copies"}));
  Empty c("constant", 32);
  load(Global<float>{c.constants<float>({1, 2}).address()});
  EXPECT_TRUE(refused(c.finish(), {at(__LINE__ - 1), "an address of the constants is used in another space"}));
}

}  // namespace
}  // namespace heddle::ptx
