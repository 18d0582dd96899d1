// mmap.
#include "cpu/pages.h"

#include <sys/mman.h>

#include "base/error.h"

namespace heddle::cpu {

Pages::Pages(uint64_t bytes, Size size) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("the system has no memory for {} bytes", bytes);
  data_ = static_cast<uint8_t*>(memory);
  if (size == Size::large) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it all is the same, but slower
}

Pages::~Pages() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace heddle::cpu
