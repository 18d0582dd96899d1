#include "cuda/device.h"

#include <algorithm>
#include <array>

#include "cuda/driver.h"
#include "cuda/error.h"

namespace heddle::cuda {

namespace {

std::string uuid_text(const std::array<uint8_t, 16>& bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

// The limits of a GPU of each target, from the CUDA programming guide.
struct Limits {
  const char* target;
  uint32_t sm;
  uint32_t shared_per_block, shared_per_sm;  // KB
  uint32_t threads_per_sm, blocks_per_sm;
};
constexpr std::array known_limits{
    Limits{"sm_75", 75, 64, 64, 1024, 16},    Limits{"sm_80", 80, 163, 164, 2048, 32},
    Limits{"sm_86", 86, 99, 100, 1536, 16},   Limits{"sm_89", 89, 99, 100, 1536, 24},
    Limits{"sm_90", 90, 227, 228, 2048, 32},  Limits{"sm_100", 100, 227, 228, 2048, 32},
    Limits{"sm_120", 120, 99, 100, 1536, 24},
};
const Limits* treated_as = nullptr;

void apply(const Limits& as, DeviceInfo& info) {
  constexpr uint32_t clusters = 90;  // have all that kernels for newer GPUs use
  if (as.sm > info.sm && info.sm < clusters)
    throw NoDevice(fmt::format("GPU {} ({}) has compute capability {}.{} and cannot be treated as {}", info.ordinal,
                               info.name, info.sm / 10, info.sm % 10, as.target));
  info.sm = std::min(info.sm, as.sm);
  info.specific = false;
  auto limit = [](uint32_t& value, uint32_t to) { value = std::min(value, to); };
  limit(info.shared_per_block_optin, as.shared_per_block * 1024);
  limit(info.shared_per_sm, as.shared_per_sm * 1024);
  limit(info.threads_per_sm, as.threads_per_sm);
  limit(info.blocks_per_sm, as.blocks_per_sm);
}

}  // namespace

void treat_gpus_as(const std::string& target) {
  treated_as = nullptr;
  if (target.empty()) return;
  std::string names;
  for (const Limits& one : known_limits) {
    if (one.target == target) {
      treated_as = &one;
      return;
    }
    names += (names.empty() ? "" : ", ") + std::string(one.target);
  }
  throw Error("GPUs cannot be treated as \"{}\": expected one of {}", target, names);
}

int device_count(const Driver& api) {
  int count = 0;
  const int result = api.device_count(&count);
  if (result != code::success) throw NoDevice(fmt::format("no GPU: {}: {}", api.device_count.name, api.reason(result)));
  if (count <= 0) throw NoDevice("no GPU: the driver finds none");
  return count;
}

DeviceInfo describe(const Driver& api, int ordinal) {
  auto call = [&](const auto& function, auto... args) {
    const int result = function(args...);
    if (result != code::success)
      throw NoDevice(fmt::format("GPU {} cannot be used: {}: {}", ordinal, function.name, api.reason(result)));
  };
  int device = 0;
  call(api.device_get, &device, ordinal);
  auto attribute = [&](int which) {
    int value = 0;
    call(api.device_attribute, &value, which, device);
    return uint32_t(value);
  };
  namespace attr = device_attribute;

  DeviceInfo info;
  info.ordinal = uint32_t(ordinal);
  std::array<char, 256> name{};
  call(api.device_name, name.data(), int(name.size() - 1), device);
  info.name = name.data();
  info.sm = 10 * attribute(attr::capability_major) + attribute(attr::capability_minor);
  info.own_sm = info.sm;
  info.sms = attribute(attr::sms);
  size_t memory = 0;
  call(api.device_memory, &memory, device);
  info.memory = memory;
  info.l2_bytes = attribute(attr::l2_bytes);
  info.shared_per_block = attribute(attr::shared_per_block);
  info.shared_per_block_optin = attribute(attr::shared_per_block_optin);
  info.shared_per_sm = attribute(attr::shared_per_sm);
  info.registers_per_sm = attribute(attr::registers_per_sm);
  info.threads_per_sm = attribute(attr::threads_per_sm);
  info.blocks_per_sm = attribute(attr::blocks_per_sm);
  info.clock_khz = attribute(attr::clock_khz);
  info.memory_clock_khz = attribute(attr::memory_clock_khz);
  info.bus_width = attribute(attr::bus_width);
  info.integrated = attribute(attr::integrated) != 0;
  info.ecc = attribute(attr::ecc) != 0;
  std::array<char, 32> pci{};
  call(api.device_pci, pci.data(), int(pci.size() - 1), device);
  info.pci = pci.data();
  std::array<uint8_t, 16> uuid{};
  call(api.device_uuid, static_cast<void*>(uuid.data()), device);
  info.uuid = uuid_text(uuid);
  if (treated_as) apply(*treated_as, info);
  return info;
}

std::vector<DeviceInfo> devices() {
  const Driver& api = initialised_driver();
  std::vector<DeviceInfo> all;
  for (int i = 0, count = device_count(api); i < count; ++i) all.push_back(describe(api, i));
  return all;
}

std::string driver_version() { return driver().version_text(); }

}  // namespace heddle::cuda
