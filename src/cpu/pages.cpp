// mmap and madvise.
#include "cpu/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/error.h"

namespace heddle::cpu {

Pages::Pages(uint64_t bytes, Size size) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("out of memory: the system refuses {} bytes", bytes);
  data_ = static_cast<uint8_t*>(memory);
  if (size == Size::large) madvise(memory, bytes, MADV_HUGEPAGE);  // only a hint: refused, it is slower
}

Pages::~Pages() {
  if (data_) munmap(data_, bytes_);
}

FileMappings::FileMappings() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0, inode = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64, &begin, &end, access, &inode) == 4 &&
        inode != 0 && access[1] == '-')
      ranges_.emplace_back(begin, end);
  }
}

void FileMappings::release(std::span<const uint8_t> range) const {
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), address = reinterpret_cast<uint64_t>(range.data());
  const uint64_t begin = (address + page - 1) / page * page, end = (address + range.size()) / page * page;
  for (const auto& [from, to] : ranges_)
    if (begin < end && from <= begin && end <= to)
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // if it fails, memory is the only loss
}

}  // namespace heddle::cpu
