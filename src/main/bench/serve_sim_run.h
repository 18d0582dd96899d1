// Traffic on an engine, watched from outside: when each token of each stream came.
#pragma once
#include <iosfwd>
#include <vector>

#include "engine/engine.h"
#include "main/bench/serve_sim_traffic.h"

namespace heddle {

struct Stream {
  double due = 0;              // seconds; when it arrived, whether or not the engine had time for it
  double first = 0, last = 0;  // tokens
  uint32_t prompt = 0, cached_tokens = 0, generated = 0;
  engine::FinishReason finish_reason = engine::FinishReason::none;  // none: refused
};

struct Traffic {
  std::vector<Stream> streams;  // as they arrived
  std::vector<double> gaps;     // seconds between tokens of a stream, of all of them
  double seconds = 0;           // from the first arrival to the last token
  uint64_t answers = 0;         // a hash of all tokens of all streams: equal where the answers are
  uint64_t most_blocks = 0;     // of the KV cache in use at once
  uint32_t refused = 0, failed = 0;
  std::string reason;  // of the first of them
  engine::Metrics metrics;
};

// `at_once`: no more streams than that, the next one arrives when another has ended; 0: as they arrive. `log`: where it
// says how far it is, see Progress.
Traffic run_traffic(engine::Engine& engine, const std::vector<Arrival>& arrivals, uint32_t at_once,
                    engine::Speculation speculation, const std::ostream* log);

}  // namespace heddle
