// A file on its way: FILE.part, filled in any order, and FILE.part.state, which says what of it is there, so that a
// download goes on where it was interrupted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/http_client.h"

namespace heddle::store {

// What of a file is there: ranges that neither touch nor overlap.
class ByteRanges {
 public:
  void add(ByteRange range);
  uint64_t total() const;
  std::vector<ByteRange> missing(uint64_t size) const;  // in order
  const std::map<uint64_t, uint64_t>& all() const { return ends_; }

 private:
  std::map<uint64_t, uint64_t> ends_;  // begin -> end
};

// FILE.part.state: a line that says which file it is, then a line "BEGIN END" for each range. A line that is cut off or
// beyond the file ends the list; nothing that is wrong here costs more than downloading again.
ByteRanges read_part_state(std::string_view text, std::string_view identity, uint64_t size);

class PartFile {
 public:
  // `identity` is the hash of the whole: what was left of another file is discarded. Throws an Error.
  PartFile(const std::filesystem::path& final_path, uint64_t size, std::string identity);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  static std::filesystem::path path_of(const std::filesystem::path& final_path);
  static std::filesystem::path state_of(const std::filesystem::path& final_path);
  // Bytes that are there, without opening it for writing.
  static uint64_t present(const std::filesystem::path& final_path, uint64_t size, std::string_view identity);
  static void remove(const std::filesystem::path& final_path);

  // Any thread may call these.
  void write(uint64_t at, std::span<const uint8_t> bytes);
  void record(ByteRange range);  // written: the next attempt need not ask for it
  void forget_all();             // from the beginning
  std::vector<ByteRange> missing() const;

  void flush();  // to the disk

 private:
  void append_state(const std::string& text);

  std::filesystem::path path_, state_path_;
  uint64_t size_;
  std::string identity_;
  int file_ = -1, state_ = -1;
  mutable std::mutex mutex_;  // guards what follows
  ByteRanges ranges_;
};

}  // namespace heddle::store
