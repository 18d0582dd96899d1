// A fake /sys that divides this machine's processors between two NUMA nodes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/processors.h"
#include "tests/support/folder.h"

namespace heddle::test {

// Node 0 has the first of the processors that this process may use, node 1 the others; with one processor there is one
// node.
class TwoNodes {
 public:
  TwoNodes() {
    const std::vector<uint32_t> all = allowed_processors();
    std::filesystem::create_directories(folder_.file("sys/devices/system/node/node0"));
    std::filesystem::create_directories(folder_.file("sys/devices/system/node/node1"));
    folder_.write("sys/devices/system/node/online", "0-1\n");
    folder_.write("sys/devices/system/node/node0/cpulist", std::to_string(all.at(0)) + "\n");
    std::string others;
    for (size_t i = 1; i < all.size(); ++i) others += (i > 1 ? "," : "") + std::to_string(all[i]);
    folder_.write("sys/devices/system/node/node1/cpulist", others + "\n");
    nodes = nodes_with(all, root());
  }
  std::string root() const { return folder_.path().string(); }

  std::vector<Node> nodes;

 private:
  Folder folder_;
};

}  // namespace heddle::test
