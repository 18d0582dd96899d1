// What a case compares must be able to fail, every kernel must have cases, and all of them pass in the interpreter.
#include "proof/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "kernels/spec/catalog.h"
#include "ptx/builder.h"
#include "ptx/target.h"
#include "tests/support/sanitized.h"

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
  constexpr float bound = 4 * 0x1p-10f, step = 0x1p-20f;
  EXPECT_EQ(near({1, 2, 3}), "");
  EXPECT_EQ(near({1, 2 + bound, 3 - bound}), "");
  EXPECT_EQ(near({1, 2, 3 + bound + step}).find("y[2] is 3.003907"), 0u) << near({1, 2, 3 + bound + step});
  EXPECT_EQ(near({1 - bound - step, 2, 3}).find("y[0] is 0.99609"), 0u) << near({1 - bound - step, 2, 3});
}

TEST(CheckNear, FailsOnNanAndInfinity) {
  for (float bad : {nan, -nan, infinity, -infinity}) {
    EXPECT_EQ(near({1, bad, 3}).find("y[1] is "), 0u) << bad;
    Check check;
    check.near("y", std::vector{bad}, std::vector{1e300}, std::vector{1e300}, 1e-5);
    EXPECT_NE(check.failure(), "") << bad;
  }
  Check check;  // a reference of NaN proves nothing either
  check.near("y", std::vector{1.0f}, std::vector{double(nan)}, std::vector{1.0}, 1);
  EXPECT_NE(check.failure(), "");
}

TEST(CheckNear, FailsOnADifferentNumberOfValues) {
  EXPECT_EQ(near({1, 2}), "y: 2 values, 3 expected, 3 scales");
  EXPECT_EQ(near({1, 2, 3, 4}), "y: 4 values, 3 expected, 3 scales");
  EXPECT_EQ(near({}), "y: 0 values, 3 expected, 3 scales");
  Check check;
  check.near("y", std::vector{1.0f}, std::vector{1.0}, {}, 1);
  EXPECT_EQ(check.failure(), "y: 1 values, 1 expected, 0 scales");
}

TEST(CheckNear, AScaleOfZeroAsksForEquality) {
  Check check;
  check.near("y", std::vector{0.0f, 5.0f}, std::vector{0.0, 5.0}, std::vector{0.0, 0.0}, 1);
  EXPECT_EQ(check.failure(), "");
  EXPECT_EQ(check.worst(), 0);
  check.near("y", std::vector{0x1p-149f}, std::vector{0.0}, std::vector{0.0}, 1);
  EXPECT_NE(check.failure(), "");
}

