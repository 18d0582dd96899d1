// Where pages come to lie, as the system tells it.
#include "cpu/pages.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

namespace heddle::cpu {
namespace {

// How the system places this page: a mode and the nodes. Nothing where it does not tell, as in many containers.
std::optional<std::pair<int, unsigned long>> policy_of(const uint8_t* at) {
  int mode = -1;
  unsigned long nodes[16] = {};
  if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, at, MPOL_F_ADDR) != 0) return std::nullopt;
  return std::pair(mode, nodes[0]);
}

// Node 0 is there on every machine; the system leaves out nodes that are not.
TEST(Pages, AreInterleavedAcrossNodes) {
  for (const uint64_t bytes : {uint64_t(1), uint64_t(5000), uint64_t(5) << 20}) {
    Pages pages(bytes, Pages::Size::large);
    const auto before = policy_of(pages.data());
    if (!before) GTEST_SKIP() << "the system does not say where memory lies: error " << errno;
    EXPECT_EQ(before->first, MPOL_DEFAULT);
    pages.interleave({{0, {0}}});  // one node: as it is
    EXPECT_EQ(policy_of(pages.data()), before);
    pages.interleave({{0, {0}}, {1, {1}}});
    for (const uint64_t at : {uint64_t(0), bytes - 1}) {
      const auto after = policy_of(pages.data() + at);
      ASSERT_TRUE(after);
      EXPECT_EQ(after->first, MPOL_INTERLEAVE);
      EXPECT_EQ(after->second & 1, 1u);
    }
    pages.data()[bytes - 1] = 7;
    EXPECT_EQ(pages.data()[bytes - 1], 7);
  }
}

TEST(Pages, NothingCanBeInterleaved) {
  Pages none;
  none.interleave({{0, {0}}, {1, {1}}});
  EXPECT_EQ(none.bytes(), 0u);
}

}  // namespace
}  // namespace heddle::cpu
