// Ranks of one machine as child processes of the first.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace heddle::ranks {

// Processes that end with this one, whatever ends it.
class Children {
 public:
  // One process for each rank from 1 on: `program` with the arguments that `arguments` gives for the rank, its socket
  // to this process, and the memory of the group, which both are open in it. Their standard output goes to standard
  // error. Call it from a thread that lives as long as the process: the system ends the children with it.
  Children(const std::string& program, uint32_t ranks,
           const std::function<std::vector<std::string>(uint32_t rank, int socket, int memory)>& arguments);
  ~Children();  // waits for them to end, 2 s; then they are killed
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // This process's ends, of ranks 1, 2, ...: for lead_children(), which owns them then.
  std::vector<int> take_sockets();
  int take_memory();
  // How a rank has ended, "was ended by signal 9 (Killed)"; empty: it runs.
  std::string fate(uint32_t rank);
  void end_within(double seconds) { end_seconds_ = seconds; }
  pid_t process(uint32_t rank) const { return all_.at(rank - 1).process; }

 private:
  struct Child {
    pid_t process = -1;
    int socket = -1;
    bool ended = false;
    int status = 0;  // of waitpid()
  };
  bool has_ended(Child& child);

  std::vector<Child> all_;
  double end_seconds_ = 2;
  int memory_ = -1;
};

}  // namespace heddle::ranks
