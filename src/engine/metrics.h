// What a server should export: counters and histograms that only the engine's thread writes. Others read copies.
#pragma once
#include <cstdint>

namespace heddle::engine {

struct Metrics {};

}  // namespace heddle::engine
