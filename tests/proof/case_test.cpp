// What a case compares must be able to fail, every kernel must have cases, and all of them pass in the interpreter.
#include "proof/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "kernels/spec/catalog.h"
#include "ptx/builder.h"
#include "ptx/target.h"

namespace heddle::proof {

static void PrintTo(const Case& c, std::ostream* out) { *out << c.kernel << ": " << c.shape; }

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

// What near() says about values that should be 1, 2, ... each within 2^-10 of its scale 4.
std::string near(const std::vector<float>& got, size_t expected = 3) {
  std::vector<double> want(expected), scale(expected, 4);
  for (size_t i = 0; i < expected; ++i) want[i] = double(i + 1);
  Check check;
  check.near("y", got, want, scale, 0x1p-10);
  EXPECT_TRUE(check.checked());
  return check.failure();
}

TEST(CheckNear, PassesUpToTheBoundAndNotBeyond) {
  constexpr float most = 4 * 0x1p-10f, step = 0x1p-20f;
  EXPECT_EQ(near({1, 2, 3}), "");
  EXPECT_EQ(near({1, 2 + most, 3 - most}), "");
  EXPECT_EQ(near({1, 2, 3 + most + step}).find("y[2] is 3.003907"), 0u) << near({1, 2, 3 + most + step});
  EXPECT_EQ(near({1 - most - step, 2, 3}).find("y[0] is 0.99609"), 0u) << near({1 - most - step, 2, 3});
}

TEST(CheckNear, FailsOnWhatIsNoNumber) {
  for (float bad : {nan, -nan, infinity, -infinity}) {
    EXPECT_EQ(near({1, bad, 3}).find("y[1] is "), 0u) << bad;
    Check check;
    check.near("y", std::vector{bad}, std::vector{1e300}, std::vector{1e300}, 1e-5);
    EXPECT_NE(check.failure(), "") << bad;
  }
  Check check;  // a reference that is no number proves nothing either
  check.near("y", std::vector{1.0f}, std::vector{double(nan)}, std::vector{1.0}, 1);
  EXPECT_NE(check.failure(), "");
}

TEST(CheckNear, FailsOnAnotherNumberOfValues) {
  EXPECT_EQ(near({1, 2}), "y: 2 values, 3 expected, 3 scales");
  EXPECT_EQ(near({1, 2, 3, 4}), "y: 4 values, 3 expected, 3 scales");
  EXPECT_EQ(near({}), "y: 0 values, 3 expected, 3 scales");
  Check check;
  check.near("y", std::vector{1.0f}, std::vector{1.0}, {}, 1);
  EXPECT_EQ(check.failure(), "y: 1 values, 1 expected, 0 scales");
}

TEST(CheckNear, OfNoSizeIsExact) {
  Check check;
  check.near("y", std::vector{0.0f, 5.0f}, std::vector{0.0, 5.0}, std::vector{0.0, 0.0}, 1);
  EXPECT_EQ(check.failure(), "");
  EXPECT_EQ(check.worst(), 0);
  check.near("y", std::vector{0x1p-149f}, std::vector{0.0}, std::vector{0.0}, 1);
  EXPECT_NE(check.failure(), "");
}

TEST(CheckNear, TellsTheWorstErrorAndHowManyWereCompared) {
  Check check;
  check.near("y", std::vector{1.0f, 2.5f, 3.25f}, std::vector{1.0, 2.0, 3.0}, std::vector{1.0, 1.0, 1.0}, 1);
  EXPECT_EQ(check.worst(), 0.5);
  EXPECT_EQ(check.compared(), 3u);
  check.near_relative("z", std::vector{-8.0f}, std::vector{-10.0}, 0.25);
  EXPECT_EQ(check.failure(), "");
  EXPECT_DOUBLE_EQ(check.worst(), 0.8);
  EXPECT_EQ(check.compared(), 4u);
  check.near_relative("z", std::vector{-7.0f}, std::vector{-10.0}, 0.25);
  EXPECT_EQ(check.failure(), "z[0] is -7, not -10: off by 3, allowed 2.5");
  check.near_relative("later", std::vector{1.0f}, std::vector{2.0}, 0.25);
  EXPECT_EQ(check.failure().find("z[0]"), 0u) << "the first difference is kept";
}

template <class T>
std::string equal(const std::vector<T>& got, const std::vector<T>& want) {
  Check check;
  check.equal("y", got, want);
  EXPECT_TRUE(check.checked());
  return check.failure();
}

TEST(CheckEqual, IsBitForBit) {
  EXPECT_EQ(equal<float>({1, -0.0f, nan, infinity}, {1, -0.0f, nan, infinity}), "");
  EXPECT_EQ(equal<float>({1, -0.0f}, {1, 0.0f}), "y[1] is -0, not 0");
  EXPECT_EQ(equal<float>({1}, {std::nextafter(1.0f, 2.0f)}), "y[0] is 1, not 1.0000001");
  const float payload = std::bit_cast<float>(std::bit_cast<uint32_t>(nan) | 1);
  EXPECT_NE(equal<float>({payload}, {nan}), "");
  EXPECT_EQ(equal<uint8_t>({3, 4}, {3, 5}), "y[1] is 4, not 5");
  EXPECT_EQ(equal<uint64_t>({7}, {7 + (uint64_t(1) << 40)}).find("y[0] is 7, not "), 0u);
  EXPECT_EQ(equal<uint32_t>({1, 2}, {1, 2, 3}), "y: 2 values, not 3");
  EXPECT_EQ(equal<uint32_t>({1, 2}, {}), "y: 2 values, not 0");
  EXPECT_EQ(equal<uint32_t>({}, {}), "");
}

// --- one case -------------------------------------------------------------------------------------------------------
Check run(std::function<void(Machine&, Random&, Check&)> body, const std::string& shape = "", uint64_t seed = 1) {
  auto machine = interpreter();
  return run_case({"kernel", shape, "sm_75", std::move(body)}, *machine, seed);
}

TEST(RunCase, ACaseThatComparesNothingHasFailed) {
  EXPECT_EQ(run([](Machine&, Random&, Check&) {}).failure(), "nothing was compared");
  EXPECT_EQ(run([](Machine&, Random&, Check& check) { check.that(true, "it holds"); }).failure(), "");
  EXPECT_EQ(run([](Machine&, Random&, Check& check) { check.that(false, "it holds not"); }).failure(), "it holds not");
}

TEST(RunCase, AnExceptionIsAFailure) {
  EXPECT_EQ(run([](Machine&, Random&, Check&) { throw Error("no {}", "luck"); }).failure(), "no luck");
  EXPECT_EQ(run([](Machine&, Random&, Check& check) {
              check.that(true, "it holds");
              throw std::logic_error("");
            }).failure(),
            "failed");
  EXPECT_EQ(run([](Machine&, Random&, Check& check) {
              check.that(false, "first");
              throw Error("second");
            }).failure(),
            "first");
}

// Writes the value behind the end.
struct Beyond {
  static constexpr std::string_view name = "beyond";
  struct Args {
    ptx::DevicePtr<float> y;
    uint32_t n;
  };
  static auto fields() { return std::tuple<>(); }
  auto operator<=>(const Beyond&) const = default;
  ptx::Kernel build() const {
    ptx::Builder<Args> k("beyond", 32);
    k.when(k.thread() == 0, [&] { store(k.arg(&Args::y) + k.arg(&Args::n), 1.0f); });
    return k.finish();
  }
  ptx::Grid grid(const Args&) const { return {}; }
};
TEST(RunCase, AMistakeOfAKernelIsAFailure) {
  const Check check = run([](Machine& m, Random&, Check& c) {
    m.launch(Beyond{}, {.y = m.poisoned<float>(8), .n = 8});
    c.that(true, "it holds");
  });
  EXPECT_NE(check.failure().find("the access is at byte 32"), std::string::npos) << check.failure();
}

TEST(RunCase, InputsFollowFromSeedAndNames) {
  auto first = [](const std::string& shape, uint64_t seed) {
    uint64_t bits = 0;
    run(
        [&](Machine&, Random& random, Check& check) {
          bits = random.bits();
          check.that(true, "");
        },
        shape, seed);
    return bits;
  };
  EXPECT_EQ(first("a", 1), first("a", 1));
  EXPECT_NE(first("a", 1), first("b", 1));
  EXPECT_NE(first("a", 1), first("a", 2));
}

// A machine that has nothing but a memory of what it was asked.
class Asked : public Machine {
 public:
  std::vector<std::string> calls;
  std::string broken;  // what check_guards finds

