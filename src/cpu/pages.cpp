// mmap and madvise.
#include "cpu/pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/error.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t large_page = 2 << 20;  // of x86-64, and of aarch64 with pages of 4 KiB

}  // namespace

Pages::Pages(uint64_t bytes, Size size) : bytes_(bytes) {
  if (bytes == 0) return;
  // A large page begins at a multiple of its size, and not every system begins mappings there.
  const uint64_t spare = size == Size::large && bytes >= large_page ? large_page : 0;
  void* memory =
      mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("out of memory: the system refuses {} bytes", bytes);
  data_ = static_cast<uint8_t*>(memory);
  if (spare) {
    const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), used = (bytes + page - 1) / page * page;
    const uint64_t before = (spare - reinterpret_cast<uint64_t>(memory) % spare) % spare, after = spare - before;
    if (before) munmap(data_, before);
    data_ += before;
    munmap(data_ + used, after);
  }
  if (spare) madvise(data_, bytes, MADV_HUGEPAGE);  // only a hint: refused, it is slower
}

void Pages::interleave(const std::vector<Node>& nodes) {
  if (!data_ || nodes.size() < 2) return;
  constexpr uint32_t bits = 64, max_node = 1024;  // the system has at most 1024 nodes
  std::vector<unsigned long> mask(max_node / bits);
  for (const Node& node : nodes)
    if (node.number < max_node) mask[node.number / bits] |= 1ul << node.number % bits;
  syscall(SYS_mbind, data_, bytes_, MPOL_INTERLEAVE, mask.data(), max_node + 1, 0);  // it counts one bit less
}

// Its mapping may be one with its neighbours': what it has of their large pages is at most its own size.
uint64_t Pages::bytes_in_large_pages() const {
  const uint64_t own_begin = reinterpret_cast<uint64_t>(data_), own_end = own_begin + bytes_;
  uint64_t sum = 0, begin = 0, end = 0;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t first = 0, last = 0, kilobytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &first, &last) == 2) {
      begin = first;
      end = last;
    } else if (begin < own_end && own_begin < end &&
               std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64 " kB", &kilobytes) == 1)
      sum += std::min(kilobytes << 10, std::min(end, own_end) - std::max(begin, own_begin));
  }
  return sum;
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
