#include "ptx/launch_chain.h"

#include <algorithm>

namespace heddle::ptx {

namespace {

// f(page number, word in the page, bits) for the bytes of a range.
template <class F>
void each_word(uint64_t address, uint64_t bytes, uint64_t page_bytes, F f) {
  for (const uint64_t end = address + bytes; address < end;) {
    const uint64_t first = address % 64, count = std::min(64 - first, end - address);
    const uint64_t ones = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
    f(address / page_bytes, address % page_bytes / 64, ones << first);
    address += count;
  }
}

}  // namespace

void ByteSet::add(uint64_t address, uint64_t bytes) {
  each_word(address, bytes, page_bytes, [&](uint64_t number, uint64_t word, uint64_t bits) {
    if (number != last_number_) {
      last_ = &pages_[number];  // the address stays valid when other pages are added
      last_number_ = number;
    }
    (*last_)[word] |= bits;
  });
}

void ByteSet::add(const ByteSet& other) {
  for (const auto& [number, from] : other.pages_) {
    Page& to = pages_[number];
    for (size_t i = 0; i < to.size(); ++i) to[i] |= from[i];
  }
}

bool ByteSet::meets(uint64_t address, uint64_t bytes) const {
  bool any = false;
  each_word(address, bytes, page_bytes, [&](uint64_t number, uint64_t word, uint64_t bits) {
    const auto found = pages_.find(number);
    any |= found != pages_.end() && (found->second[word] & bits);
  });
  return any;
}

void LaunchChain::start(const Lowered& lowered, bool overlaps) {
  if (!overlaps) join();
  current_ = {};
  current_.kernel = lowered.kernel().name;
  overlaps_ = overlaps;
  waited_ = false;
  holds_back_ = false;
}

void LaunchChain::finish(const Lowered& lowered) {
  if (overlaps_ && !waited_)
    throw Report(Report::Kind::overlap, "may start before the launch before it has ended, and no thread waits for that",
                 lowered.kernel().name, "", 0, {}, 0);
  if (holds_back_) join();
  all_read_.add(current_.read);
  all_written_.add(current_.written);
  running_.push_back(std::move(current_));
}

InterpretStats LaunchChain::launch(const Lowered& lowered, Grid grid, const void* args, size_t args_bytes,
                                   Memory& memory, bool overlaps, const InterpretOptions& options) {
  start(lowered, overlaps);
  InterpretOptions with = options;
  with.chain = this;
  const InterpretStats stats = interpret(lowered, grid, args, args_bytes, memory, with);
  finish(lowered);
  return stats;
}

void LaunchChain::join() {
  running_.clear();
  all_read_ = {};
  all_written_ = {};
}

std::string LaunchChain::access(uint64_t address, uint64_t bytes, GlobalAccess what, bool after_wait) {
  const bool writes = what == GlobalAccess::write;
  std::string wrong;
  if ((!after_wait || what == GlobalAccess::read_only) &&
      (all_written_.meets(address, bytes) || (writes && all_read_.meets(address, bytes))))
    for (size_t i = running_.size(); i-- && wrong.empty();) {
      const bool written = running_[i].written.meets(address, bytes);
      if (written || (writes && running_[i].read.meets(address, bytes)))
        wrong = fmt::format(
            "{} {} bytes of global memory at {:#x} {}, but {}, {} launches before, {} them and may still run",
            writes ? "writes" : "reads", bytes, address, after_wait ? "through the read-only path" : "before it waits",
            running_[i].kernel, running_.size() - i, written ? "writes" : "reads");
    }
  (writes ? current_.written : current_.read).add(address, bytes);
  return wrong;
}

void LaunchChain::block_ended(bool waited, bool may_start_next_before_wait) {
  waited_ |= waited;
  holds_back_ |= waited && !may_start_next_before_wait;
}

}  // namespace heddle::ptx
