#include "ranks/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/refused.h"

namespace heddle::ranks {
namespace {

Variables variables_of(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const std::string& name) -> std::optional<std::string> {
    const auto found = all.find(name);
    if (found == all.end()) return std::nullopt;
    return found->second;
  };
}

void expect_place(const Place& place, uint32_t rank, uint32_t ranks, uint32_t local, const std::string& host,
                  uint16_t port) {
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.ranks, ranks);
  EXPECT_EQ(place.local, local);
  EXPECT_EQ(place.leader.host, host);
  EXPECT_EQ(place.leader.port, port);
}

TEST(Launcher, EachIsReadByItsOwnVariables) {
  std::map<std::string, std::string> all{{"RANK", "3"},
                                         {"WORLD_SIZE", "8"},
                                         {"LOCAL_RANK", "1"},
                                         {"MASTER_ADDR", "10.0.0.1"},
                                         {"MASTER_PORT", "29400"},
                                         {"SLURM_PROCID", "5"},
                                         {"SLURM_NTASKS", "6"},
                                         {"SLURM_LOCALID", "2"},
                                         {"LWS_LEADER_ADDRESS", "group-0.group.default"},
                                         {"LWS_GROUP_SIZE", "4"},
                                         {"LWS_WORKER_INDEX", "2"},
                                         {"OMPI_COMM_WORLD_RANK", "7"},
                                         {"OMPI_COMM_WORLD_SIZE", "9"},
                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
  expect_place(launched_place("torchrun", "", variables_of(all)), 3, 8, 1, "10.0.0.1", 29400);
  expect_place(launched_place("auto", "", variables_of(all)), 3, 8, 1, "10.0.0.1", 29400);
  expect_place(launched_place("slurm", "", variables_of(all)), 5, 6, 2, "10.0.0.1", 29400);
  expect_place(launched_place("mpi", "", variables_of(all)), 7, 9, 3, "10.0.0.1", 29400);
  expect_place(launched_place("lws", "", variables_of(all)), 2, 4, 0, "group-0.group.default", default_port);
  expect_place(launched_place("slurm", "other:7", variables_of(all)), 5, 6, 2, "other", 7);
  all["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  expect_place(launched_place("torchrun", "", variables_of(all)), 3, 8, 1, "10.0.0.1", 29401);
}

TEST(Launcher, SlurmNamesItsHosts) {
  std::map<std::string, std::string> all{{"SLURM_PROCID", "0"},
                                         {"SLURM_NTASKS", "2"},
                                         {"SLURM_LOCALID", "0"},
                                         {"SLURM_STEP_NODELIST", "gpu[07-09,12],login"}};
  expect_place(launched_place("auto", "", variables_of(all)), 0, 2, 0, "gpu07", default_port);
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[3,5]"), "n3");
  EXPECT_EQ(first_host("rack[1-2]-n[01-16]"), "rack1-n01");
  for (const char* bad : {"", ",a", "n[", "n[]", "n[,3]"}) EXPECT_THROW(first_host(bad), Error) << bad;
}

TEST(Launcher, WhatIsMissingOrWrongIsNamed) {
  std::map<std::string, std::string> all;
  EXPECT_REFUSED(launched_place("auto", "", variables_of(all)), "--launcher auto", "found none");
  EXPECT_REFUSED(launched_place("pbs", "", variables_of(all)), "torchrun, mpi, lws, slurm", "\"pbs\"");
  EXPECT_REFUSED(launched_place("torchrun", "", variables_of(all)), "RANK", "found none");
  all = {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}};
  EXPECT_REFUSED(launched_place("torchrun", "", variables_of(all)), "RANK", "below 2, found 2");
  all["RANK"] = "one";
  EXPECT_REFUSED(launched_place("torchrun", "", variables_of(all)), "RANK", "\"one\"");
  all["RANK"] = "1";
  EXPECT_REFUSED(launched_place("torchrun", "", variables_of(all)), "MASTER_ADDR", "found none");
}

TEST(Launcher, AddressesOfAnyKind) {
  const auto expect = [](const std::string& text, const std::string& host, uint16_t port) {
    const Address address = address_named(text, "--leader");
    EXPECT_EQ(address.host, host);
    EXPECT_EQ(address.port, port);
  };
  expect("node1:80", "node1", 80);
  expect("node1", "node1", default_port);
  expect("[::1]:81", "::1", 81);
  expect("[fe80::2]", "fe80::2", default_port);
  expect("::1", "::1", default_port);
  for (const char* bad : {"", ":80", "node:", "node:0", "node:99999", "node:8x"})
    EXPECT_REFUSED(address_named(bad, "--leader"), "--leader", "found");
}

}  // namespace
}  // namespace heddle::ranks
