#include "gpu/rank_sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <random>

namespace heddle::gpu {
namespace {

constexpr uint32_t mailbox_places = 256;  // rows of a launch, at most
constexpr uint32_t min_place = 4096;      // values: logits are many

kernels::MailboxLayout layout_for(uint32_t ranks, uint32_t width) {
  return {ranks, mailbox_places, std::max(min_place, (width + 63) / 64 * 64)};
}
uint64_t in_pages(uint64_t bytes) { return (bytes + cuda::shared_page - 1) / cuda::shared_page * cuda::shared_page; }

// What each rank has to say, in the order of the ranks. As floats on their way, which are carried and not computed
// with.
template <class T>
std::vector<T> of_all_ranks(model::Collective& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);
  const std::vector<uint64_t> sizes(group.ranks(), sizeof(T) / 4);
  std::vector<float> part(sizeof(T) / 4), all(part.size() * group.ranks());
  std::memcpy(part.data(), &mine, sizeof(T));
  group.gather(part, sizes, all);
  std::vector<T> found(group.ranks());
  std::memcpy(static_cast<void*>(found.data()), all.data(), found.size() * sizeof(T));
  return found;
}

// Why some rank cannot, as far as this one knows; empty: all can.
std::string agreed(model::Collective& group, const std::string& own_reason) {
  const std::vector<uint32_t> can = of_all_ranks<uint32_t>(group, own_reason.empty());
  if (!own_reason.empty()) return own_reason;
  const auto first = std::find(can.begin(), can.end(), 0u);
  return first == can.end() ? "" : fmt::format("rank {} cannot", first - can.begin());
}

// The machine that this is, until it is started again: 36 characters.
struct MachineId {
  std::array<char, 36> text{};
  bool operator==(const MachineId&) const = default;
};
MachineId this_machine() {
  MachineId id;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.text.data(), id.text.size());
  return id;
}

// A number that no other process has; those of the system may be the same in two containers.
uint32_t this_process() {
  static const uint32_t number = std::random_device()();
  return number;
}

struct Mailbox {
  MachineId machine;
  uint32_t process = 0, sms = 0;
  uint64_t address = 0;
  cuda::MemoryHandle handle{};
};

}  // namespace

uint64_t RankSums::bytes(uint32_t ranks, uint32_t width) { return in_pages(layout_for(ranks, width).bytes()); }

RankSums::RankSums(const cuda::Context& context, const RankOptions& options, uint32_t width)
    : options_(options),
      group_(*options.group),
      rank_(group_.rank()),
      ranks_(group_.ranks()),
      width_(width),
      layout_(layout_for(ranks_, width)) {
  using enum RankOptions::Sums;
  const std::string why_not_own =
      options_.sums == nccl ? "sums by NCCL were asked for" : agreed(group_, open_mailboxes(context));
  if (!why_not_own.empty()) {
    boxes_.clear();
    peers_.clear();
    mailbox_ = {};
  }
  const std::string why_not_nccl =
      options_.sums == own ? "sums through peer memory were asked for" : join_nccl(context);
  if (boxes_.empty() && !nccl_)
    throw Error("the GPUs of {} ranks cannot sum: not through peer memory: {}; not by NCCL: {}", ranks_, why_not_own,
                why_not_nccl);
}

// Empty, or why they cannot be reached.
std::string RankSums::open_mailboxes(const cuda::Context& context) {
  Mailbox mine{.machine = this_machine(), .process = this_process(), .sms = context.info().sms};
  std::string wrong;
  if (ranks_ > kernels::max_all_reduce_ranks)
    wrong = fmt::format("at most {} ranks can", kernels::max_all_reduce_ranks);
  try {
    mailbox_ = cuda::Buffer(context, bytes(ranks_, width_));
    mailbox_.fill(0);
    stop_ = cuda::PinnedBuffer(context, 4);
    stop_.as<uint32_t>()[0] = 0;
    mine.address = mailbox_.address();
    mine.handle = cuda::share(mailbox_);
  } catch (const cuda::DriverError& error) {
    wrong = error.what();
  }
  for (const Mailbox& theirs : of_all_ranks(group_, mine)) {
    const auto rank = uint32_t(boxes_.size());
    boxes_.push_back(theirs.address);
    rows_at_once_ = std::min(rows_at_once_, theirs.sms);
    if (!wrong.empty() || (theirs.process == mine.process && theirs.machine == mine.machine)) continue;
    if (theirs.machine != mine.machine) {
      wrong = fmt::format("rank {} runs on another machine", rank);
      continue;
    }
    try {
      boxes_.back() = peers_.emplace_back(context, theirs.handle).address();
    } catch (const cuda::DriverError& error) {
      wrong = fmt::format("the memory of rank {}: {}", rank, error.what());
    }
  }
  return wrong;
}

