// Sums over the ranks of a group through memory that all of them see, in one launch on each.
//
// Every rank has a mailbox, which the others read and write: places of `place` values, each twice, with a flag of every
// rank. Block b of a launch uses place b. It copies its row to the mailbox of its own rank, sets its flag in those of
// all ranks, waits for their flags in its own, and adds their rows up in the order of the ranks: all get the same bits.
//
// A flag is the number of rounds that the place has seen, which is kept beside it, so that a graph can be launched
// again and again. A round uses the copy of a place that the round before did not: a rank that has seen all flags of
// round n knows that no rank reads the row of round n - 2 any more, because each had ended that round before it set its
// flag of round n - 1. So two copies are enough.
//
// A rank that does not come within a time limit, or while the host says stop, is not waited for: the word `stop`
// becomes 1 + its rank, the sums are wrong, and no later launch waits for anyone longer than a moment.
#pragma once
#include <array>
#include <compare>

#include "kernels/layer/norm.h"

namespace heddle::kernels {

constexpr uint32_t max_all_reduce_ranks = 8;

// Where things lie in a mailbox, which begins as zeros.
struct MailboxLayout {
  uint32_t ranks = 0, places = 0, place = 0;  // place: values of it, a multiple of 64

  uint64_t flags_at() const { return uint64_t(places) * place * 2 * 4; }            // (ranks, places) u32
  uint64_t rounds_at() const { return flags_at() + uint64_t(ranks) * places * 4; }  // (places) u32
  uint64_t bytes() const { return rounds_at() + uint64_t(places) * 4; }
};

// y = the sum of the y of all ranks; with `add` h = (h + scale * norm(y) * weight) * after instead. One block per row
// of `cols` values; the last row may be shorter where there is no norm.
struct AllReduce {
  static constexpr std::string_view name = "all_reduce",
                                    summary = "sums of f32 over ranks through peer memory, h += scale * norm(sum)",
                                    lowest_target = "sm_75";
  struct Args {
    // Of each rank, as this one sees them.
    ptx::DevicePtr<uint8_t> box0{}, box1{}, box2{}, box3{}, box4{}, box5{}, box6{}, box7{};
    ptx::DevicePtr<float> y{}, h{};  // (rows, cols); with a norm y is overwritten, too
    ptx::DevicePtr<float> weight{};  // (cols); read with a norm
    ptx::DevicePtr<uint32_t> stop{};
    uint64_t limit = 0;  // nanoseconds
    uint32_t rank = 0;
    uint32_t places = 0, place = 0;           // of MailboxLayout
    uint32_t rows = 0, cols = 0, values = 0;  // values: of all rows
    float scale = 1, epsilon = 0, after = 1;
  };
  static constexpr std::array<ptx::DevicePtr<uint8_t> Args::*, max_all_reduce_ranks> boxes = {
      &Args::box0, &Args::box1, &Args::box2, &Args::box3, &Args::box4, &Args::box5, &Args::box6, &Args::box7};

  uint32_t threads = 512;
  uint32_t ranks = 2;
  uint32_t vec = 4;  // values per access; cols and values must be multiples of it
  uint32_t norm = norm_none;
  uint32_t add = 0, after = 0;
  uint32_t chained = 0;
  auto operator<=>(const AllReduce&) const = default;
  static auto fields() {
    using F = Field<AllReduce>;
    return std::tuple(F{"threads", &AllReduce::threads, range(32, 1024, 32)},
                      F{"ranks", &AllReduce::ranks, range(2, max_all_reduce_ranks)},
                      F{"vec", &AllReduce::vec, one_of({1, 4})}, F{"norm", &AllReduce::norm, norm_kinds()},
                      F{"add", &AllReduce::add, yes_or_no()}, F{"after", &AllReduce::after, yes_or_no()},
                      F{"chained", &AllReduce::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // Throws an Error if the rows do not fit the mailbox.
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
