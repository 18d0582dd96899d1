// Sums over the ranks of a group, as work of a plan: small ones in one launch through memory that all ranks see
// (kernels/layer/all_reduce.h), large ones by NCCL. All ranks get the same bits.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/nccl.h"
#include "cuda/peer_memory.h"
#include "gpu/recorder.h"
#include "kernels/layer/all_reduce.h"
#include "model/collective.h"

namespace heddle::gpu {

class RankSums {
 public:
  // Meets the other ranks, which make theirs at the same time. `width`: of the residual stream. Throws an Error where
  // neither way can be used, with the reasons.
  RankSums(const cuda::Context& context, const RankOptions& options, uint32_t width);

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }
  std::string describe() const;  // "2 ranks, sums through peer memory, large ones by NCCL 2.28.3"

  // y becomes its sum over all ranks.
  void sum(Recorder& to, uint64_t y, uint64_t values);
  // h = after * (h + scale * norm(the sum of y) * weight), rows of the width.
  struct Ending {
    uint64_t h;
    uint32_t norm;  // kernels::NormKind, without a bias
    uint64_t weight;
    float epsilon, scale, after;
  };
  void sum_and_add(Recorder& to, uint64_t y, uint32_t rows, const Ending& ending);
  // Whether sum_and_add() takes this number of rows; otherwise they go by sum(), and what follows is the caller's.
  bool adds(uint32_t rows) const { return is_own(uint64_t(rows) * width_); }

  // What has failed since the beginning; empty: nothing. What was computed then is wrong, and so is all that follows.
  std::string failure() const;

  // The device memory that it takes.
  static uint64_t bytes(uint32_t ranks, uint32_t width);

 private:
  bool is_own(uint64_t values) const { return !boxes_.empty() && (!nccl_ || values * 4 <= options_.max_own_bytes); }
  std::string open_mailboxes(const cuda::Context& context);
  std::string join_nccl(const cuda::Context& context);
  void launch(Recorder& to, kernels::AllReduce spec, kernels::AllReduce::Args args) const;

  const RankOptions options_;
  model::Collective& group_;
  const uint32_t rank_, ranks_, width_;
  const kernels::MailboxLayout layout_;
  // A block each, which waits for the same block of all ranks: as many as SMs, so that all of them run.
  uint32_t rows_at_once_ = layout_.places;
  cuda::Buffer mailbox_;
  std::vector<cuda::PeerMemory> peers_;
  std::vector<uint64_t> boxes_;  // of each rank; empty: they cannot all be reached
  cuda::PinnedBuffer stop_;      // a word that kernels and the host see
  std::optional<cuda::Communicator> nccl_;
};

}  // namespace heddle::gpu