// Empty, or why it cannot be used.
std::string RankSums::join_nccl(const cuda::Context& context) {
  std::string wrong;
  cuda::NcclId id{};
  try {
    cuda::nccl();
    if (rank_ == 0) id = cuda::make_nccl_id();
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (wrong = agreed(group_, wrong); !wrong.empty()) return wrong;
  id = of_all_ranks(group_, id)[0];
  try {
    nccl_.emplace(context, id, rank_, ranks_);
  } catch (const cuda::NcclError& error) {
    wrong = error.what();
  }
  if (wrong = agreed(group_, wrong); !wrong.empty()) nccl_.reset();
  return wrong;
}

std::string RankSums::describe() const {
  const std::string by = nccl_ ? "NCCL " + cuda::nccl().version_text() : "";
  const std::string how = boxes_.empty() ? "by " + by
                          : nccl_        ? "through peer memory, large ones by " + by
                                         : "through peer memory";
  return fmt::format("{} ranks, sums {}", ranks_, how);
}

void RankSums::launch(Recorder& to, kernels::AllReduce spec, kernels::AllReduce::Args args) const {
  // a thread has one access where a block is large enough, and another one for each rank
  spec.threads = std::clamp((args.cols / spec.vec + 31) / 32 * 32, 32u, 1024u);
  spec.ranks = ranks_;
  for (uint32_t r = 0; r < ranks_; ++r) args.*kernels::AllReduce::boxes[r] = {boxes_[r]};
  args.stop = {reinterpret_cast<uint64_t>(stop_.data())};
  args.limit = uint64_t(options_.timeout * 1e9);
  args.rank = rank_;
  args.places = layout_.places;
  args.place = layout_.place;
  to.launch(spec, args);
}

void RankSums::sum(Recorder& to, uint64_t y, uint64_t values) {
  if (!is_own(values))
    return to.call("nccl", [this, y, values](cuda::Stream& stream) { nccl_->sum(stream, y, values); });
  const uint64_t at_once = uint64_t(rows_at_once_) * layout_.place;
  for (uint64_t first = 0; first < values; first += at_once) {
    const auto count = uint32_t(std::min(at_once, values - first));
    launch(to, {.vec = count % 4 ? 1u : 4u},
           {.y = {y + first * 4},
            .rows = (count + layout_.place - 1) / layout_.place,
            .cols = layout_.place,
            .values = count});
  }
}

void RankSums::sum_and_add(Recorder& to, uint64_t y, uint32_t rows, const Ending& ending) {
  check(adds(rows), "as many rows as are added at once");
  const uint64_t row_bytes = width_ * 4ull;
  for (uint32_t first = 0; first < rows; first += rows_at_once_) {
    const uint32_t count = std::min(rows_at_once_, rows - first);
    launch(to, {.vec = width_ % 4 ? 1u : 4u, .norm = ending.norm, .add = 1, .after = ending.after != 1},
           {.y = {y + first * row_bytes},
            .h = {ending.h + first * row_bytes},
            .weight = {ending.weight},
            .rows = count,
            .cols = width_,
            .values = count * width_,
            .scale = ending.scale,
            .epsilon = ending.epsilon,
            .after = ending.after});
  }
}

std::string RankSums::failure() const {
  if (stop_.bytes())
    if (const uint32_t stopped = *const_cast<const volatile uint32_t*>(stop_.as<uint32_t>().data()))
      return fmt::format("rank {} has not come to a sum of rank {} within {:g} s", stopped - 1, rank_,
                         options_.timeout);
  if (nccl_)
    if (const std::string why = nccl_->failure(); !why.empty())
      return fmt::format("sums of rank {} by NCCL: {}", rank_, why);
  return {};
}

}  // namespace heddle::gpu
