// Options of commands that several processes, the ranks of a group, carry out together.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace heddle {

// Where each rank keeps what the KV cache has no room for.
struct RankStore {
  uint64_t memory = 0;        // bytes; 0: nowhere
  std::string folder;         // on the disk of its machine; empty: none
  uint64_t folder_bytes = 0;  // that its own folder in there may have
};

struct RankOptions {
  uint32_t cpu_ranks = 0;               // on this machine, started by this process; 0: not asked for
  std::vector<uint32_t> gpus;           // numbers of the GPUs of this machine, a rank for each; empty: not asked for
  std::string launcher;                 // the program that started all ranks; empty: none
  std::optional<uint32_t> rank, world;  // by hand: the number of this rank, and how many there are
  std::string leader;                   // HOST:PORT at which rank 0 listens
  uint32_t pipeline = 1;                // stages of layers
  bool expert_parallel = false;         // ranks have whole experts of a mixture, where there are enough
  double join_seconds = 300;
  RankStore store;
  int socket = -1, memory = -1;  // of a child: descriptors that its parent has opened

  // Whether the model is computed by several processes.
  bool asked() const { return cpu_ranks || !gpus.empty() || !launcher.empty() || rank || world; }
};

void describe_ranks(CLI::App& command, RankOptions& options);

}  // namespace heddle
