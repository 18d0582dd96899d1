// What a tensor copy may not do, as seen on an H200: the interpreter reports it where hardware would stop, write too
// much, or spread the box over more shared memory than it has bytes. What it may do is among the cases
// (cases/tensor.cpp).
#include "tests/ptx/reporting.h"

namespace heddle::ptx {
namespace {

struct CopiedMap {
  TensorMap map;
};

// Stores or loads a box of `box` x 4 words at (x, y) of a tensor of `width` x 8 whose rows are 128 bytes apart.
std::optional<Kind> copy(bool store, int32_t x, int32_t y, uint32_t width = 32, uint32_t box = 8,
                         Swizzle swizzle = Swizzle::none) {
  Builder<CopiedMap> k("tensor_copy", 32);
  auto tile = k.shared<uint32_t>(box * 4, 1024);
  Mbarrier done = mbarrier(k);
  U64 map = k.arg(&CopiedMap::map);
  const Vec<int32_t, 2> at{k.constant(x), k.constant(y)};
  k.loop(k.thread(), box * 4, 32u, [&](U32 i) { ptx::store(tile + i, i); });
  fence_async_shared(k);
  k.when(k.thread() == 0u, [&] {
    done.init(1u);
    fence_mbarrier_init(k);
  });
  k.barrier();
  k.when(k.thread() == 0u, [&] {
    if (store) {
      tensor_store(map, tile, at);
      bulk_commit(k);
      bulk_wait(k, 0);
    } else {
      done.arrive_expect_bytes(box * 16);
      tensor_load(tile, map, at, done);
    }
  });
  if (!store) done.wait(k, 0u);

  Memory memory;
  auto tensor = memory.alloc<uint32_t>(32 * 8);
  const TensorMapSpec spec{.type = Type::u32,
                           .rank = 2,
                           .address = tensor.address,
                           .size = {width, 8},
                           .stride = {0, 128},
                           .box = {box, 4},
                           .swizzle = swizzle};
  try {
    interpret(k.finish(), {}, CopiedMap{interpreter_map(spec)}, memory);
  } catch (const Report& r) {
    return r.kind;
  }
  return {};
}

constexpr bool loads = false, stores = true;

TEST(TensorCopy, BoxesBeginAtMultiplesOf16Bytes) {
  for (bool how : {loads, stores}) {
    EXPECT_EQ(copy(how, 4, 0), std::nullopt);
    for (int32_t x : {1, 2, 3, 5}) EXPECT_EQ(copy(how, x, 0), Kind::misaligned) << x;
  }
  EXPECT_EQ(copy(loads, -1, 0), Kind::misaligned);
}

TEST(TensorCopy, OnlyLoadsMayBeginBelowZero) {
  for (auto [x, y] : {std::pair{-4, 0}, {0, -1}, {-8, 0}, {0, -4}, {-4, -2}}) {
    EXPECT_EQ(copy(loads, x, y), std::nullopt) << x << ", " << y;
    EXPECT_EQ(copy(stores, x, y), Kind::bad_operand) << x << ", " << y;
  }
}

TEST(TensorCopy, BothMayPassTheUpperEnds) {
  for (bool how : {loads, stores})
    for (auto [x, y] : {std::pair{28, 0}, {0, 6}, {32, 0}, {0, 8}, {40, 20}})
      EXPECT_EQ(copy(how, x, y), std::nullopt) << x << ", " << y;
}

TEST(TensorCopy, StoresDoNotCrossRowsThatEndInside16Bytes) {
  for (uint32_t width : {29u, 30u, 31u}) {
    EXPECT_EQ(copy(stores, 16, 0, width), std::nullopt);
    EXPECT_EQ(copy(stores, 24, 0, width), Kind::bad_operand);
    EXPECT_EQ(copy(stores, 28, 0, width), Kind::bad_operand);
    EXPECT_EQ(copy(stores, 32, 0, width), std::nullopt);  // wholly outside
    EXPECT_EQ(copy(loads, 24, 0, width), std::nullopt);
  }
}

TEST(TensorCopy, SwizzledRowsFillTheSpan) {
  for (bool how : {loads, stores}) {
    EXPECT_EQ(copy(how, 0, 0, 32, 8, Swizzle::b32), std::nullopt);
    EXPECT_EQ(copy(how, 0, 0, 32, 16, Swizzle::b64), std::nullopt);
    EXPECT_EQ(copy(how, 0, 0, 32, 32, Swizzle::b128), std::nullopt);
    EXPECT_EQ(copy(how, 0, 0, 32, 4, Swizzle::b32), Kind::bad_operand);
    EXPECT_EQ(copy(how, 0, 0, 32, 8, Swizzle::b64), Kind::bad_operand);
    EXPECT_EQ(copy(how, 0, 0, 32, 16, Swizzle::b128), Kind::bad_operand);
    EXPECT_EQ(copy(how, 0, 0, 32, 16, Swizzle::b32), Kind::bad_operand);  // longer
  }
}

}  // namespace
}  // namespace heddle::ptx