  bool runs(const std::string&) const override { return true; }
  uint32_t processors() const override { return 1; }
  void check_guards() override {
    calls.push_back("check_guards");
    if (!broken.empty()) throw Error("{}", broken);
  }
  void clear() override { calls.push_back("clear"); }

 protected:
  uint64_t allocate(size_t) override { return 0; }
  void write(uint64_t, const void*, size_t) override {}
  void read(void*, uint64_t, size_t) override {}
  void run(const kernels::AnySpec&, ptx::Grid, uint32_t, const void*, size_t) override {}
};

TEST(RunCase, BeginsOnAClearedMachineAndEndsWithItsGuards) {
  Asked machine;
  const Case c{"kernel", "", "sm_75", [](Machine& m, Random&, Check& check) {
                 dynamic_cast<Asked&>(m).calls.push_back("run");
                 check.that(true, "it holds");
               }};
  EXPECT_EQ(run_case(c, machine, 1).failure(), "");
  EXPECT_EQ(machine.calls, (std::vector<std::string>{"clear", "run", "check_guards"}));
  machine.broken = "a kernel wrote behind buffer 0";
  EXPECT_EQ(run_case(c, machine, 1).failure(), machine.broken);
}

TEST(RandomInputs, AreTheSameForASeed) {
  Random a(42), b(42), c(43);
  EXPECT_EQ(a.normals(100, 3), b.normals(100, 3));
  EXPECT_EQ(a.bytes(13), b.bytes(13));
  EXPECT_EQ(a.uniform(-1, 1), b.uniform(-1, 1));
  EXPECT_EQ(a.below(1000), b.below(1000));
  EXPECT_EQ(a.bits(), b.bits());
  EXPECT_NE(Random(42).normals(4), c.normals(4));
  // the numbers themselves, because they must be the same with every compiler and library
  EXPECT_EQ(Random(1).bits(), 2469588189546311528u);
  EXPECT_EQ(Random(1).bytes(3), (std::vector<uint8_t>{0x68, 0x6f, 0x68}));
}

TEST(RandomInputs, HaveTheSpreadTheyAreAskedFor) {
  Random random(5);
  double sum = 0, squares = 0;
  const std::vector<float> normals = random.normals(20000, 2);
  for (float x : normals) {
    sum += x;
    squares += double(x) * x;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.06);
  EXPECT_NEAR(squares / 20000, 4, 0.16);
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const float u = random.uniform(-3, 5);
    EXPECT_TRUE(u >= -3 && u <= 5) << u;
    seen.insert(random.below(7));
  }
  EXPECT_EQ(seen, (std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

// --- all cases ------------------------------------------------------------------------------------------------------
TEST(AllCases, NameAKernelOfTheCatalogAndAShapeOfTheirOwn) {
  std::set<std::string> names;
  for (auto& entry : kernels::catalog()) names.insert(entry.name);
  for (Sweep sweep : {Sweep::quick, Sweep::normal, Sweep::full}) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const Case& c : all_cases(sweep)) {
      EXPECT_TRUE(names.count(c.kernel)) << c.kernel;
      EXPECT_TRUE(seen.insert({c.kernel, c.shape}).second) << c.kernel << ": " << c.shape;
      EXPECT_NO_THROW(ptx::target(c.lowest_target)) << c.kernel << ": " << c.shape;
    }
  }
}

TEST(AllCases, EachSweepHoldsTheSmallerOne) {
  auto set = [](Sweep sweep) {
    std::set<std::pair<std::string, std::string>> all;
    for (const Case& c : all_cases(sweep)) all.insert({c.kernel, c.shape});
    return all;
  };
  const auto quick = set(Sweep::quick), normal = set(Sweep::normal), full = set(Sweep::full);
  EXPECT_TRUE(std::includes(normal.begin(), normal.end(), quick.begin(), quick.end()));
  EXPECT_TRUE(std::includes(full.begin(), full.end(), normal.begin(), normal.end()));
  EXPECT_LT(quick.size(), normal.size());
  EXPECT_LT(normal.size(), full.size());
}

TEST(AllCases, LeaveNoKernelOut) {
  for (Sweep sweep : {Sweep::quick, Sweep::normal, Sweep::full}) {
    std::set<std::string> covered;
    for (const Case& c : all_cases(sweep)) covered.insert(c.kernel);
    for (auto& entry : kernels::catalog()) EXPECT_TRUE(covered.count(entry.name)) << entry.name;
  }
}

// Every kernel over its sweep of shapes, interpreted and compared by value with the f64 reference.
const std::vector<Case>& cases() {
#ifdef HEDDLE_SANITIZED
  static const std::vector<Case> all = all_cases(Sweep::quick);
#else
  static const std::vector<Case> all = all_cases(Sweep::normal);
#endif
  return all;
}

class Cases : public testing::TestWithParam<Case> {};
TEST_P(Cases, AreWhatTheReferenceSays) {
  auto machine = interpreter();
  const Check check = run_case(GetParam(), *machine, 1);
  EXPECT_EQ(check.failure(), "");
}
INSTANTIATE_TEST_SUITE_P(All, Cases, testing::ValuesIn(cases()), [](const auto& one) {
  std::string name = one.param.kernel + "_" + one.param.shape;
  for (char& c : name)
    if (!std::isalnum(uint8_t(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace heddle::proof
