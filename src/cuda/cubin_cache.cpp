#include "cuda/cubin_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace heddle::cuda {

namespace fs = std::filesystem;

// --- hashes ---------------------------------------------------------------------------------------------------------
namespace {

// Little-endian on every machine, so that a folder can be shared between machines.
uint64_t word(const std::byte* from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t(from[i]) << (8 * i);
  return value;
}

uint64_t finish(uint64_t k) {
  k = (k ^ k >> 33) * 0xff51afd7ed558ccdull;
  k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53ull;
  return k ^ k >> 33;
}

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 murmur3(std::span<const std::byte> data, uint32_t seed) {
  constexpr uint64_t c1 = 0x87c37b91114253d5ull, c2 = 0x4cf5ad432745937full;
  auto mix1 = [](uint64_t k) { return std::rotl(k * c1, 31) * c2; };
  auto mix2 = [](uint64_t k) { return std::rotl(k * c2, 33) * c1; };
  uint64_t h1 = seed, h2 = seed;
  const size_t blocks = data.size() / 16;
  for (size_t i = 0; i < blocks; ++i) {
    const std::byte* block = data.data() + 16 * i;
    h1 ^= mix1(word(block, 8));
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= mix2(word(block + 8, 8));
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  const std::byte* tail = data.data() + 16 * blocks;
  const size_t rest = data.size() % 16;
  if (rest > 8) h2 ^= mix2(word(tail + 8, rest - 8));
  if (rest > 0) h1 ^= mix1(word(tail, rest < 8 ? rest : 8));

  h1 ^= data.size();
  h2 ^= data.size();
  h1 += h2;
  h2 += h1;
  h1 = finish(h1);
  h2 = finish(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

uint64_t fnv1a(std::span<const std::byte> data) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (std::byte b : data) h = (h ^ uint64_t(b)) * 0x100000001b3ull;
  return h;
}

// --- files ----------------------------------------------------------------------------------------------------------
namespace {

constexpr uint64_t magic = 0x4e49425543444548;  // "HEDCUBIN"
constexpr uint32_t format_version = 1;          // of the files and of what the key is made from
constexpr std::string_view suffix = ".cubin", temporary = ".tmp-";

struct Header {
  uint64_t magic, version;
  uint64_t key_high, key_low, key_check, key_bytes;
  uint64_t cubin_bytes, cubin_high, cubin_low;
  bool operator==(const Header&) const = default;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 72);

Header header_for(const CubinKey& key, std::span<const std::byte> cubin) {
  const Hash128 hash = murmur3(cubin);
  return {magic,         format_version, key.hash.high, key.hash.low, key.check,
          key.key_bytes, cubin.size(),   hash.high,     hash.low};
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

  bool read(void* to, size_t bytes) {
    for (char* at = static_cast<char*>(to); bytes;) {
      const ssize_t n = ::read(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }
  bool write(const void* from, size_t bytes) {
    for (const char* at = static_cast<const char*>(from); bytes;) {
      const ssize_t n = ::write(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }

 private:
  int fd_;
};

std::string system_text(int error) { return std::generic_category().message(error); }

// 32 hex digits and the suffix: other files in the folder are not ours.
bool is_entry(const std::string& name) {
  return name.size() == 32 + suffix.size() && name.ends_with(suffix) &&
         name.find_first_not_of("0123456789abcdef") == 32;
}

void append(std::vector<std::byte>& to, const std::string& text) {
  const uint64_t size = text.size();  // so that "a" + "bc" is not "ab" + "c"
  for (int i = 0; i < 8; ++i) to.push_back(std::byte(size >> (8 * i)));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  to.insert(to.end(), bytes, bytes + text.size());
}

}  // namespace

CubinKey CubinKey::of(const std::string& text, const std::string& target, const std::string& gpu,
                      const std::string& driver_version) {
  std::vector<std::byte> all;
  for (const std::string& part : {std::to_string(format_version), driver_version, gpu, target, text}) append(all, part);
  return {murmur3(all), fnv1a(all), all.size()};
}

// --- which folder ---------------------------------------------------------------------------------------------------
CubinCache CubinCache::from_environment() {
  if (const char* folder = getenv("HEDDLE_CACHE_DIR")) {
    if (!*folder) return off("HEDDLE_CACHE_DIR is empty");
    if (!std::strcmp(folder, "off")) return off("HEDDLE_CACHE_DIR is \"off\"");
    return CubinCache(fs::path(folder) / "cubin");
  }
  // a relative XDG_CACHE_HOME is to be ignored, says its specification
  if (const char* folder = getenv("XDG_CACHE_HOME"); folder && *folder == '/')
    return CubinCache(fs::path(folder) / "heddle" / "cubin");
  if (const char* home = getenv("HOME"); home && *home)
    return CubinCache(fs::path(home) / ".cache" / "heddle" / "cubin");
  return off("none of HEDDLE_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
}

CubinCache::CubinCache(fs::path folder, uint64_t cap) : folder_(std::move(folder)), cap_(cap) {}
CubinCache CubinCache::off(const std::string& reason) { return CubinCache(Off{}, reason); }

std::string CubinCache::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}
void CubinCache::note(const std::string& problem) {
  std::lock_guard lock(mutex_);
  if (problem_.empty()) problem_ = problem;
}
CubinCache::Counts CubinCache::counts() const { return {hits_, misses_, rejected_, written_, evicted_}; }
fs::path CubinCache::path(const CubinKey& key) const { return folder_ / (key.hash.hex() + std::string(suffix)); }

// --- entries --------------------------------------------------------------------------------------------------------
std::optional<std::vector<std::byte>> CubinCache::get(const CubinKey& key) {
  if (!is_on()) return std::nullopt;
  auto read = [&](File& file) -> std::optional<std::vector<std::byte>> {
    struct stat status {};
    Header header{};
    if (fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode) || size_t(status.st_size) < sizeof header)
      return std::nullopt;
    std::vector<std::byte> cubin(size_t(status.st_size) - sizeof header);
    if (!file.read(&header, sizeof header) || header.cubin_bytes != cubin.size() ||
        !file.read(cubin.data(), cubin.size()) || header != header_for(key, cubin))
      return std::nullopt;
    return cubin;
  };

  File file(open(path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::optional<std::vector<std::byte>> cubin;
  if (file && !(cubin = read(file))) ++rejected_;
  if (!cubin) {
    ++misses_;
    return cubin;
  }
  ++hits_;
  futimens(file.fd(), nullptr);  // marks it as used now, for trim(). If that fails, the entry only looks older.
  return cubin;
}

void CubinCache::put(const CubinKey& key, std::span<const std::byte> cubin) {
  if (!is_on()) return;
  if (cubin.size() + sizeof(Header) > cap_) {
    note(fmt::format("a cubin of {} bytes does not fit a cache of {}", cubin.size(), cap_));
    return;
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    note(fmt::format("cannot make the folder {}: {}", folder_.string(), error.message()));
    return;
  }
  // Under another name first: no reader, and no other writer of the same entry, ever sees half a file.
  std::string name = (folder_ / (std::string(temporary) + "XXXXXX")).string();
  File file(mkostemp(name.data(), O_CLOEXEC));
  if (!file) {
    note(fmt::format("cannot write in {}: {}", folder_.string(), system_text(errno)));
    return;
  }
  const Header header = header_for(key, cubin);
  if (!file.write(&header, sizeof header) || !file.write(cubin.data(), cubin.size()) || !file.close() ||
      rename(name.c_str(), path(key).c_str()) != 0) {
    note(fmt::format("cannot write {}: {}", path(key).string(), system_text(errno)));
    unlink(name.c_str());
    return;
  }
  ++written_;
}

void CubinCache::remove(const CubinKey& key) {
  if (!is_on()) return;
  std::error_code ignored;
  fs::remove(path(key), ignored);
}

void CubinCache::trim() {
  if (!is_on()) return;
  struct Entry {
    fs::path path;
    uint64_t bytes;
    timespec used;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  const time_t now = time(nullptr);
  std::error_code error;  // ignored: other processes write and remove at the same time
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    struct stat status {};
    if (lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (name.starts_with(temporary) && now - status.st_mtime > 3600) unlink(at->path().c_str());  // of a dead process
    if (!is_entry(name)) continue;
    entries.push_back({at->path(), uint64_t(status.st_size), status.st_mtim});
    total += uint64_t(status.st_size);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.path) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  for (const Entry& entry : entries) {
    if (total <= cap_) return;
    if (unlink(entry.path.c_str()) == 0) ++evicted_;
    total -= entry.bytes;
  }
}

}  // namespace heddle::cuda
