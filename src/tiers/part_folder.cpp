// Files are removed by the thread that needs their room. A file that is being read may be removed: its bytes stay until
// it is closed.
#include "tiers/part_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "tiers/part_file.h"

namespace heddle::tiers {
namespace {

using engine::KvKey;

constexpr std::string_view unfinished = ".unfinished";

std::string why() { return std::generic_category().message(errno); }

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

void write_all(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}", why());
    bytes = bytes.subspan(size_t(count));
  }
}

void read_all(int file, std::span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t count = ::read(file, to.data(), to.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}", why());
    if (count == 0) throw Error("it ends too early");
    to = to.subspan(size_t(count));
  }
}

}  // namespace

PartFolder::PartFolder(std::filesystem::path folder, uint64_t capacity, double patience)
    : folder_(std::move(folder)), capacity_(capacity) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw Error("{}: the folder cannot be made: {}", folder_.string(), error.message());
  lock_folder(patience);
  scan();
  make_room(0);
}

PartFolder::~PartFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void PartFolder::lock_folder(double patience) {
  const std::filesystem::path path = folder_ / "lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw Error("{}: cannot be written: {}", path.string(), why());
  for (const auto start = Clock::now(); ::flock(lock_, LOCK_EX | LOCK_NB) != 0;) {
    if (seconds_since(start) < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    ::close(std::exchange(lock_, -1));
    throw Error("{}: another process keeps its KV cache in this folder", folder_.string());
  }
}

// By the time of their last use, which is that of their last change.
void PartFolder::scan() {
  struct File {
    KvKey key;
    uint64_t bytes;
    std::filesystem::file_time_type used;
  };
  std::vector<File> files;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(folder_, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const std::string name = it->path().filename().string();
    File file{};
    if (name.ends_with(unfinished)) std::filesystem::remove(it->path(), gone);
    if (!read_part_name(name, file.key) || it->path() != path_of(file.key)) continue;
    file.bytes = it->file_size(gone);
    if (!gone) file.used = it->last_write_time(gone);
    if (!gone) files.push_back(file);
  }
  if (error) throw Error("{}: cannot be read: {}", folder_.string(), error.message());
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) add(file.key, file.bytes);
}

std::filesystem::path PartFolder::path_of(const KvKey& key) const {
  const std::string name = part_name(key);
  return folder_ / name.substr(0, 2) / name;
}

bool PartFolder::has(const KvKey& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

uint64_t PartFolder::size_of(const KvKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second.bytes - std::min<uint64_t>(found->second.bytes, part_header_bytes);
}

void PartFolder::write(const KvKey& key, std::span<const uint8_t> bytes) {
  const uint64_t all = bytes.size() + part_header_bytes;
  if (all > capacity_ || has(key)) return;
  make_room(all);
  const std::filesystem::path path = path_of(key), temporary = path.string() + std::string(unfinished);
  const auto refuse = [&](const std::string& reason) {
    ::unlink(temporary.c_str());
    throw Error("{}: cannot be written: {}", path.string(), reason);
  };
  std::error_code error;
  std::filesystem::create_directory(path.parent_path(), error);
  {
    const Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.number < 0) refuse(why());
    try {
      write_all(file.number, part_header(key, bytes));
      write_all(file.number, bytes);
    } catch (const Error& failed) {
      refuse(failed.what());
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) refuse(why());
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(key)) add(key, all);
}

bool PartFolder::read(const KvKey& key, std::span<uint8_t> to) {
  if (!has(key)) return false;
  const std::filesystem::path path = path_of(key);
  try {
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat about {};
    if (file.number < 0 || ::fstat(file.number, &about) != 0) throw Error("{}", why());
    PartHeader header;
    read_all(file.number, header);
    const PartFile found = read_part_header(header, uint64_t(about.st_size));
    if (found.bytes != to.size()) throw Error("expected {} bytes, found {}", to.size(), found.bytes);
    read_all(file.number, to);
    expect_part(found, key, to);
    ::futimens(file.number, nullptr);  // it may fail: then the part counts as used when it was written
  } catch (const Error& error) {
    forget(key);
    throw Error("{}: {}", path.string(), error.what());
  }
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(key); entry != entries_.end())
    by_use_.splice(by_use_.end(), by_use_, entry->second.use);
  return true;
}

std::vector<KvKey> PartFolder::keys() const {
  const std::lock_guard lock(mutex_);
  return {by_use_.begin(), by_use_.end()};
}

uint64_t PartFolder::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

uint64_t PartFolder::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void PartFolder::add(const KvKey& key, uint64_t bytes) {
  entries_.emplace(key, Entry{bytes, by_use_.insert(by_use_.end(), key)});
  bytes_ += bytes;
}

// It is removed before it can be written anew.
void PartFolder::forget(const KvKey& key) {
  const std::lock_guard lock(mutex_);
  ::unlink(path_of(key).c_str());
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  bytes_ -= found->second.bytes;
  by_use_.erase(found->second.use);
  entries_.erase(found);
}

void PartFolder::make_room(uint64_t bytes) {
  while (true) {
    KvKey oldest;
    {
      const std::lock_guard lock(mutex_);
      if (by_use_.empty() || bytes_ + bytes <= capacity_) return;
      oldest = by_use_.front();
    }
    forget(oldest);
  }
}

}  // namespace heddle::tiers
