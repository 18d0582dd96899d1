// A temporary name in the same folder, so that the rename is atomic.
#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace heddle {

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)), part_(path_) {
  static std::atomic<unsigned> count{0};  // two of one process do not share a temporary name
  part_ += fmt::format(".part-{}-{}", ::getpid(), count++);
  // The rename would put a file in the place of a device or a folder; what cannot be looked at, opening reports.
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("{}: expected a file to write, found {}", path_.string(),
                std::filesystem::is_directory(status) ? "a folder" : "a device or pipe");
  if (path_.empty()) throw Error("expected the name of a file to write, found an empty one");
  file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) refuse("cannot be written");
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(part_.c_str());
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
  if (::rename(part_.c_str(), path_.c_str()) != 0) refuse("cannot be put in place");
  ::close(file_);
  file_ = -1;
}

}  // namespace heddle
