// Limits of control groups and nodes, in made-up folders of a system.
#include "base/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

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
  using Nodes = std::vector<Node>;
  System system;
  EXPECT_EQ(nodes_with({0, 1}, system.root()), (Nodes{{0, {0, 1}}}));  // nothing is known
  system.with("sys/devices/system/node/online", "0,2-3\n")
      .with("sys/devices/system/node/node0/cpulist", "0-1,4\n")
      .with("sys/devices/system/node/node2/cpulist", "\n")  // memory alone
      .with("sys/devices/system/node/node3/cpulist", "2-3\n");
  EXPECT_EQ(nodes_with({0, 1, 2, 3, 4}, system.root()), (Nodes{{0, {0, 1, 4}}, {3, {2, 3}}}));
  EXPECT_EQ(nodes_with({1, 3}, system.root()), (Nodes{{0, {1}}, {3, {3}}}));
  EXPECT_EQ(nodes_with({2, 3}, system.root()), (Nodes{{3, {2, 3}}}));
  EXPECT_EQ(nodes_with({9}, system.root()), (Nodes{{0, {9}}}));
}

TEST(Processors, ThreadsGoToNodesInProportion) {
  EXPECT_EQ(node_of_thread({{0, {0, 1, 2}}}, 1, 3), 0u);
  EXPECT_EQ(node_of_thread({{0, {}}}, 1, 3), 0u);  // allowed processors unknown
  const std::vector<Node> nodes = {{0, {0, 1, 4, 5}}, {3, {2, 3}}};
  const auto nodes_of = [&](uint32_t threads) {
    std::string all;
    for (uint32_t i = 0; i < threads; ++i) all += "ab"[node_of_thread(nodes, i, threads)];
    return all;
  };
  EXPECT_EQ(nodes_of(1), "a");
  EXPECT_EQ(nodes_of(3), "aab");
  EXPECT_EQ(nodes_of(6), "aaaabb");
  EXPECT_EQ(nodes_of(12), "aaaaaaaabbbb");
}

TEST(Processors, SpeedsAreComparedWhereTheyAreKnown) {
  System system;
  const std::string folder = "sys/devices/system/cpu/cpu";
  EXPECT_FALSE(differ_in_speed({0, 1}, system.root()));  // nothing is known
  EXPECT_FALSE(differ_in_speed({}, system.root()));
  system.with(folder + "0/cpufreq/cpuinfo_max_freq", "5700000\n")
      .with(folder + "1/cpufreq/cpuinfo_max_freq", "5500000\n");
  EXPECT_FALSE(differ_in_speed({0, 1}, system.root()));  // as the best of equal cores
  system.with(folder + "2/cpufreq/cpuinfo_max_freq", "4300000\n");
  EXPECT_FALSE(differ_in_speed({0, 1}, system.root()));
  EXPECT_TRUE(differ_in_speed({0, 1, 2}, system.root()));
  EXPECT_TRUE(differ_in_speed({2, 0}, system.root()));
  EXPECT_FALSE(differ_in_speed({0, 2, 7}, system.root()));  // of one of them nothing is known
  // capacities count more than frequencies
  for (const char* one : {"0", "1", "2"}) system.with(folder + one + "/cpu_capacity", "1024\n");
  EXPECT_FALSE(differ_in_speed({0, 1, 2}, system.root()));
  system.with(folder + "1/cpu_capacity", "446\n");
  EXPECT_TRUE(differ_in_speed({0, 1, 2}, system.root()));
  EXPECT_FALSE(differ_in_speed({0, 2}, system.root()));
  system.with(folder + "1/cpu_capacity", "x\n");  // then frequencies do
  EXPECT_FALSE(differ_in_speed({0, 1}, system.root()));
  EXPECT_TRUE(differ_in_speed({1, 2}, system.root()));
}

TEST(Processors, AThreadRunsWhereItIsTold) {
  const std::vector<uint32_t> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  EXPECT_GE(hardware_threads(), 1u);
  EXPECT_LE(hardware_threads(), allowed.size());
  std::thread([&] {
    EXPECT_TRUE(run_on({allowed.back()}));
    EXPECT_EQ(allowed_processors(), std::vector<uint32_t>{allowed.back()});
    EXPECT_EQ(hardware_threads(), 1u);  // as in a container with one processor of many
    EXPECT_FALSE(run_on({}));
    EXPECT_EQ(allowed_processors(), std::vector<uint32_t>{allowed.back()});
  }).join();
  EXPECT_EQ(allowed_processors(), allowed);
}

TEST(Processors, AThreadRunsElsewhereForAWhile) {
  const std::vector<uint32_t> allowed = allowed_processors();
  {
    const RunsOn one({allowed.back()});
    EXPECT_EQ(allowed_processors(), std::vector<uint32_t>{allowed.back()});
  }
  EXPECT_EQ(allowed_processors(), allowed);
  {
    const RunsOn anywhere({});
    EXPECT_EQ(allowed_processors(), allowed);
  }
  {
    const RunsOn refused({60000});  // there is no such processor
    EXPECT_EQ(allowed_processors(), allowed);
  }
  EXPECT_EQ(allowed_processors(), allowed);
}

}  // namespace
}  // namespace heddle
