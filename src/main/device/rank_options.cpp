#include "main/device/rank_options.h"

#include <CLI/CLI.hpp>

namespace heddle {

void describe_ranks(CLI::App& command, RankOptions& options) {
  const auto number = [&command](const char* name, uint32_t& value, const char* text) {
    command.add_option(name, value, text)->type_name("N");
  };
  number("--cpu-ranks", options.cpu_ranks,
         "Compute the model by N processes on the CPUs of this machine, each a part of it; --threads is for each of "
         "them. 0: by this one");
  command
      .add_option("--gpus", options.gpus,
                  "Compute the model by one process for each of these GPUs of this machine, such as 0,1,2,3")
      ->delimiter(',')
      ->type_name("N,N,...")
      ->allow_extra_args(false);
  command
      .add_option("--launcher", options.launcher,
                  "This process is one of several that compute the model, which were started by torchrun, mpi, slurm "
                  "or lws (LeaderWorkerSet); auto: by the first of them that has set its variables")
      ->type_name("NAME");
  command
      .add_option_function<uint32_t>(
          "--rank", [&options](uint32_t rank) { options.rank = rank; },
          "The same by hand: the number of this process, from 0 on; needs --world and --leader")
      ->type_name("N");
  command
      .add_option_function<uint32_t>(
          "--world", [&options](uint32_t world) { options.world = world; }, "Number of processes; needs --rank")
      ->type_name("N");
  command.add_option("--leader", options.leader, "Where rank 0 listens and the others find it; default port 29517")
      ->type_name("HOST:PORT");
  number("--pipeline", options.pipeline,
         "Stages of layers that the processes are divided into, one after the other; for slow networks");
  command.add_flag("--expert-parallel", options.expert_parallel,
                   "Of a mixture, each process has some of the experts; otherwise it has a part of every expert, where "
                   "these can be cut");
  command.add_option("--join-seconds", options.join_seconds, "Time for all processes to be there")->type_name("S");
}

}  // namespace heddle
