// Events of blocks as bytes: msgpack in the shape that readers of vLLM's events expect.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/events/block_events.h"

namespace heddle::server {

// How an event is written. map: by the names of its fields, as vLLM does since 0.24; array: by their order, as before.
// A batch is an array in both.
enum class EventFormat { map, array };

struct EventBatch {
  double time;  // seconds since 1970
  std::vector<BlockEvent> events;
};

std::vector<uint8_t> pack(const EventBatch& batch, EventFormat format);

}  // namespace heddle::server
