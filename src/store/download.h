// One file from a server to FILE.part, by several connections, until its hash is right.
#pragma once
#include <atomic>
#include <filesystem>
#include <string>

#include "store/digest.h"
#include "store/http_client.h"

namespace heddle::store {

struct RemoteFile {
  std::string path;  // below the model's folder
  std::string url;
  std::string token;  // for the host of the URL; empty: none
  uint64_t bytes = 0;
  Digest digest;
};

struct DownloadOptions {
  HttpOptions http;
  RetryPolicy retries;
  unsigned connections = 4;         // at once
  uint64_t range_bytes = 64 << 20;  // of one request
  uint64_t record_bytes = 4 << 20;  // after that many, they are recorded
};

// `received` is set to the bytes of the file that are there, while they come. On return FILE.part is complete, flushed
// and has the digest of `file`. An interrupted download keeps what it has; one with a wrong hash is removed, and is an
// Error that names both hashes. `verified`, if there is one, gets the bytes that are hashed.
void download(const RemoteFile& file, const std::filesystem::path& final_path, const DownloadOptions& options,
              std::atomic<uint64_t>& received, std::atomic<uint64_t>* verified = nullptr);

}  // namespace heddle::store
