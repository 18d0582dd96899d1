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

// The processors of each NUMA node that has some of `allowed`; one node where the system says nothing of nodes.
std::vector<std::vector<uint32_t>> processors_of_nodes(const std::vector<uint32_t>& allowed,
                                                       const std::string& root = "");

// Those of a node where thread number `thread` of `threads` should run: neighbouring threads share a node, and each
// node gets threads in proportion to its processors. Empty where all are on one node: any will do.
std::vector<uint32_t> processors_of_thread(const std::vector<std::vector<uint32_t>>& nodes, uint32_t thread,
                                           uint32_t threads);

// The processors that the calling thread may run on. Empty: unknown.
std::vector<uint32_t> allowed_processors();
// The calling thread runs on these from now on. False if the system refuses, which leaves it where it was.
bool run_on(const std::vector<uint32_t>& processors);

}  // namespace heddle
