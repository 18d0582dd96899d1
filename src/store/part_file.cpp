#include "store/part_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>

#include "base/files.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_file(const fs::path& path, std::string_view what) {
  throw Error("{}: {}: {}", path.string(), what, std::generic_category().message(errno));
}

std::string first_line(std::string_view identity, uint64_t size) { return fmt::format("{} {}\n", identity, size); }

void write_fully(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_file(path, "cannot be written");
    text.remove_prefix(size_t(written));
  }
}

std::string text_of_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? std::string(MappedFile(path).text()) : std::string();
}

}  // namespace

void ByteRanges::add(ByteRange range) {
  if (range.begin >= range.end) return;
  auto at = ends_.upper_bound(range.begin);
  if (at != ends_.begin() && std::prev(at)->second >= range.begin) {
    --at;
    range.begin = at->first;
    range.end = std::max(range.end, at->second);
    at = ends_.erase(at);
  }
  while (at != ends_.end() && at->first <= range.end) {
    range.end = std::max(range.end, at->second);
    at = ends_.erase(at);
  }
  ends_[range.begin] = range.end;
}

uint64_t ByteRanges::total() const {
  uint64_t sum = 0;
  for (const auto& [begin, end] : ends_) sum += end - begin;
  return sum;
}

std::vector<ByteRange> ByteRanges::missing(uint64_t size) const {
  std::vector<ByteRange> gaps;
  uint64_t at = 0;
  for (const auto& [begin, end] : ends_) {
    if (begin > at) gaps.push_back({at, begin});
    at = end;
  }
  if (at < size) gaps.push_back({at, size});
  return gaps;
}

ByteRanges read_part_state(std::string_view text, std::string_view identity, uint64_t size) {
  ByteRanges ranges;
  const std::string first = first_line(identity, size);
  if (!text.starts_with(first)) return ranges;
  text.remove_prefix(first.size());
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    ByteRange range;
    const auto begin = std::from_chars(line.data(), line.data() + line.size(), range.begin);
    if (begin.ec != std::errc() || begin.ptr == line.data() + line.size() || *begin.ptr != ' ') break;
    const auto last = std::from_chars(begin.ptr + 1, line.data() + line.size(), range.end);
    if (last.ec != std::errc() || last.ptr != line.data() + line.size()) break;
    if (range.begin >= range.end || range.end > size) break;
    ranges.add(range);
  }
  return ranges;
}

fs::path PartFile::path_of(const fs::path& final_path) { return final_path.string() + ".part"; }
fs::path PartFile::state_of(const fs::path& final_path) { return final_path.string() + ".part.state"; }

uint64_t PartFile::present(const fs::path& final_path, uint64_t size, std::string_view identity) {
  std::error_code error;
  if (fs::file_size(path_of(final_path), error) != size || error) return 0;
  return read_part_state(text_of_file(state_of(final_path)), identity, size).total();
}

void PartFile::remove(const fs::path& final_path) {
  std::error_code ignored;
  fs::remove(path_of(final_path), ignored);
  fs::remove(state_of(final_path), ignored);
}

PartFile::PartFile(const fs::path& final_path, uint64_t size, std::string identity)
    : path_(path_of(final_path)), state_path_(state_of(final_path)), size_(size), identity_(std::move(identity)) {
  std::error_code error;
  if (fs::file_size(path_, error) == size && !error)
    ranges_ = read_part_state(text_of_file(state_path_), identity_, size);
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) refuse_file(path_, "cannot be written");
  state_ = ::open(state_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0666);
  if (state_ < 0) {
    ::close(file_);
    refuse_file(state_path_, "cannot be written");
  }
  try {
    if (ranges_.total() == 0) forget_all();
  } catch (...) {
    ::close(file_);
    ::close(state_);
    throw;
  }
}

PartFile::~PartFile() {
  ::close(file_);
  ::close(state_);
}

void PartFile::append_state(const std::string& text) { write_fully(state_, text, state_path_); }

void PartFile::forget_all() {
  const std::lock_guard lock(mutex_);
  ranges_ = {};
  if (::ftruncate(state_, 0) != 0) refuse_file(state_path_, "cannot be written");
  append_state(first_line(identity_, size_));
  if (::ftruncate(file_, off_t(size_)) != 0) refuse_file(path_, "cannot be written");
}

void PartFile::write(uint64_t at, std::span<const uint8_t> bytes) {
  check(at + bytes.size() <= size_, "what is written lies within the file");
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), off_t(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_file(path_, "cannot be written");
    at += uint64_t(written);
    bytes = bytes.subspan(size_t(written));
  }
}

void PartFile::record(ByteRange range) {
  if (range.begin >= range.end) return;
  const std::lock_guard lock(mutex_);
  ranges_.add(range);
  append_state(fmt::format("{} {}\n", range.begin, range.end));
}

std::vector<ByteRange> PartFile::missing() const {
  const std::lock_guard lock(mutex_);
  return ranges_.missing(size_);
}

void PartFile::flush() {
  if (::fsync(file_) != 0) refuse_file(path_, "cannot be flushed to disk");
}

}  // namespace heddle::store
