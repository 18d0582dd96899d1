// Groups of ranks as threads of a test, over shared memory or TCP.
#pragma once
#include <sys/socket.h>

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ranks/shared_memory.h"
#include "ranks/tcp.h"

namespace heddle::test {

enum class Transport { memory, tcp };

class ThreadRanks {
 public:
  ThreadRanks(Transport transport, uint32_t ranks, const ranks::Patience& patience = {}) : alarms_(ranks) {
    if (transport == Transport::memory) {
      const int memory = ranks::make_shared_memory(ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank)
        all_.push_back(ranks::open_shared_memory(memory, rank, ranks, alarms_[rank], patience));
      ::close(memory);
      return;
    }
    std::vector<std::vector<int>> mesh(ranks, std::vector<int>(ranks, -1));
    for (uint32_t a = 0; a < ranks; ++a)
      for (uint32_t b = a + 1; b < ranks; ++b) {
        int both[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw Error("no sockets");
        mesh[a][b] = both[0];
        mesh[b][a] = both[1];
      }
    for (uint32_t rank = 0; rank < ranks; ++rank)
      all_.push_back(ranks::make_tcp(mesh[rank], rank, alarms_[rank], patience));
  }

  model::Collective& operator[](uint32_t rank) { return *all_[rank]; }
  ranks::Alarm& alarm(uint32_t rank) { return alarms_[rank]; }
  void drop(uint32_t rank) { all_[rank].reset(); }

  // Calls work(rank, collective) on a thread for each rank.
  void run(const std::function<void(uint32_t, model::Collective&)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < all_.size(); ++rank) threads.emplace_back([&, rank] { work(rank, *all_[rank]); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::deque<ranks::Alarm> alarms_;
  std::vector<std::unique_ptr<model::Collective>> all_;
};

}  // namespace heddle::test
