// Damage to what a store has on a disk.
#pragma once
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace heddle::tiers {

inline std::vector<std::filesystem::path> part_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() != ".unfinished" && entry.path().filename() != "lock")
      files.push_back(entry.path());
  return files;
}

inline void damage_byte(const std::filesystem::path& file, uint64_t at, int by) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(std::streamoff(at));
  const int byte = stream.get();
  stream.seekp(std::streamoff(at));
  stream.put(char(byte ^ by));
}

// Damages a file of the folder, or removes it, or cuts it off.
inline void damage_a_file(const std::filesystem::path& folder, std::mt19937_64& random) {
  const auto below = [&](uint64_t end) { return random() % end; };
  const std::vector<std::filesystem::path> files = part_files(folder);
  if (files.empty()) return;
  const std::filesystem::path& file = files[below(files.size())];
  std::error_code gone;
  const uint64_t size = std::filesystem::file_size(file, gone);
  if (gone || size == 0) return;
  if (below(3) == 0)
    std::filesystem::remove(file, gone);
  else if (below(2))
    std::filesystem::resize_file(file, below(size), gone);
  else
    damage_byte(file, below(size), int(1 + below(255)));
}

}  // namespace heddle::tiers
