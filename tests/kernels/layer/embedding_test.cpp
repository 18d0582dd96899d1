// What embedding refuses.
#include "kernels/layer/embedding.h"

#include <gtest/gtest.h>

#include "quant/format.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(Embedding, RefusesWithExpectedAndFound) {
  const Embedding spec;
  EXPECT_EQ(refused([&] { spec.grid({.tokens = 1, .cols = 100, .vocabulary = 1}); }),
            "embedding: 100 columns of q4_k are not a multiple of 256, its block");
  EXPECT_NE(refused([&] { spec.grid({.table = {8}, .tokens = 1, .cols = 256, .vocabulary = 1}); }), "");
  EXPECT_EQ(refused([&] { spec.grid({.tokens = 3, .cols = 256, .vocabulary = 0}); }),
            "embedding: 3 tokens, but a vocabulary of 0");
  EXPECT_EQ(spec.grid({.tokens = 0, .cols = 256, .vocabulary = 0}).x, 1u);
}

TEST(Embedding, RefusesAFormatThatNoKernelReads) {
  EXPECT_THROW(Embedding{.format = uint32_t(Format::i8)}.build(), Error);
}

TEST(Embedding, AssemblesForEveryFormatWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<Embedding> specs;
  for (Format f : known_formats) specs.push_back({.format = uint32_t(f), .add = 1, .chained = 1});
  expect_no_spills(specs, "sm_90a");
}

}  // namespace
}  // namespace heddle::kernels
