// Hashes of files, as the places say them that models come from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace heddle::store {

// A file's hash, in hexadecimal digits. git hashes a header with the size first.
struct Digest {
  enum class Kind { sha256, git_sha1 };
  Kind kind = Kind::sha256;
  std::string hex;
  std::string text() const { return (kind == Kind::sha256 ? "sha256:" : "git:") + hex; }
  bool operator==(const Digest&) const = default;
};

// `on_read` is called with the bytes read so far; it may throw.
std::string digest_of(const std::filesystem::path& file, Digest::Kind kind,
                      const std::function<void(uint64_t)>& on_read = {});

}  // namespace heddle::store
