// Mappings, and temporary names in the same folder, so that the rename is atomic.
#include "base/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace heddle {
namespace {

[[noreturn]] void refuse_to_read(const std::filesystem::path& path, int error) {
  throw Error("{}: cannot be read: {}", path.string(), std::generic_category().message(error));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// The names of unfinished files, where a signal handler can read them: it may not allocate or lock.
struct Slot {
  std::atomic<bool> taken = false, ready = false;
  char path[PATH_MAX];
};
std::array<Slot, 16> slots;

std::optional<size_t> take_slot(const std::filesystem::path& path) {
  const std::string& name = path.native();
  if (name.size() >= PATH_MAX) return std::nullopt;  // open() refuses it as well
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].taken.exchange(true)) continue;
    std::memcpy(slots[i].path, name.c_str(), name.size() + 1);
    slots[i].ready = true;
    return i;
  }
  return std::nullopt;  // more at once than any command has: signals leave this one
}

void remove_and_end(int signal) {
  for (const Slot& slot : slots)
    if (slot.ready) ::unlink(slot.path);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// What is mapped, for the handler of SIGBUS.
struct Mapping {
  std::atomic<bool> taken = false;
  std::atomic<const char*> path = nullptr;  // null: not ready
  const uint8_t* begin = nullptr;
  size_t size = 0;
};
std::array<Mapping, 256> mappings;

std::optional<size_t> take_mapping(const char* path, const uint8_t* begin, size_t size) {
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (mappings[i].taken.exchange(true)) continue;
    mappings[i].begin = begin;
    mappings[i].size = size;
    mappings[i].path = path;
    return i;
  }
  return std::nullopt;  // a model in more files than that: SIGBUS has no explanation for some
}

void say(const char* text) {
  pollfd reader{.fd = STDERR_FILENO, .events = POLLOUT};
  constexpr int patience_ms = 1000;  // for a reader that is stuck
  if (::poll(&reader, 1, patience_ms) > 0 && ::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void explain_and_end(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  for (const Mapping& one : mappings) {
    const char* path = one.path;
    if (!path || address < one.begin || address >= one.begin + one.size) continue;
    say("heddle: ");
    say(path);
    say(": cannot be read any more: it was truncated or replaced in place while it was in use, or its disk fails\n");
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

bool is_taken(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

// As rename(), but fails with EEXIST where there is a file. File systems that cannot promise that take a plain rename.
int rename_to_new(const char* from, const char* to) {
  const long result = ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return int(result);
  if (!is_taken(to)) return ::rename(from, to);
  errno = EEXIST;
  return -1;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe would wait for a writer
  if (file.number < 0) refuse_to_read(path_, errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) refuse_to_read(path_, errno);
  if (!S_ISREG(status.st_mode))
    throw Error("{}: expected a file, found {}", path_.string(),
                S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse_to_read(path_, errno);
  data_ = static_cast<const uint8_t*>(address);
  slot_ = take_mapping(path_.c_str(), data_, size_);
}

MappedFile::~MappedFile() {
  if (slot_) {
    mappings[*slot_].path = nullptr;
    mappings[*slot_].taken = false;
  }
  if (size_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::explain_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = explain_and_end;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

OutputFile::OutputFile(std::filesystem::path path, Existing existing)
    : path_(std::move(path)), unfinished_(path_), existing_(existing) {
  static std::atomic<unsigned> count{0};  // two of one process do not share a temporary name
  unfinished_ += fmt::format(".part-{}-{}", ::getpid(), count++);
  // The rename would put a file in the place of a device or a folder; what cannot be looked at, opening reports.
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("{}: expected a file to write, found {}", path_.string(),
                std::filesystem::is_directory(status) ? "a folder" : "a device or pipe");
  if (path_.empty()) throw Error("expected the name of a file to write, found an empty one");
  if (existing_ == Existing::refuse && is_taken(path_))
    throw Error("{}: expected a new file, found one that is there already", path_.string());
  slot_ = take_slot(unfinished_);
  file_ = ::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ >= 0) return;
  const int reason = errno;
  close();
  errno = reason;
  refuse("cannot be written");
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::unlink(unfinished_.c_str());
  close();
}

void OutputFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  if (!slot_) return;
  slots[*slot_].ready = false;
  slots[*slot_].taken = false;
  slot_.reset();
}

void OutputFile::remove_on_signals() {
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);  // nohup ignores SIGHUP
  }
}

void OutputFile::refuse(std::string_view what) {
  throw Error("{}: {}: {}", path_.string(), what, std::generic_category().message(errno));
}

void OutputFile::write(std::span<const uint8_t> bytes) {
  check(file_ >= 0, "nothing is written after commit()");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), 1u << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      refuse(fmt::format("writing failed after {} bytes", size_));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    size_ += static_cast<uint64_t>(written);
  }
}

void OutputFile::write(std::string_view text) {
  write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

void OutputFile::pad_to(uint64_t multiple) {
  static constexpr uint8_t zeros[4096] = {};
  for (uint64_t left = (multiple - size_ % multiple) % multiple; left > 0;) {
    const uint64_t now = std::min<uint64_t>(left, sizeof zeros);
    write(std::span(zeros, now));
    left -= now;
  }
}

void OutputFile::commit() {
  check(file_ >= 0, "commit() is called once");
  if (::fsync(file_) != 0) refuse("cannot be flushed to disk");
  const bool replace = existing_ == Existing::replace;
  if ((replace ? ::rename : rename_to_new)(unfinished_.c_str(), path_.c_str()) != 0) refuse("cannot be put in place");
  close();
}

}  // namespace heddle
