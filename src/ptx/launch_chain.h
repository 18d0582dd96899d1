// Launches that may overlap (programmatic dependent launch), interpreted one after the other: what a kernel touches in
// global memory while an earlier launch may still run is reported.
//
// Which launches may still run. A launch that does not overlap starts when everything before it has ended. A launch
// that overlaps starts as soon as every block of the launch before it has called launch_dependents or has ended, and
// its `grid_wait` returns when that launch has ended and its writes are visible. So:
//
// - After a thread's wait, or after a barrier that orders it behind another thread's wait, nothing earlier runs: the
//   launch before has ended, and it had waited for the one before it, and so on. (A launch that overlaps and in which
//   no thread waits would break this; it is reported.)
// - Before the wait of launch N, launch N - 1 may run. If every block of N - 1 may call launch_dependents before it
//   waits itself, then whatever might run before N - 1 waited may run too. If one block calls it only after its wait
//   (or not at all), N starts after that wait, and only N - 1 may run.
//
// What is reported, byte by byte: a read before the wait of what one of these launches writes, and a write before the
// wait of what one of them reads or writes. A load through the read-only path (ld.global.nc) counts as one before the
// wait wherever it stands: its data must not change while the kernel runs, and the kernel runs before it waits.
// Prefetches are not accesses: nothing is read that a later write would not replace.
#pragma once
#include <array>
#include <deque>
#include <string>
#include <unordered_map>

#include "ptx/interpret.h"

namespace heddle::ptx {

// A set of bytes of global memory.
class ByteSet {
 public:
  ByteSet() = default;
  ByteSet(ByteSet&&) = default;  // no copies: `last_` points into the set
  ByteSet& operator=(ByteSet&&) = default;
  void add(uint64_t address, uint64_t bytes);
  void add(const ByteSet& other);
  bool meets(uint64_t address, uint64_t bytes) const;  // whether any of them is in the set

 private:
  static constexpr uint64_t page_bytes = 4096;
  using Page = std::array<uint64_t, page_bytes / 64>;  // a bit per byte
  std::unordered_map<uint64_t, Page> pages_;           // by address / page_bytes
  uint64_t last_number_ = ~uint64_t(0);                // of the page that was added to last
  Page* last_ = nullptr;
};

enum class GlobalAccess : uint8_t { read, read_only, write };  // read_only: ld.global.nc; an atomic is a write

class LaunchChain {
 public:
  // Interprets a launch. `overlaps`: it may start before the launch before it has ended.
  InterpretStats launch(const Lowered& kernel, Grid grid, const void* args, size_t args_bytes, Memory& memory,
                        bool overlaps, const InterpretOptions& options = {});
  // The same in two parts, for launches that are interpreted together, each in a chain of its own: between them runs
  // interpret_together() with this as InterpretOptions::chain.
  void start(const Lowered& kernel, bool overlaps);
  void finish(const Lowered& kernel);
  // Other work of the stream, a copy or a wait of the host: all launches before it have ended.
  void join();

  // --- for the interpreter, about the launch that it runs
  bool overlaps() const { return overlaps_; }
  // Notes an access. Empty, or why it is wrong.
  std::string access(uint64_t address, uint64_t bytes, GlobalAccess what, bool after_wait);
  void block_ended(bool waited, bool may_start_next_before_wait);

 private:
  struct Launch {
    std::string kernel;
    ByteSet read, written;
  };
  std::deque<Launch> running_;      // those that may still run when the next launch starts, oldest first
  ByteSet all_read_, all_written_;  // by any of these: hundreds of launches may run in theory, and nearly all accesses
                                    // meet none of them
  Launch current_;
  bool overlaps_ = false;
  bool waited_ = false;      // a block of the current launch has waited
  bool holds_back_ = false;  // the launch after the current one starts after a wait of the current one
};

}  // namespace heddle::ptx
