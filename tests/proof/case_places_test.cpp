// Where the files of a kernel are: everything of a kernel in src/kernels/FOLDER/FILE.cpp is found by that path. Its
// catalogue entry stands in the file itself, its cases in src/proof/FOLDER/FILE_cases.cpp, its tests in
// tests/kernels/FOLDER/FILE_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "kernels/spec/catalog.h"
#include "proof/case.h"

namespace heddle::proof {
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

// What does not stand where it belongs, one line each.
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

// The check itself: a small tree in which everything is right, and what is said when one thing is not.
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

TEST_F(CheckOfPlaces, SaysNothingWhereAllIsRight) { EXPECT_EQ(misplaced(root, kernels), Lines{}); }

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
