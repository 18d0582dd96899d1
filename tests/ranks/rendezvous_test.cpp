#include "ranks/rendezvous.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "tests/support/refused.h"

namespace heddle::ranks {
namespace {

const Terms same_terms{.version = "1", .model = "a model", .options = {{"--kv", "f16"}, {"--ctx", "0"}}};

struct Outcome {
  std::string error;  // empty: it joined
  float sum = 0;
  std::optional<Joined> joined;  // until all have: one that leaves is lost to those that still wait
};

// A group by address in threads: what each rank found. `terms` of all but rank 0.
std::vector<Outcome> meet_by_address(uint32_t ranks, const Terms& terms, uint32_t ranks_of_others) {
  std::promise<uint16_t> port;
  std::shared_future<uint16_t> known = port.get_future().share();
  std::vector<Outcome> outcomes(ranks);
  GroupOptions options;
  options.patience.join = 5;
  const auto attempt = [](Outcome& outcome, auto&& join) {
    try {
      Joined& joined = outcome.joined.emplace(join());
      float value = float(joined.group->rank() + 1);
      joined.collective->sum({&value, 1});
      outcome.sum = value;
      joined.group->smallest({});
    } catch (const Error& error) {
      outcome.error = error.what();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    attempt(outcomes[0], [&] {
      return lead_by_address(0, ranks, same_terms, options, [&](uint16_t found) { port.set_value(found); });
    });
  });
  for (uint32_t rank = 1; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      attempt(outcomes[rank], [&] {
        return join_by_address({"localhost", known.get()}, rank, ranks_of_others, terms, options);
      });
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(Rendezvous, RanksMeetByAnAddress) {
  for (const uint32_t ranks : {2u, 3u, 5u})
    for (const Outcome& outcome : meet_by_address(ranks, same_terms, ranks)) {
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.sum, float(ranks * (ranks + 1) / 2));
    }
}

TEST(Rendezvous, WhatDiffersIsRefusedByNameOnBothSides) {
  const auto expect = [](const Terms& terms, uint32_t ranks, const std::string& what) {
    const std::vector<Outcome> outcomes = meet_by_address(2, terms, ranks);
    EXPECT_EQ(outcomes[0].error, "rank 1 was refused: " + what);
    EXPECT_EQ(outcomes[1].error, "rank 0 refuses this rank: " + what);
  };
  Terms other = same_terms;
  other.version = "2";
  expect(other, 2, "another version of heddle: rank 0 has \"1\", this rank \"2\"");
  other = same_terms;
  other.model = "b model";
  expect(other, 2, "another model: rank 0 has \"a model\", this rank \"b model\"");
  expect(same_terms, 3, "another number of ranks: rank 0 has 2, this rank 3");
  other = same_terms;
  other.options[0].second = "q8";
  expect(other, 2, "another --kv: rank 0 has \"f16\", this rank \"q8\"");
  other.options = {{"--kv", "f16"}};
  expect(other, 2, "another --ctx: rank 0 has \"0\", this rank none");
  other = same_terms;
  other.options.emplace_back("--exact", "yes");
  expect(other, 2, "another --exact: rank 0 has none, this rank \"yes\"");
}

TEST(Rendezvous, ARankThatDoesNotComeIsNamed) {
  GroupOptions options;
  options.patience.join = 0.2;
  EXPECT_REFUSED(lead_by_address(0, 3, same_terms, options), "rank 1, 2 of 3", "0.2 s");
  EXPECT_REFUSED(join_by_address({"localhost", 1}, 1, 3, same_terms, options), "localhost:1", "0.2 s");
}

}  // namespace
}  // namespace heddle::ranks
