// What must hold for every matrix that is owned of several.
#pragma once
#include <gtest/gtest.h>

#include "gpu/weights.h"

namespace heddle::gpu {

// Each packed row comes from exactly one source, and goes to the place where that row would be with the matrices one
// below the other.
inline void expect_sources_fill_places(const Weights& w, size_t sources) {
  ASSERT_EQ(w.sources.size(), sources);
  std::vector<bool> seen(w.shape.rows);
  for (uint32_t p = 0; p < w.shape.rows; ++p) {
    uint32_t below = 0, from = 0;
    for (const Source& source : w.sources) {
      ASSERT_EQ(source.rows.size(), w.shape.rows);
      if (source.rows[p] != Source::skip) {
        EXPECT_LT(source.rows[p], source.from.rows);
        EXPECT_EQ(w.places[p], below + source.rows[p]) << p;
        ++from;
      }
      below += uint32_t(source.from.rows);
    }
    EXPECT_EQ(from, 1u) << p;
    EXPECT_FALSE(seen.at(w.places[p])) << p;
    seen[w.places[p]] = true;
  }
}

}  // namespace heddle::gpu
