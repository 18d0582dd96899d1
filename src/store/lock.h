// A folder of the store that one process changes at a time.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <functional>

namespace heddle::store {

// Holds FOLDER/.lock, which says the process that has it; the lock ends with the process, whatever happens to it.
class FolderLock {
 public:
  // Creates the folder. While another process has the lock, it calls `on_wait` once with that process (0: unknown) and
  // waits; HttpStopped when `stop` is set meanwhile.
  FolderLock(const std::filesystem::path& folder, const std::function<void(pid_t)>& on_wait,
             const std::atomic<bool>* stop);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Removes the lock's file, and the folder if nothing else is in it.
  void remove_empty_folder();

 private:
  std::filesystem::path folder_, path_;
  int file_ = -1;
};

}  // namespace heddle::store
