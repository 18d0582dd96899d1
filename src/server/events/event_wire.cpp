#include "server/events/event_wire.h"

#include <nlohmann/json.hpp>

namespace heddle::server {
namespace {

using WireJson = nlohmann::ordered_json;

// The name of the memory that the device computes from, for a CPU as well: routers rank others behind it.
constexpr const char* medium = "GPU";

// An event as a list of fields; the first is its type.
WireJson fields_of(const BlockEvent& event) {
  if (const auto* stored = std::get_if<BlocksStored>(&event))
    return {{"type", "BlockStored"},
            {"block_hashes", stored->hashes},
            {"parent_block_hash", stored->after ? WireJson(*stored->after) : WireJson()},
            {"token_ids", stored->tokens},
            {"block_size", stored->tokens.size() / stored->hashes.size()},
            {"lora_id", nullptr},
            {"medium", medium},
            {"lora_name", nullptr}};
  if (const auto* removed = std::get_if<BlocksRemoved>(&event))
    return {{"type", "BlockRemoved"}, {"block_hashes", removed->hashes}, {"medium", medium}};
  return {{"type", "AllBlocksCleared"}};
}

}  // namespace

std::vector<uint8_t> pack(const EventBatch& batch, EventFormat format) {
  WireJson events = WireJson::array();
  for (const BlockEvent& event : batch.events) {
    WireJson fields = fields_of(event);
    if (format == EventFormat::array) {
      WireJson values = WireJson::array();
      for (auto& value : fields) values.push_back(std::move(value));
      fields = std::move(values);
    }
    events.push_back(std::move(fields));
  }
  constexpr int replica = 0;  // of those in one process
  return WireJson::to_msgpack(WireJson::array({batch.time, std::move(events), replica}));
}

}  // namespace heddle::server
