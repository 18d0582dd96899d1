// The groups of all ranks in one process.
#pragma once
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ranks/group.h"

namespace heddle::ranks {

// Groups of all ranks, connected as the leader's and the others' are.
inline std::vector<std::unique_ptr<Group>> groups_of(uint32_t ranks, const GroupOptions& options = {}) {
  std::vector<std::unique_ptr<Link>> of_leader;
  std::vector<std::unique_ptr<Group>> all(1);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw Error("no sockets");
    of_leader.push_back(std::make_unique<Link>(both[0]));
    std::vector<std::unique_ptr<Link>> link;
    link.push_back(std::make_unique<Link>(both[1]));
    all.push_back(std::make_unique<Group>(rank, ranks, std::move(link), options));
  }
  all[0] = std::make_unique<Group>(0, ranks, std::move(of_leader), options);
  return all;
}
inline bool soon(const std::function<bool()>& condition) {
  for (uint32_t i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

}  // namespace heddle::ranks
