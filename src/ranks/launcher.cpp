#include "ranks/launcher.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::ranks {
namespace {

struct LauncherVariables {
  const char *name, *rank, *ranks, *local;  // local: nullptr, one rank on each machine
};
// In this order: torchrun and mpirun may run inside a Slurm job, and then Slurm's variables describe that job.
constexpr std::array<LauncherVariables, 4> launchers{{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"lws", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", nullptr},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
}};

const LauncherVariables& launcher_named(const std::string& name, const Variables& variables) {
  std::string known;
  for (const LauncherVariables& launcher : launchers) {
    if (name == launcher.name || (name == "auto" && variables(launcher.rank) && variables(launcher.ranks)))
      return launcher;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", launcher.name);
  }
  if (name == "auto")
    throw Error(
        "--launcher auto: expected the variables of one of {}, found none of them (such as RANK and WORLD_SIZE)",
        known);
  throw Error("--launcher: expected auto or one of {}, found {}", known, in_quotes(name));
}

uint32_t number_in(const std::string& name, const LauncherVariables& launcher, const Variables& variables) {
  const auto text = variables(name);
  if (!text) throw Error("--launcher {}: expected the variable {}, found none", launcher.name, name);
  uint32_t number = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), number);
  if (read.ec != std::errc() || read.ptr != text->data() + text->size())
    throw Error("--launcher {}: {}: expected a number, found {}", launcher.name, name, in_quotes(*text));
  return number;
}

Address leader_of(const LauncherVariables& launcher, const Variables& variables) {
  const std::string_view name = launcher.name;
  Address address{.host = "", .port = default_port};
  if (name == "lws") {
    const auto host = variables("LWS_LEADER_ADDRESS");
    if (!host) throw Error("--launcher lws: expected the variable LWS_LEADER_ADDRESS, found none");
    return {.host = *host, .port = default_port};
  }
  if (const auto host = variables("MASTER_ADDR")) {
    address.host = *host;
    if (variables("MASTER_PORT")) {
      const uint32_t port = number_in("MASTER_PORT", launcher, variables);
      // torchrun itself listens at the port; the next one is free for its ranks
      const bool taken = name == "torchrun" && variables("TORCHELASTIC_USE_AGENT_STORE") == "True";
      if (port == 0 || port + taken > 65535)
        throw Error("--launcher {}: MASTER_PORT: expected a port, found {}", name, port);
      address.port = uint16_t(port + taken);
    }
    return address;
  }
  if (name == "slurm")
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
      if (const auto hosts = variables(list)) return {.host = first_host(*hosts), .port = default_port};
  throw Error("--launcher {}: expected the address of rank 0 in MASTER_ADDR{} or --leader HOST:PORT, found none", name,
              name == "slurm" ? ", SLURM_STEP_NODELIST" : "");
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value) return std::nullopt;
  return value;
}

std::string first_host(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t close = list.find(']', i);
    const size_t end = std::min(list.find_first_of(",-]", i + 1), close);
    if (close == list.npos || end == i + 1)
      throw Error("SLURM_STEP_NODELIST: expected a list of hosts, found {}", in_quotes(list));
    host += list.substr(i + 1, end - i - 1);
    i = close;
  }
  if (host.empty()) throw Error("SLURM_STEP_NODELIST: expected a list of hosts, found {}", in_quotes(list));
  return host;
}

Place launched_place(const std::string& launcher, const std::string& leader, const Variables& variables) {
  const LauncherVariables& by = launcher_named(launcher, variables);
  Place place{.rank = number_in(by.rank, by, variables), .ranks = number_in(by.ranks, by, variables)};
  if (place.ranks == 0 || place.rank >= place.ranks)
    throw Error("--launcher {}: {}: expected a rank below {}, found {}", by.name, by.rank, place.ranks, place.rank);
  if (by.local) place.local = number_in(by.local, by, variables);
  place.leader = leader.empty() ? leader_of(by, variables) : address_named(leader, "--leader");
  return place;
}

}  // namespace heddle::ranks
