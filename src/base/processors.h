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

// A NUMA node: its number, by which the system knows its memory, and its processors.
struct Node {
  uint32_t number;
  std::vector<uint32_t> processors;
  bool operator==(const Node&) const = default;
};

// Each node that has some of the processors `allowed`, with these; one node, number 0, where the system says nothing of
// nodes.
std::vector<Node> nodes_with(const std::vector<uint32_t>& allowed, const std::string& root = "");

// The index of the node where thread number `thread` of `threads` should run: neighbouring threads share a node, and
// each node gets threads in proportion to its processors.
uint32_t node_of_thread(const std::vector<Node>& nodes, uint32_t thread, uint32_t threads);

// Whether some of these are slower than others by a tenth or more, by what the system says of their capacity, or of
// their highest frequency where it knows no capacities. False where it does not tell.
bool differ_in_speed(const std::vector<uint32_t>& processors, const std::string& root = "");

// The processors that the calling thread may run on. Empty: unknown.
std::vector<uint32_t> allowed_processors();
// The calling thread runs on these from now on. False if the system refuses, which leaves it where it was.
bool run_on(const std::vector<uint32_t>& processors);

// The thread that constructs it runs on these until it destroys it, then where it did before. None: it changes nothing.
class RunsOn {
 public:
  explicit RunsOn(const std::vector<uint32_t>& processors) {
    if (!processors.empty()) before_ = allowed_processors();
    if (!before_.empty() && !run_on(processors)) before_.clear();
  }
  ~RunsOn() {
    if (!before_.empty()) run_on(before_);
  }
  RunsOn(const RunsOn&) = delete;
  RunsOn& operator=(const RunsOn&) = delete;

 private:
  std::vector<uint32_t> before_;
};

}  // namespace heddle
