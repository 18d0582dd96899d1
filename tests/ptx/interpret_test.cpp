// The cases across threads, of memory and of asynchronous copies, through the public interpreter: each against its own
// reference, a few hundred items, with warps taking turns in order and in a random order.
#include <gtest/gtest.h>

#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::ptx::cases {
namespace {

std::vector<Case> these() {
  std::vector<Case> v;
  add_warp(v);
  add_memory(v);
  add_async(v);
  return v;
}
// Names of tests are letters, digits and underscores.
std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string s = info.param.family + "_" + info.param.name;
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return s;
}

class InterpretedCase : public testing::TestWithParam<Case> {};

TEST_P(InterpretedCase, GivesWhatItsReferenceGives) {
  const Case& c = GetParam();
  // some hundred items of a thread or a warp, fewer of a block's tile; not a multiple of the items per block
  const uint32_t items = c.items_per_block > 1 ? 3 * c.items_per_block + 5 : c.in_bytes > 2048 ? 20 : 70;
  const Kernel kernel = c.build();
  ASSERT_NO_THROW(verify(kernel));
  const std::vector<uint8_t> in = make_inputs(c, items, 1), want = reference(c, in, items);
  for (uint64_t seed : {0, 1}) {
    const Difference d = compare(c, in, interpret_case(c, kernel, in, items, {.seed = seed}), want, items);
    EXPECT_EQ(d.mismatches, 0u) << "of " << items << "; " << d.first;
  }
}

INSTANTIATE_TEST_SUITE_P(All, InterpretedCase, testing::ValuesIn(these()), test_name);

}  // namespace

void PrintTo(const Case& c, std::ostream* out) { *out << c.family << " " << c.name; }

}  // namespace heddle::ptx::cases
