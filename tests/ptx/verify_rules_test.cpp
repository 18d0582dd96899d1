// Verify over random kernels: what the builder makes passes, what is broken is refused, nothing crashes, nothing is
// slow.
#include <ctime>
#include <random>

#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

// A random kernel: pools of values of several types, every instruction applied to random members of its pools, loops
// and branches that are the block's, barriers and shuffles anywhere in them.
struct Random {
  explicit Random(uint32_t seed) : rng(seed), k("random", 128), x(k.arg(&Pointers::x)) {
    u = {k.lane(), k.block_id(), k.arg(&Pointers::rows), k.constant(7u)};
    f = {load(x), k.constant(1.5f)};
    p = {k.lane() < 3u};
    h = {k.constant(f16x2{0x3c003c00})};
    w = {widen(u[0])};
  }
  uint32_t upto(size_t n) { return uint32_t(rng() % n); }
  template <class T>
  T any(const std::vector<T>& pool) {
    return pool[upto(pool.size())];
  }
  void step(int depth) {
    switch (upto(24)) {
      case 0:
        u.push_back(any(u) + any(u));
        break;
      case 1:
        u.push_back(any(u) * 3u);
        break;
      case 2:
        u.push_back(any(u) / any(u));
        break;
      case 3:
        u.push_back((any(u) << any(u)) ^ any(u));
        break;
      case 4:
        u.push_back(bit_field(any(u), upto(32), upto(33)));
        break;
      case 5:
        u.push_back(select(any(p), any(u), any(u)));
        break;
      case 6:
        u.push_back(permute_bytes(any(u), any(u), 0x3210u));
        break;
      case 7:
        u.push_back(bitcast<uint32_t>(dp4a(any(u), any(u), 0)));
        break;
      case 8:
        f.push_back(fma(any(f), any(f), any(f)));
        break;
      case 9:
        f.push_back(any(f) / any(f));
        break;
      case 10:
        f.push_back(ex2_approx(any(f)) + sqrt(any(f)));
        break;
      case 11:
        f.push_back(to_f32(any(u)));
        break;
      case 12:
        h.push_back(to_f16x2(any(f), any(f)));
        break;
      case 13:
        h.push_back(fma(any(h), any(h), any(h)));
        break;
      case 14:
        u.push_back(bitcast<uint32_t>(any(h)));
        break;
      case 15:
        p.push_back(any(f) < any(f));
        break;
      case 16:
        p.push_back((any(u) <= any(u)) | any(p));
        break;
      case 17:
        w.push_back(mad_wide(any(u), 5u, any(w)));
        break;
      case 18:
        f.push_back(shuffle_xor(any(f), 1u << upto(5)));
        break;
      case 19:
        u.push_back(ballot(any(p)));
        break;
      case 20:
        f.push_back(load(x + any(u), {.l1 = L1::no_allocate}));
        break;
      case 21:
        k.barrier();
        break;
      case 22:
        region(depth);
        break;
      default: {
        auto s = k.shared<float>(64);
        k.when(any(p), [&] { store(s + (k.lane() & 63u), any(f)); });
      }
    }
  }
  // What a region makes is forgotten after it.
  void region(int depth) {
    if (depth == 3) return;
    auto inner = [&] {
      const auto u0 = u;
      const auto f0 = f;
      const auto p0 = p;
      const auto h0 = h;
      const auto w0 = w;
      for (uint32_t n = upto(20); n; --n) step(depth + 1);
      u = u0;
      f = f0;
      p = p0;
      h = h0;
      w = w0;
    };
    auto sum = k.var(any(f));
    switch (upto(3)) {
      case 0:
        k.when(k.block_id() < any_uniform(), inner);
        break;
      case 1:
        k.when_else(k.block_id() < any_uniform(), inner, inner);
        break;
      default:
        k.loop(0u, any_uniform(), 1u, [&](U32) {
          inner();
          sum += any(f);
        });
    }
    f.push_back(sum.get());
  }
  U32 any_uniform() { return upto(2) ? k.arg(&Pointers::cols) : k.block_id() + upto(9); }

