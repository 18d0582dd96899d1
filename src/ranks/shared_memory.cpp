// Every rank has two slots of values in turn: it writes into one, says that it has arrived, and reads those of the
// others when they have. A slot is written again two rounds later. No rank can still read it then, because to begin the
// round between, each has finished the one before.
#include "ranks/shared_memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "ranks/sums.h"

namespace heddle::ranks {
namespace {

constexpr size_t slot_values = 64 << 10;  // 256 KB: two for each of four ranks stay in a cache of 2 MB
constexpr size_t mail_values = 16 << 10;
constexpr uint32_t magic = 0x6864726b;

// A number that only grows, and those who sleep until it has. One rank adds to it.
struct alignas(64) Counter {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;

  void advance() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0)
      ::syscall(SYS_futex, &value, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  bool reached(uint32_t target) const { return int32_t(value.load(std::memory_order_acquire) - target) >= 0; }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share it");

struct alignas(64) SegmentHead {
  uint32_t magic, ranks;
};
// From one rank to another: two buffers in turn.
struct Mailbox {
  Counter sent, taken;
  float values[2][mail_values];
};
struct RankArea {
  Counter arrived;
  float slots[2][slot_values];
};

size_t segment_bytes(uint32_t ranks) {
  return sizeof(SegmentHead) + ranks * sizeof(RankArea) + size_t(ranks) * ranks * sizeof(Mailbox);
}

class SharedMemory : public model::Collective {
 public:
  SharedMemory(int descriptor, uint32_t rank, uint32_t ranks, Alarm& alarm, const Patience& patience, uint32_t first,
               uint32_t count)
      : first_(first),
        rank_(rank - first),
        ranks_(count),
        all_ranks_(ranks),
        alarm_(alarm),
        patience_(patience),
        sent_(count),
        received_(count) {
    check(first <= rank && rank - first < count && first + count <= ranks, "a rank of the group");
    struct stat about {};
    if (::fstat(descriptor, &about) != 0 || size_t(about.st_size) != segment_bytes(ranks))
      throw Error("memory of the group: expected {} bytes for {} ranks, found descriptor {} with {}",
                  segment_bytes(ranks), ranks, descriptor, about.st_size);
    void* at = ::mmap(nullptr, segment_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) throw Error("memory of the group: {}", std::strerror(errno));
    memory_ = static_cast<uint8_t*>(at);
    if (head().magic != magic || head().ranks != ranks) {
      const uint32_t found = head().ranks;
      ::munmap(memory_, segment_bytes(ranks));
      throw Error("memory of the group: expected that of {} ranks, found {}", ranks, found);
    }
    // where cores are fewer, a rank that spins takes the core of the one it waits for
    if (hardware_threads() >= ranks) spins_ = 4000;
  }
  ~SharedMemory() override { ::munmap(memory_, segment_bytes(all_ranks_)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return ranks_; }

  void sum(std::span<float> values) override {
    alarm_.expect_quiet();
    for (; ranks_ > 1 && !values.empty(); values = values.subspan(std::min(values.size(), slot_values)))
      sum_slot(values.first(std::min(values.size(), slot_values)));
  }

  void gather(std::span<const float> part, std::span<const uint64_t> sizes, std::span<float> all) override {
    alarm_.expect_quiet();
    check(sizes.size() == ranks_ && part.size() == sizes[rank_], "a size for every rank");
    const uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
    for (uint64_t first = 0; first < longest; first += slot_values) {
      const auto here = [&](uint64_t size) { return std::min<uint64_t>(size - std::min(size, first), slot_values); };
      std::copy_n(part.data() + std::min<uint64_t>(first, part.size()), here(part.size()), slot(rank_));
      meet();
      uint64_t at = 0;
      for (uint32_t rank = 0; rank < ranks_; at += sizes[rank++])
        if (here(sizes[rank]) > 0) std::copy_n(slot(rank), here(sizes[rank]), all.data() + at + first);
      ++round_;
    }
  }

  void send(uint32_t to, std::span<const float> values) override {
    Mailbox& box = mailbox(rank_, to);
    for (; !values.empty(); values = values.subspan(std::min(values.size(), mail_values))) {
      uint32_t& number = sent_[to];
      wait(box.taken, number - 1, to, patience_.pipeline);  // the buffer was used two messages before
      std::copy_n(values.data(), std::min(values.size(), mail_values), box.values[number % 2]);
      ++number;
      box.sent.advance();
    }
  }
  void receive(uint32_t from, std::span<float> values) override {
    Mailbox& box = mailbox(from, rank_);
    for (; !values.empty(); values = values.subspan(std::min(values.size(), mail_values))) {
      uint32_t& number = received_[from];
      wait(box.sent, number + 1, from, patience_.pipeline);
      std::copy_n(box.values[number % 2], std::min(values.size(), mail_values), values.data());
      ++number;
      box.taken.advance();
    }
  }

 private:
  SegmentHead& head() { return *reinterpret_cast<SegmentHead*>(memory_); }
  RankArea& area(uint32_t rank) { return reinterpret_cast<RankArea*>(memory_ + sizeof(SegmentHead))[first_ + rank]; }
  float* slot(uint32_t rank) { return area(rank).slots[round_ % 2]; }
  Mailbox& mailbox(uint32_t from, uint32_t to) {
    check(from < ranks_ && to < ranks_ && from != to, "two ranks of the group");
    uint8_t* boxes = memory_ + sizeof(SegmentHead) + all_ranks_ * sizeof(RankArea);
    return reinterpret_cast<Mailbox*>(boxes)[(first_ + from) * all_ranks_ + first_ + to];
  }

  void sum_slot(std::span<float> values) {
    std::copy_n(values.data(), values.size(), slot(rank_));
    meet();
    if (ranks_ == 2 || values.size() <= one_shot_values) {
      add_in_order(values, ranks_, [this](uint32_t rank) { return slot(rank); });
    } else {
      const ValueRange own = slice_of(values.size(), rank_, ranks_);
      add_in_order(values.subspan(own.first, own.count), ranks_, [&](uint32_t rank) { return slot(rank) + own.first; });
      std::copy_n(values.data() + own.first, own.count,
                  slot(rank_) + own.first);  // no other rank reads this slice of it
      meet();
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        const ValueRange slice = slice_of(values.size(), rank, ranks_);
        std::copy_n(slot(rank) + slice.first, slice.count, values.data() + slice.first);
      }
    }
    ++round_;
  }

  // All ranks have come as far.
  void meet() {
    area(rank_).arrived.advance();
    ++met_;
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      if (rank != rank_) wait(area(rank).arrived, met_, rank, patience_.collective);
  }

  void wait(Counter& counter, uint32_t target, uint32_t for_rank, double seconds) {
    for (uint32_t spin = 0; spin < spins_; ++spin) {
      if (counter.reached(target)) return;
#if defined(__aarch64__)
      asm volatile("isb" ::: "memory");  // about 10 ns; `yield` takes one cycle
#else
      __builtin_ia32_pause();
#endif
    }
    const auto start = Clock::now();
    counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (!counter.reached(target) && !alarm_.raised() && seconds_since(start) < seconds) {
      const uint32_t now = counter.value.load(std::memory_order_seq_cst);
      if (int32_t(now - target) >= 0) break;
      const timespec slice{.tv_sec = 0, .tv_nsec = 50'000'000};  // then it looks at the alarm
      ::syscall(SYS_futex, &counter.value, FUTEX_WAIT, now, &slice, nullptr, 0);
    }
    counter.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (counter.reached(target)) return;
    alarm_.expect_quiet();
    alarm_.raise(
        fmt::format("rank {} is late: rank {} has waited {} s for it", first_ + for_rank, first_ + rank_, seconds));
    alarm_.expect_quiet();
  }

  const uint32_t first_;         // of these ranks in the group
  const uint32_t rank_, ranks_;  // among these
  const uint32_t all_ranks_;     // of the group
  Alarm& alarm_;
  const Patience patience_;
  uint8_t* memory_ = nullptr;
  uint32_t spins_ = 0;
  uint32_t round_ = 0, met_ = 0;
  std::vector<uint32_t> sent_, received_;  // by rank
};

}  // namespace

int make_shared_memory(uint32_t ranks) {
  const int descriptor = ::memfd_create("heddle-ranks", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, off_t(segment_bytes(ranks))) != 0)
    throw Error("memory of the group: {} bytes: {}", segment_bytes(ranks), std::strerror(errno));
  const SegmentHead head{.magic = magic, .ranks = ranks};
  if (::pwrite(descriptor, &head, sizeof head, 0) != ssize_t(sizeof head))
    throw Error("memory of the group: {}", std::strerror(errno));
  return descriptor;
}

std::unique_ptr<model::Collective> open_shared_memory(int descriptor, uint32_t rank, uint32_t ranks, Alarm& alarm,
                                                      const Patience& patience, uint32_t first, uint32_t count) {
  return std::make_unique<SharedMemory>(descriptor, rank, ranks, alarm, patience, first, count ? count : ranks);
}

}  // namespace heddle::ranks
