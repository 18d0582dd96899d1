// A driver without a GPU, loaded in place of libcuda: memory is the host's, kernels are only recorded. Tests observe
// and control it through Control.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace heddle::fake {

struct LaunchRecord {
  std::string kernel;
  std::shared_ptr<const std::string> text;  // that was assembled
  uint32_t grid[3], block[3], cluster[3];   // cluster: zeros without the attribute
  uint32_t shared = 0;
  bool overlap = false;
  void* stream = nullptr;
  std::vector<std::byte> args;
};

struct Control {
  // --- how it behaves
  int devices = 1;
  int sm = 90, sms = 132;
  std::map<std::string, int> fail;          // call -> the code it returns from now on
  std::map<std::string, uint64_t> fail_at;  // with fail: only the n-th call counted from now, n = 1, 2, ...
  size_t free_bytes = 1 << 20;              // of device memory
  std::set<std::string> refused_texts;      // cubins of texts that contain one of these do not load
  uint32_t meet = 0;                        // cuLinkComplete waits (at most 5 s) until this many threads are inside it
  bool busy = false;                        // streams and events say that they are not ready
  std::function<void(const LaunchRecord&)> on_launch;
  std::function<void()> on_transfer;         // copies and fills, when they happen
  std::function<uint64_t(size_t)> allocate;  // empty: device memory is the heap's
  std::function<void(uint64_t)> give_back;   // with `allocate`
  bool pinned_as_device = false;             // pinned memory is from `allocate` too, so that kernels can reach it

  // --- what it saw
  std::vector<std::string> calls;  // names, in order
  std::vector<LaunchRecord> launches;
  size_t bytes_sent = 0, bytes_fetched = 0;      // by copies in streams, to and from the device
  std::map<uint64_t, std::string> live;          // handles not given back -> what they are
  int wrong_releases = 0;                        // of what was not live
  std::map<std::string, int> function_settings;  // "kernel attribute" -> value
  std::set<std::thread::id> linking_threads;
  uint32_t linking = 0, max_linking = 0;
  int lost = 0;                     // the code of a sticky error that was returned
  int retained = 0, opened = 0;     // contexts, and memory of other processes
  std::vector<int64_t> tensor_map;  // type, rank, sizes, strides, box, swizzle as received

  std::mutex mutex;

  size_t count(const std::string& call) {
    std::lock_guard lock(mutex);
    size_t n = 0;
    for (auto& c : calls) n += c == call;
    return n;
  }
};

}  // namespace heddle::fake

extern "C" heddle::fake::Control* fake_control();
extern "C" void fake_reset();
