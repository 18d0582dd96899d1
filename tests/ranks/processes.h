// A group of ranks as processes, of which this one is rank 0.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <vector>

#include "ranks/rendezvous.h"
#include "ranks/shared_memory.h"

namespace heddle::test {

class RankProcesses {
 public:
  // `work` is what the other ranks do; an exception ends its process with status 1. Call it while no other thread runs:
  // the process is forked.
  RankProcesses(uint32_t ranks, const std::function<void(ranks::Joined&)>& work, uint32_t stages = 1,
                const ranks::Patience& patience = {}) {
    const int memory = ranks::make_shared_memory(ranks);
    std::vector<int> sockets;
    ranks::GroupOptions options{.patience = patience, .stages = stages, .fate = {}, .stuck = {}};
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      int both[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw Error("no sockets");
      const pid_t process = ::fork();
      if (process == 0) {
        for (const int other : sockets) ::close(other);
        ::close(both[0]);
        int status = 1;
        try {
          ranks::Joined joined = ranks::join_parent(both[1], memory, rank, ranks, {}, options);
          work(joined);
          while (joined.group->next().kind != ranks::Message::Kind::end) continue;  // of the group
          status = 0;
        } catch (const std::exception& error) {
          std::cerr << fmt::format("rank {}: {}\n", rank, error.what());
        }
        ::_exit(status);
      }
      ::close(both[1]);
      sockets.push_back(both[0]);
      processes_.push_back(process);
    }
    joined = ranks::lead_children(sockets, memory, {}, options);
  }
  ~RankProcesses() {
    joined.collective.reset();
    joined.of_stage.reset();
    joined.group.reset();
    for (const pid_t process : processes_) {
      if (process < 0) continue;
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Ends the group and waits for its processes: whether all have done their work.
  bool end() {
    joined.group.reset();
    bool fine = true;
    for (pid_t& process : processes_) {
      int status = 0;
      ::waitpid(process, &status, 0);
      process = -1;
      fine &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return fine;
  }
  void signal(uint32_t rank, int number) { ::kill(processes_.at(rank - 1), number); }

  ranks::Joined joined;

 private:
  std::vector<pid_t> processes_;
};

}  // namespace heddle::test
