// The number that is chosen is measured all the time, so one that was overestimated does not stay.
#include "engine/stream_turns.h"

#include <algorithm>

namespace heddle::engine {
namespace {

constexpr uint32_t max_streams = 128;         // with more, a group that is not full matters little
constexpr uint32_t part_that_waits = 3;       // at most a third of the streams wait,
constexpr uint32_t max_that_wait = 16;        // and no more than the largest group of any kernel
constexpr uint32_t enough_batches = 3;        // of a size, to know how long they take
constexpr uint64_t batches_until_old = 1000;  // then a size is measured again
constexpr double min_gain_of_turns = 1.02;    // less may be noise

}  // namespace

bool StreamTurns::is_to_be_measured(uint32_t rows) const {
  if (rows >= by_rows_.size()) return true;
  const Measured& m = by_rows_[rows];
  return m.batches < enough_batches || learnt_ - m.last > batches_until_old;
}

uint32_t StreamTurns::rows_for(uint32_t streams) const {
  if (streams > max_streams) return streams;
  const uint32_t least = streams - std::min(streams / part_that_waits, max_that_wait);
  uint32_t best = streams;
  for (uint32_t rows = streams; rows >= least && rows > 0; --rows) {
    if (is_to_be_measured(rows)) return rows;
    if (rate(rows) > min_gain_of_turns * rate(best)) best = rows;
  }
  return best;
}

void StreamTurns::learn(uint32_t rows, double seconds) {
  if (rows == 0 || rows > max_streams || !(seconds > 0)) return;
  if (rows >= by_rows_.size()) by_rows_.resize(rows + 1);
  Measured& m = by_rows_[rows];
  ++learnt_;
  if (learnt_ - m.last > batches_until_old) m.batches = 0;
  m.last = learnt_;
  ++m.batches;
  m.seconds += (seconds - m.seconds) * std::max(1.0 / m.batches, 0.125);
}

}  // namespace heddle::engine
