// What must hold for every matrix that is made of several.
#pragma once
#include <gtest/gtest.h>

#include "gpu/weights.h"

namespace heddle::gpu {

// Each packed row comes from exactly one part, and goes to the place where that row would be with the matrices one
// below the other.
inline void expect_parts_make_places(const Weights& w, size_t parts) {
  ASSERT_EQ(w.parts.size(), parts);
  std::vector<bool> seen(w.shape.rows);
  for (uint32_t p = 0; p < w.shape.rows; ++p) {
    uint32_t below = 0, from = 0;
    for (const Part& part : w.parts) {
      ASSERT_EQ(part.rows.size(), w.shape.rows);
      if (part.rows[p] != Part::leave) {
        EXPECT_LT(part.rows[p], part.from.rows);
        EXPECT_EQ(w.places[p], below + part.rows[p]) << p;
        ++from;
      }
      below += uint32_t(part.from.rows);
    }
    EXPECT_EQ(from, 1u) << p;
    EXPECT_FALSE(seen.at(w.places[p])) << p;
    seen[w.places[p]] = true;
  }
}

}  // namespace heddle::gpu
