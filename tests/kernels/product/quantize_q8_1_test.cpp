// What quantize_q8_1 refuses.
#include "kernels/product/quantize_q8_1.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Quantize, RefusesPartsOfBlocks) {
  EXPECT_EQ(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {16}, .rows = 1, .cols = 96}), "");
  EXPECT_EQ(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {16}, .rows = 1, .cols = 48}),
            "quantize_q8_1: 48 columns are not a multiple of its block of 32");
  EXPECT_NE(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {8}, .rows = 1, .cols = 96}), "");
  EXPECT_NE(refusal(QuantizeQ8_1{}, {.y = {4}, .x = {16}, .rows = 1, .cols = 96}), "");
  EXPECT_EQ(refusal(QuantizeQ8_1{.layout = QuantizeQ8_1::blocks}, {.y = {4}, .x = {16}, .rows = 1, .cols = 96}), "");
}

}  // namespace
}  // namespace heddle::kernels
