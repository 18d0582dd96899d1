// Limits of control groups and nodes, in made-up folders of a system.
#include "base/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/parallel.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// A folder with proc and sys, which goes away with it.
class System {
 public:
  System()
      : root_(fs::temp_directory_path() /
              ("processors_test_" + std::to_string(uint64_t(reinterpret_cast<uintptr_t>(this))) + "_" +
               std::to_string(
                   std::hash<std::string>()(::testing::UnitTest::GetInstance()->current_test_info()->name())))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~System() { fs::remove_all(root_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  System& with(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  std::string root() const { return root_.string(); }

 private:
  fs::path root_;
};

TEST(Processors, ListsAreRead) {
  using List = std::vector<uint32_t>;
  EXPECT_EQ(processors_in("0-3,8,10-11"), (List{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(processors_in("5\n"), (List{5}));
  EXPECT_EQ(processors_in(""), List{});
  EXPECT_EQ(processors_in("x,2-x,7,3-1,0-99999999999,1-4000000000"), (List{7}));
}

TEST(Processors, GroupsOfVersionTwo) {
  System system;
  EXPECT_EQ(processors_by_groups(system.root()), 0u);  // nothing is known
  system.with("proc/self/cgroup", "0::/user/app\n").with("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
  EXPECT_EQ(processors_by_groups(system.root()), 0u);
  system.with("sys/fs/cgroup/user/app/cpu.max", "400000 100000\n");
  EXPECT_EQ(processors_by_groups(system.root()), 4u);
  system.with("sys/fs/cgroup/user/cpu.max", "250000 100000\n");  // of the group around it
  EXPECT_EQ(processors_by_groups(system.root()), 3u);
  system.with("sys/fs/cgroup/cpu.max", "5000 100000\n");
  EXPECT_EQ(processors_by_groups(system.root()), 1u);
  for (const char* wrong : {"", "x y", "-5 100000", "100000", "100000 0", "nan 1"}) {
    for (const char* group : {"user/app/cpu.max", "user/cpu.max", "cpu.max"})
      system.with(std::string("sys/fs/cgroup/") + group, wrong);
    EXPECT_EQ(processors_by_groups(system.root()), 0u) << wrong;
  }
}

TEST(Processors, GroupsOfVersionOne) {
  System system;
  system.with("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/docker/1\n0::/\n")
      .with("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n")
      .with("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n")
      .with("sys/fs/cgroup/memory/a/cpu.max", "1 1\n");  // none of ours
  EXPECT_EQ(processors_by_groups(system.root()), 0u);
  // a container sees its group as the outermost one
  system.with("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
      .with("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(processors_by_groups(system.root()), 3u);
  system.with("proc/self/cgroup", "nonsense\n:\n::\n1:cpuset:/\n");
  EXPECT_EQ(processors_by_groups(system.root()), 0u);
}

TEST(Processors, Nodes) {
  using Nodes = std::vector<std::vector<uint32_t>>;
  System system;
  system.with("sys/devices/system/cpu/online", "0-1\n");
  EXPECT_EQ(processors_of_nodes(system.root()), (Nodes{{0, 1}}));
  system.with("sys/devices/system/node/online", "0,2-3\n")
      .with("sys/devices/system/node/node0/cpulist", "0-1,4\n")
      .with("sys/devices/system/node/node2/cpulist", "\n")  // memory alone
      .with("sys/devices/system/node/node3/cpulist", "2-3\n");
  EXPECT_EQ(processors_of_nodes(system.root()), (Nodes{{0, 1, 4}, {2, 3}}));
}

TEST(Processors, ThisMachineHasSome) {
  EXPECT_GE(hardware_threads(), 1u);
  size_t all = 0;
  for (const auto& node : processors_of_nodes()) all += node.size();
  EXPECT_GE(all, 1u);
}

}  // namespace
}  // namespace heddle
