// Where the KV cache of a server goes on: --kv-host, --kv-disk and --kv-transfer.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "main/device/running_model.h"
#include "tiers/tiered_store.h"
#include "tiers/transfer_server.h"

namespace CLI {
class App;
}

namespace heddle {

struct KvTierChoices {
  uint64_t host = 0;  // bytes
  std::string disk;   // "DIR,SIZE"; empty: none

  std::string transfer;  // "HOST:PORT"; empty: none

  uint64_t host_bytes() const;  // without a size, the default where there is one of the others
};
void describe_kv_host(CLI::App& command, KvTierChoices& choices);
void describe_kv_tiers(CLI::App& command, KvTierChoices& choices);  // with the one before
void describe_kv_transfer(CLI::App& command, KvTierChoices& choices);

// Null: none is asked for. An Error that names the option if the folder cannot be used, or memory is too small.
std::unique_ptr<tiers::TieredStore> make_store(const KvTierChoices& choices,
                                               std::function<void(const std::string&)> on_failure = {});
// The same for rank 0 of a group, of which every rank keeps its own part; the group must outlive it.
std::unique_ptr<tiers::TieredStore> make_rank_store(const RankStore& choices, RankGroup& group,
                                                    std::function<void(const std::string&)> on_failure = {});
// Null: none is asked for. An Error that names the option if it cannot listen there.
std::unique_ptr<tiers::TransferServer> make_transfer(const KvTierChoices& choices);
// The device may use what the store leaves of the system's memory, and the ranks are told of it, if there are some.
// Both of the sizes are for each of them.
void leave_room_for_store(const KvTierChoices& choices, DeviceOptions& device);
// Names the model by the contents of its files, which takes a second for 10 GB. `name`: as open_model() takes it.
std::string store_identity(const std::string& name, const RunningModel& running);

// Gives the store what the engine's cache has, and waits until that is written.
void save_all(engine::Engine& engine, tiers::TieredStore& store);

}  // namespace heddle