  std::mt19937 rng;
  Builder<Pointers> k;
  Global<float> x;
  std::vector<U32> u;
  std::vector<F32> f;
  std::vector<Pred> p;
  std::vector<F16x2> h;
  std::vector<U64> w;
};

TEST(VerifyProperty, RandomKernelsOfTheBuilderVerify) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random r(seed);
    for (int i = 0; i < 200; ++i) r.step(0);
    ASSERT_TRUE(accepted(r.k.finish(), &target("sm_80"))) << "seed " << seed;
  }
}

TEST(VerifyProperty, RandomKernelsWithABarrierForSomeLanesDoNot) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random r(seed);
    for (int i = 0; i < 100; ++i) r.step(0);
    const uint32_t line = __LINE__ + 1;
    r.k.when(r.any(r.p) | (r.k.lane() == 0u), [&] { r.k.barrier(); });
    for (int i = 0; i < 100; ++i) r.step(0);
    ASSERT_TRUE(refused(r.k.finish(), {at(line), "bar.sync"})) << "seed " << seed;
  }
}

TEST(VerifyProperty, LargeKernelsTakeMilliseconds) {
  Random r(1);
  while (r.k.kernel.regs.size() < 20000) r.step(0);
  const Kernel k = r.k.finish();
  const std::clock_t start = std::clock();  // CPU time, because other processes may be busy
  EXPECT_TRUE(accepted(k, &target("sm_80")));
  const double took = double(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds", std::to_string(took * 1000));
  EXPECT_LT(took, 1.0);  // a hundred times what it takes: room for a sanitizer
}

// Every instruction of a block and of the regions in it.
void collect(Block& b, std::vector<Inst*>& all) {
  for (Inst& i : b) {
    all.push_back(&i);
    for (Block* inner : {&i.head, &i.body, &i.otherwise}) collect(*inner, all);
  }
}

// A kernel as a program with a bug might leave it: verify takes it or throws an Error, whatever is in the fields.
TEST(VerifyProperty, BrokenKernelsAreJudgedNotCrashed) {
  size_t taken = 0, not_taken = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Random r(seed % 20);
    for (int i = 0; i < 40; ++i) r.step(0);
    Kernel k = r.k.finish();
    std::mt19937 rng(seed);
    auto upto = [&](size_t n) { return uint32_t(rng() % n); };
    std::vector<Inst*> all;
    collect(k.body, all);
    Inst& i = *all[upto(all.size())];
    auto operands = [&]() -> std::vector<Operand>& { return upto(2) ? i.src : i.dst; };
    switch (upto(9)) {
      case 0:
        i.op = Op(upto(size_t(Op::trap) + 1));
        break;
      case 1:
        i.type = Type(upto(size_t(Type::e5m2) + 1));
        break;
      case 2:
        i.from = Type(upto(size_t(Type::e5m2) + 1));
        break;
      case 3:
        operands().clear();
        break;
      case 4:
        operands().push_back(
            {.kind = Operand::Kind(upto(4)), .type = Type(upto(16)), .reg = upto(1000), .bits = rng()});
        break;
      case 5:
        i.vec = uint8_t(upto(256));
        i.offset = int64_t(rng()) << upto(32);
        break;
      case 6:
        i.space = Space(upto(5));
        i.order = Order(upto(7));
        i.scope = Scope(upto(5));
        break;
      case 7:
        for (Operand& o : operands()) o.reg = upto(k.regs.size() + 10);
        break;
      case 8:
        k.regs.resize(upto(k.regs.size()));
        break;
    }
    try {
      verify(k, target("sm_90a"));
      ++taken;
    } catch (const Error&) {
      ++not_taken;
    }
  }
  EXPECT_GT(taken, 50u);  // a field that the instruction does not read
  EXPECT_GT(not_taken, 1000u);
}

}  // namespace
}  // namespace heddle::ptx