TEST(CheckNear, ReportsTheWorstErrorAndTheNumberCompared) {
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

struct Large {
  static constexpr std::string_view name = "large";
  struct Args {
    ptx::DevicePtr<float> y;
  };
  static auto fields() { return std::tuple<>(); }
  auto operator<=>(const Large&) const = default;
  ptx::Kernel build() const {
    ptx::Builder<Args> k("large", 32);
    auto room = k.shared<float>(20'000);
    store(room + k.thread(), 1.0f);
    k.barrier();
    store(k.arg(&Args::y) + k.thread(), load(room + (k.thread() ^ 1u)));
    return k.finish();
  }
  ptx::Grid grid(const Args&) const { return {}; }
};
TEST(RunCase, AKernelThatIsTooLargeIsNoFailure) {
  const Case c{"large", "", "sm_75", [](Machine& m, Random&, Check& check) {
                 const Large::Args args{m.poisoned<float>(32)};
                 m.launch(Large{}, args);
                 check.equal("y", m.get(args.y, 32), std::vector<float>(32, 1));
               }};
  for (const char* target : {"sm_75", "sm_86"}) {
    const Check check = run_case(c, *interpreter(0, target), 1);
    EXPECT_EQ(check.failure(), "");
    EXPECT_EQ(check.fits(), std::string(target) == "sm_86");
  }
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

// Writes one value past the end.
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

// A machine that only records the calls it gets.
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
  void run(const kernels::AnySpec&, ptx::Grid, const void*, size_t) override {}
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

TEST(AllCases, CoverEveryKernel) {
  for (Sweep sweep : {Sweep::quick, Sweep::normal, Sweep::full}) {
    std::set<std::string> covered;
    for (const Case& c : all_cases(sweep)) covered.insert(c.kernel);
    for (auto& entry : kernels::catalog()) EXPECT_TRUE(covered.count(entry.name)) << entry.name;
  }
}

// Every kernel over its sweep of shapes, interpreted and compared by value with the f64 reference.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = all_cases(test::sanitized ? Sweep::quick : Sweep::normal);
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

// Kernels in the instructions of the oldest GPUs compute the same, in their shared memory.
TEST(AllCases, OfTheOldestGpusAreWhatTheReferenceSaysThere) {
  const auto machine = interpreter(0, "sm_75");
  for (const Case& c : all_cases(Sweep::quick)) {
    if (!machine->runs(c.lowest_target)) continue;
    const Check check = run_case(c, *machine, 1);
    EXPECT_TRUE(check.failure().empty() && check.fits()) << c.kernel << ": " << c.shape << ": " << check.failure();
  }
}

}  // namespace

// Where the files of a kernel are: everything of a kernel in src/kernels/FOLDER/FILE.cpp is found by that path. Its
// catalogue entry stands in the file itself, its cases in src/proof/FOLDER/FILE_cases.cpp, its tests in
// tests/kernels/FOLDER/FILE_test.cpp.

namespace {

namespace fs = std::filesystem;

struct Places {
  std::string entry;            // the file of the catalogue entry
  std::set<std::string> cases;  // the files of the cases
};

// The folders of `root / at`, and in each the names of the files that end in `suffix`, without it.
std::map<std::string, std::set<std::string>> names_in(const fs::path& root, const std::string& at,
                                                      std::string_view suffix) {
  std::map<std::string, std::set<std::string>> names;
  for (const auto& folder : fs::directory_iterator(root / at)) {
    if (!folder.is_directory()) continue;
    auto& here = names[folder.path().filename().string()];
    for (const auto& file : fs::directory_iterator(folder)) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(suffix)) here.insert(name.substr(0, name.size() - suffix.size()));
    }
  }
  return names;
}

// The files that are not where they belong, one line each.
std::vector<std::string> misplaced(const fs::path& root, const std::map<std::string, Places>& kernels) {
  std::vector<std::string> wrong;
  const auto sources = names_in(root, "src/kernels", ".cpp"), headers = names_in(root, "src/kernels", ".h"),
             cases = names_in(root, "src/proof", "_cases.cpp"), tests = names_in(root, "tests/kernels", "_test.cpp");
  for (const auto& [kernel, places] : kernels) {
    const fs::path entry(places.entry);
    const std::string folder = entry.parent_path().filename().string(), file = entry.stem().string();
    if (entry != fs::path("src/kernels") / folder / (file + ".cpp")) {
      wrong.push_back(
          fmt::format("{}: its catalogue entry is in {}, not in src/kernels/FOLDER/FILE.cpp", kernel, places.entry));
      continue;
    }
    for (const auto& expected : {entry, fs::path(entry).replace_extension(".h")})
      if (!fs::exists(root / expected)) wrong.push_back(fmt::format("{}: no {}", kernel, expected.string()));
    const std::string expected = fmt::format("src/proof/{}/{}_cases.cpp", folder, file);
    if (places.cases != std::set{expected})
      wrong.push_back(fmt::format("{}: cases in {{{}}}, not in {}", kernel, fmt::join(places.cases, ", "), expected));
  }
  for (const auto& [folder, files] : sources)
    if (!tests.count(folder)) wrong.push_back(fmt::format("tests/kernels/{} is missing", folder));
  for (const auto& [folder, files] : cases)
    for (const std::string& file : files)
      if (!sources.count(folder) || !sources.at(folder).count(file))
        wrong.push_back(fmt::format("src/proof/{0}/{1}_cases.cpp has no src/kernels/{0}/{1}.cpp", folder, file));
  for (const auto& [folder, files] : tests)
    for (const std::string& file : files)
      if (!headers.count(folder) || !headers.at(folder).count(file))
        wrong.push_back(fmt::format("tests/kernels/{0}/{1}_test.cpp has no src/kernels/{0}/{1}.h", folder, file));
  return wrong;
}

// From the root of the tree: a compiler cache may have made the path relative to the build.
std::string in_tree(const std::string& file) { return file.substr(file.find("src/")); }

TEST(Places, EveryKernelIsFoundByItsPath) {
  std::map<std::string, Places> kernels;
  for (const auto& entry : kernels::catalog()) kernels[entry.name].entry = in_tree(entry.file);
  for (const Case& c : all_cases(Sweep::full)) kernels[c.kernel].cases.insert(in_tree(c.file));
  EXPECT_EQ(misplaced(HEDDLE_SOURCE_DIR, kernels), std::vector<std::string>{});
}

// The check itself: a small tree in which everything is right, and the messages when one thing is not.
class CheckOfPlaces : public testing::Test {
 protected:
  CheckOfPlaces() {
    for (const char* file : {"src/kernels/layer/norm.h", "src/kernels/layer/norm.cpp", "src/proof/layer/norm_cases.cpp",
                             "tests/kernels/layer/norm_test.cpp"})
      touch(file);
  }
  ~CheckOfPlaces() override { fs::remove_all(root); }
  void touch(const std::string& file) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "\n";
  }
  using Lines = std::vector<std::string>;

  const fs::path root =
      fs::temp_directory_path() / fmt::format("heddle_places_{}_{}", testing::UnitTest::GetInstance()->random_seed(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
  std::map<std::string, Places> kernels{
      {"rms_norm", {"src/kernels/layer/norm.cpp", {"src/proof/layer/norm_cases.cpp"}}}};
};

TEST_F(CheckOfPlaces, ReportsNothingWhenEverythingIsInPlace) { EXPECT_EQ(misplaced(root, kernels), Lines{}); }

TEST_F(CheckOfPlaces, NamesAnEntryOutsideOfTheKernelsFile) {
  kernels["rms_norm"].entry = "src/kernels/catalog.cpp";
  EXPECT_EQ(misplaced(root, kernels),
            Lines{"rms_norm: its catalogue entry is in src/kernels/catalog.cpp, not in src/kernels/FOLDER/FILE.cpp"});
  kernels["rms_norm"].entry = "src/kernels/layer/other.cpp";
  EXPECT_EQ(misplaced(root, kernels),
            (Lines{"rms_norm: no src/kernels/layer/other.cpp", "rms_norm: no src/kernels/layer/other.h",
                   "rms_norm: cases in {src/proof/layer/norm_cases.cpp}, not in src/proof/layer/other_cases.cpp"}));
}

TEST_F(CheckOfPlaces, NamesCasesElsewhere) {
  kernels["rms_norm"].cases.insert("src/proof/layer/other_cases.cpp");
  EXPECT_EQ(misplaced(root, kernels),
            Lines{"rms_norm: cases in {src/proof/layer/norm_cases.cpp, src/proof/layer/other_cases.cpp}, not in "
                  "src/proof/layer/norm_cases.cpp"});
  kernels["rms_norm"].cases.clear();
  EXPECT_EQ(misplaced(root, kernels), Lines{"rms_norm: cases in {}, not in src/proof/layer/norm_cases.cpp"});
}

TEST_F(CheckOfPlaces, NamesFoldersAndFilesThatMirrorNothing) {
  touch("src/kernels/state/scan.cpp");
  EXPECT_EQ(misplaced(root, kernels), Lines{"tests/kernels/state is missing"});
  touch("tests/kernels/state/step_test.cpp");
  EXPECT_EQ(misplaced(root, kernels), Lines{"tests/kernels/state/step_test.cpp has no src/kernels/state/step.h"});
  touch("src/kernels/state/step.h");
  touch("src/proof/state/step_cases.cpp");
  EXPECT_EQ(misplaced(root, kernels), Lines{"src/proof/state/step_cases.cpp has no src/kernels/state/step.cpp"});
}

}  // namespace

}  // namespace heddle::proof
