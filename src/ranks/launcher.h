// The place of this process in a group, as the program that started all of its ranks says it in environment variables.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ranks/rendezvous.h"

namespace heddle::ranks {

struct Place {
  uint32_t rank = 0, ranks = 1;
  uint32_t local = 0;  // among the ranks of this machine
  Address leader;      // where rank 0 listens
};

// The value of an environment variable; unset: there is none.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> environment_variable(const std::string& name);

// `launcher`: torchrun, mpi, slurm, lws, or auto: the first with its variables set. `leader`: takes the place of the
// variables' address, if not empty. Throws an Error that names the variable that is missing or wrong.
Place launched_place(const std::string& launcher, const std::string& leader,
                     const Variables& variables = environment_variable);

// The first host of a list as Slurm writes it: "node[07-09,12],login" -> "node07".
std::string first_host(const std::string& list);

}  // namespace heddle::ranks
