// Bounds for what other machines say: what is beyond them is refused, not believed.
#pragma once
#include <cstdint>

namespace heddle::store {

inline constexpr uint64_t max_file_bytes = uint64_t(1) << 44;  // 17 TB, tens of times the largest model
inline constexpr uint64_t max_list_bytes = 32 << 20;           // of a list of files
inline constexpr uint64_t max_manifest_bytes = 4 << 20;
inline constexpr uint64_t max_files = 20'000;  // of a repository

}  // namespace heddle::store
