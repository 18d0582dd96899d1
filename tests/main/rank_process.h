// The processes of a group of ranks, seen from outside.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace heddle::test {

// The process of a rank that this one has started; -1: there is none.
inline pid_t process_of_rank(pid_t leader, uint32_t rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat"), line(entry.path() / "cmdline");
    std::string skipped, words;
    pid_t process = 0, parent = 0;
    stat >> process >> skipped >> skipped >> parent;
    std::getline(line, words);  // of a process that has just ended, nothing
    std::replace(words.begin(), words.end(), '\0', ' ');
    if (parent == leader && words.find("--child-rank " + std::to_string(rank) + " ") != words.npos) return process;
  }
  return -1;
}

}  // namespace heddle::test
