// The heap while a test runs: every allocation of a cache line or more ends where a page begins that cannot be touched.
// A kernel that reads or writes behind its memory stops the tests with a signal, with all instructions as they are
// shipped. Builds with sanitizers leave this file out: they have a heap of their own.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

namespace {

constexpr size_t smallest = 64, alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
constexpr uint64_t reserved = 1ull << 42;  // bytes of addresses: far more than these tests ask for
constexpr uint64_t kept_pages = 1 << 14;   // of this many pages or fewer, what is given back is taken again
constexpr uint64_t mark = 0x6865646466656e63;

// Stands before what was asked for; between the end of that and the fence are fewer than `alignment` bytes.
struct Header {
  uint64_t mark;
  uint64_t size;
};
static_assert(sizeof(Header) == alignment);

class FencedHeap {
 public:
  FencedHeap() {
    void* pages = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages != MAP_FAILED) begin_ = static_cast<uint8_t*>(pages);
  }

  void* allocate(size_t size) {
    if (size < smallest || size > reserved / 2 || !begin_) return std::malloc(size);
    const uint64_t pages = pages_of(size);
    uint8_t* const first = take(pages);
    if (!first) return std::malloc(size);
    uint8_t* const result = first + pages * page_ - padded(size);
    const Header header{mark, size};
    std::memcpy(result - sizeof header, &header, sizeof header);
    std::memset(result + size, filling, padded(size) - size);
    return result;
  }

  void give_back(void* p) {
    if (!begin_ || p < begin_ || p >= begin_ + reserved) return std::free(p);
    uint8_t* const begin = static_cast<uint8_t*>(p);
    Header header;
    std::memcpy(&header, begin - sizeof header, sizeof header);
    if (header.mark != mark ||
        !std::all_of(begin + header.size, begin + padded(header.size), [](uint8_t byte) { return byte == filling; })) {
      std::fprintf(stderr, "bytes before or behind an allocation were written\n");
      std::abort();
    }
    const uint64_t pages = pages_of(header.size);
    uint8_t* const first = begin + padded(header.size) - pages * page_;
    if (pages > kept_pages)  // one call that forgets the pages and closes them
      mmap(first, pages * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else
      keep(first, pages);
  }

 private:
  static constexpr uint8_t filling = 0xa5;
  static uint64_t padded(uint64_t size) { return (size + alignment - 1) / alignment * alignment; }
  // A power of two: there are few sizes, which are taken again the more often.
  uint64_t pages_of(uint64_t size) const { return std::bit_ceil((padded(size) + sizeof(Header) + page_ - 1) / page_); }

  // Pages before a fence, or null.
  uint8_t* take(uint64_t pages) {
    const std::lock_guard lock(mutex_);
    if (uint8_t*& kept = kept_[std::countr_zero(pages)]; pages <= kept_pages && kept)
      return std::exchange(kept, next_of(kept));
    const uint64_t with_fence = (pages + 1) * page_;
    if (with_fence > reserved - used_) return nullptr;
    uint8_t* const first = begin_ + used_;
    if (mprotect(first, pages * page_, PROT_READ | PROT_WRITE) != 0) return nullptr;  // the system has no more of them
    used_ += with_fence;
    return first;
  }
  void keep(uint8_t* first, uint64_t pages) {
    const std::lock_guard lock(mutex_);
    uint8_t*& kept = kept_[std::countr_zero(pages)];
    next_of(first) = std::exchange(kept, first);
  }
  // Of the pages that are kept, each has the next one's address at its beginning.
  static uint8_t*& next_of(uint8_t* first) { return *reinterpret_cast<uint8_t**>(first); }

  const uint64_t page_ = uint64_t(sysconf(_SC_PAGESIZE));
  uint8_t* begin_ = nullptr;
  uint64_t used_ = 0;
  uint8_t* kept_[64] = {};  // by the logarithm of their number
  std::mutex mutex_;
};

FencedHeap& heap() {
  static FencedHeap& one = *new (std::malloc(sizeof(FencedHeap))) FencedHeap;
  return one;
}

std::atomic<bool> fenced = false;

class Switch : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    fenced = test.test_suite_name() != std::string_view("CpuMemory");
  }
  void OnTestEnd(const testing::TestInfo&) override { fenced = false; }
};
const bool is_switched = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Switch);
  return true;
}();

void* allocate(size_t size) {
  if (void* p = fenced ? heap().allocate(size) : std::malloc(size)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* p) noexcept { heap().give_back(p); }
void operator delete[](void* p) noexcept { heap().give_back(p); }
void operator delete(void* p, size_t) noexcept { heap().give_back(p); }
void operator delete[](void* p, size_t) noexcept { heap().give_back(p); }

namespace heddle::cpu {
namespace {

TEST(FencedMemoryDeathTest, EndsWhatReadsOrWritesBehindIt) {
  GTEST_FLAG_SET(death_test_style, "fast");  // the other starts a program that has no listeners
  std::unique_ptr<volatile uint8_t[]> values(new volatile uint8_t[96]());
  volatile uint8_t* const begin = values.get();
  EXPECT_EQ(begin[95], 0);
  EXPECT_DEATH((void)begin[96], "");
  std::unique_ptr<volatile uint8_t[]> odd(new volatile uint8_t[101]());
  EXPECT_DEATH(
      {
        odd[101] = 8;
        odd.reset();
      },
      "were written");
}

}  // namespace
}  // namespace heddle::cpu
