// The processors that this process may use, and how far they are from memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

// Numbers of processors in a list such as "0-3,8,10-11", as Linux writes it; what cannot be read is left out.
std::vector<uint32_t> processors_in(const std::string& list);

// Whole processors in time that the control groups of this process leave it, rounded up: a container with a limit of
// 2.5 gets 3. 0: no limit. `root` has the folders of the system, proc and sys, for tests.
uint32_t processors_by_groups(const std::string& root = "");

// The processors of each NUMA node that has some; one node where the system says nothing of nodes.
std::vector<std::vector<uint32_t>> processors_of_nodes(const std::string& root = "");

}  // namespace heddle
