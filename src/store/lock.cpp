#include "store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "store/http_client.h"

namespace heddle::store {
namespace {

pid_t owner_of(int file) {
  char text[32] = {};
  const ssize_t size = ::pread(file, text, sizeof text - 1, 0);
  return size > 0 ? pid_t(std::atol(text)) : 0;
}

// The one before may have removed the file that was waited for.
bool is_still(const std::filesystem::path& path, int file) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, const std::function<void(pid_t)>& on_wait,
                       const std::atomic<bool>* stop)
    : folder_(folder), path_(folder / ".lock") {
  bool told = false;
  for (;;) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw Error("{}: cannot be created: {}", folder_.string(), error.message());
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) {
      if (errno == ENOENT) continue;  // the folder has just been removed
      throw Error("{}: cannot be written: {}", path_.string(), std::generic_category().message(errno));
    }
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      if (reason != EWOULDBLOCK && reason != EINTR) {
        ::close(file_);
        throw Error("{}: cannot be locked: {}", path_.string(), std::generic_category().message(reason));
      }
      if (!std::exchange(told, true) && on_wait) on_wait(owner_of(file_));
      if (stop && *stop) {
        ::close(file_);
        throw HttpStopped();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (is_still(path_, file_)) break;
    ::close(file_);
  }
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, text.data(), text.size(), 0) < 0) return;  // only a courtesy
}

FolderLock::~FolderLock() { ::close(file_); }

void FolderLock::remove_empty_folder() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
    if (entry.path() != path_) return;
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
}

}  // namespace heddle::store
