// mmap, and the reasons why it may not be had.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace heddle {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, int error) {
  throw Error("{}: cannot be read: {}", path.string(), std::generic_category().message(error));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe would wait for a writer
  if (file.number < 0) refuse(path_, errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) refuse(path_, errno);
  if (!S_ISREG(status.st_mode))
    throw Error("{}: expected a file, found {}", path_.string(),
                S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse(path_, errno);
  data_ = static_cast<const uint8_t*>(address);
}

MappedFile::~MappedFile() {
  if (size_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace heddle
