// What both transports have in common is in shared_memory_test.cpp.
#include "ranks/tcp.h"

#include <gtest/gtest.h>

#include "tests/ranks/collectives.h"

namespace heddle::ranks {
namespace {

TEST(Tcp, ARankWhoseConnectionIsClosedIsNamed) {
  test::ThreadRanks group(test::Transport::tcp, 3);
  group.drop(2);
  for (uint32_t rank : {0u, 1u}) {
    std::vector<float> values(10);
    try {
      group[rank].receive(2, values);
      ADD_FAILURE() << "rank 2 is gone";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("rank 2 is gone: ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace heddle::ranks
