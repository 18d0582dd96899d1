// Which shape of a kernel is fastest on this GPU: the defaults, or what a search has found and kept on disk.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/product/product.h"

namespace heddle::gpu {

// Beside the folder of cubins, one file for GPUs of this kind.
std::filesystem::path tuning_file(const std::filesystem::path& folder, const cuda::DeviceInfo& device);

// Attention has a shape for sequences of up to so many positions, one for up to so many, and one for longer ones.
inline constexpr uint32_t short_length = 1024, middle_length = 8192;

class Tuning {
 public:
  // What the file holds, if it is there and whole; lines that no longer fit are left out. An empty path: nothing.
  explicit Tuning(std::filesystem::path file = {});

  kernels::ProductChoice choice(const kernels::Product& what, uint32_t rows, uint32_t cols, bool large);
  kernels::ClusterChoice attention(uint32_t head, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms);

  // A search goes through the kernels that were asked for since begin_search(), one after the other: each has
  // candidates, of which one is in force.
  struct Search {
    std::string key;  // what it is for, in words
    size_t candidates = 0;
    size_t in_force = 0;
  };
  void begin_search();
  std::vector<Search> searches() const;
  void set(const std::string& key, size_t candidate);
  // Keeps what is in force, in the file. False if it could not be written.
  bool save() const;
  const std::filesystem::path& file() const { return file_; }
  size_t known() const { return products_.size() + attentions_.size(); }

 private:
  struct Entry {
    std::vector<std::string> candidates;  // as lines of the file have them
    size_t in_force = 0;
  };
  std::filesystem::path file_;
  std::map<std::string, std::string> products_, attentions_;  // from the file, or in force
  bool searching_ = false;
  std::map<std::string, Entry> entries_;
};

}  // namespace heddle::gpu
