#include "main/serve/kv_tiers.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "tiers/content_hash.h"

namespace heddle {
namespace {

constexpr uint64_t default_host_bytes = 4'000'000'000;

struct DiskChoice {
  std::string folder;
  uint64_t bytes;
};
DiskChoice disk_choice(const std::string& text) {
  const size_t comma = text.rfind(',');
  if (comma == text.npos || comma == 0)
    throw Error("--kv-disk: expected a folder and a size such as /var/cache/heddle,200GB, found {}", in_quotes(text));
  return {text.substr(0, comma), bytes_named(text.substr(comma + 1), "--kv-disk")};
}

}  // namespace

uint64_t KvTierChoices::host_bytes() const {
  return host == 0 && !(disk.empty() && transfer.empty()) ? default_host_bytes : host;
}

void describe_kv_host(CLI::App& command, KvTierChoices& choices) {
  command
      .add_option_function<std::string>(
          "--kv-host", [&choices](const std::string& text) { choices.host = bytes_named(text, "--kv-host"); },
          "Memory of the system for what the KV cache has no room for, such as 32GB; default: none, or 4GB with "
          "another "
          "--kv option")
      ->type_name("SIZE");
}

void describe_kv_tiers(CLI::App& command, KvTierChoices& choices) {
  describe_kv_host(command, choices);
  command
      .add_option("--kv-disk", choices.disk,
                  "Folder, and its maximum size, for what the KV cache has computed: a prompt that begins with it gets "
                  "it back, after a restart too")
      ->type_name("DIR,SIZE");
}

std::unique_ptr<tiers::TieredStore> make_store(const KvTierChoices& choices,
                                               std::function<void(const std::string&)> on_failure) {
  if (choices.host_bytes() == 0) return nullptr;
  std::unique_ptr<tiers::PartFolder> folder;
  if (!choices.disk.empty()) {
    const DiskChoice disk = disk_choice(choices.disk);
    try {
      folder = std::make_unique<tiers::PartFolder>(disk.folder, disk.bytes);
    } catch (const Error& error) {
      throw Error("--kv-disk: {}", error.what());
    }
  }
  return std::make_unique<tiers::TieredStore>(choices.host_bytes(), std::move(folder), std::move(on_failure));
}

std::unique_ptr<tiers::TieredStore> make_rank_store(const RankStore& choices, RankGroup& group,
                                                    std::function<void(const std::string&)> on_failure) {
  if (choices.memory == 0) return nullptr;
  std::unique_ptr<tiers::PartDisk> disk;
  if (auto own = open_rank_folder(choices, group.group()))
    disk = std::make_unique<tiers::GroupDisk>(std::move(own), group.group(), group.numbers());
  return std::make_unique<tiers::TieredStore>(choices.memory, std::move(disk), std::move(on_failure),
                                              [&group](const uint8_t* data) { group.numbers().drop(data); });
}

void describe_kv_transfer(CLI::App& command, KvTierChoices& choices) {
  command
      .add_option("--kv-transfer", choices.transfer,
                  "Address where other servers get what this one has computed of prompts (kv_transfer_params), and "
                  "getting it from others; port 0: any free one")
      ->type_name("HOST:PORT");
}

std::unique_ptr<tiers::TransferServer> make_transfer(const KvTierChoices& choices) {
  if (choices.transfer.empty()) return nullptr;
  const std::string& text = choices.transfer;
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  if (colon == text.npos || colon == 0 ||
      std::from_chars(text.data() + colon + 1, end, port) != std::from_chars_result{end, std::errc()})
    throw Error("--kv-transfer: expected an address and a port such as 127.0.0.1:8700, found {}", in_quotes(text));
  try {
    return std::make_unique<tiers::TransferServer>(text.substr(0, colon), port);
  } catch (const Error& error) {
    throw Error("--kv-transfer: {}", error.what());
  }
}

void leave_room_for_store(const KvTierChoices& choices, DeviceOptions& device) {
  if (device.ranks.asked()) {
    if (!choices.transfer.empty()) throw Error("--kv-transfer: expected one process, found several ranks");
    device.ranks.store.memory = choices.host_bytes();
    if (!choices.disk.empty()) {
      const DiskChoice disk = disk_choice(choices.disk);
      device.ranks.store.folder = disk.folder;
      device.ranks.store.folder_bytes = disk.bytes;
    }
  }
  const uint64_t wanted = choices.host_bytes(), usable = usable_on_cpu(share_of_rank(device));
  if (wanted == 0 || usable == 0) return;
  if (wanted >= usable)
    throw Error("--kv-host: expected less than the {} of memory that may be used, found {}", bytes_text(double(usable)),
                bytes_text(double(wanted)));
  device.cpu_memory = usable - wanted;
}

std::string store_identity(const std::string& name, const RunningModel& running) {
  const formats::Checkpoint checkpoint = open_model(name);
  std::string metadata;
  for (const auto& [key, value] : checkpoint.metadata.all())
    if (key != "general.name") metadata += fmt::format("{} {}\n", key, to_string(value, SIZE_MAX));
  std::vector<std::span<const uint8_t>> contents;
  for (const auto& file : checkpoint.files) contents.push_back(file->bytes());
  for (const formats::Tensor& tensor : checkpoint.tensors) {
    metadata += fmt::format("{} {} {}\n", tensor.name, int(tensor.format), fmt::join(tensor.shape, " "));
    if (checkpoint.files.empty()) contents.push_back(tensor.view);
  }
  contents.push_back({reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size()});
  return fmt::format("weights {}\ncontext {}\n", tiers::content_hash(contents), running.model.context);
}

void save_all(engine::Engine& engine, tiers::TieredStore& store) {
  if (!store.lasts()) return;
  while (engine.save_some() != engine::Engine::Saving::done) store.drain();
  store.drain();
}

}  // namespace heddle
