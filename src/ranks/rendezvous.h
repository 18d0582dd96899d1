// How the ranks of a group find each other: as children of the leader, which share its memory, or by an address.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ranks/group.h"

namespace heddle::ranks {

// What must be the same on all ranks. Another is refused by name, on both sides.
struct Terms {
  std::string version, model;                                // of heddle; of the files
  std::vector<std::pair<std::string, std::string>> options;  // such as {"--kv", "q8"}
};

struct Address {
  std::string host;
  uint16_t port = 0;
};
// "host:port", "[::1]:port"; without a port `default_port`. Throws an Error that names `option`.
inline constexpr uint16_t default_port = 29517;
Address address_named(const std::string& text, const std::string& option);

// A group and the way in which its ranks compute together.
struct Joined {
  std::unique_ptr<Group> group;
  std::unique_ptr<model::Collective> collective;  // of all ranks; goes before the group
  std::unique_ptr<model::Collective> of_stage;    // of the ranks of this one's stage; null: all are in one
};

// One machine. The leader has one socket for each other rank, a child the one that leads to the leader; `memory` is of
// make_shared_memory(). Descriptors are owned from now on.
Joined lead_children(std::vector<int> sockets, int memory, const Terms& terms, GroupOptions options = {});
Joined join_parent(int socket, int memory, uint32_t rank, uint32_t ranks, const Terms& terms,
                   GroupOptions options = {});

// Several machines: rank 0 listens at the port (on all interfaces; 0: any free one, which `listening` is called with),
// the others connect, and then every two of them. Waits for all, up to Patience::join.
Joined lead_by_address(uint16_t port, uint32_t ranks, const Terms& terms, GroupOptions options = {},
                       const std::function<void(uint16_t)>& listening = {});
Joined join_by_address(const Address& leader, uint32_t rank, uint32_t ranks, const Terms& terms,
                       GroupOptions options = {});

}  // namespace heddle::ranks
