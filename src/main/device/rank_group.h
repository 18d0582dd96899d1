// The group of processes that computes a model: started from here, or joined.
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "main/device/device_options.h"
#include "model/backend.h"
#include "ranks/children.h"
#include "ranks/launcher.h"
#include "ranks/leader.h"
#include "ranks/rendezvous.h"
#include "tiers/rank_disks.h"

namespace heddle {

// The place of this process among the ranks that were asked for. Throws an Error for options that exclude each other.
ranks::Place rank_place(const RankOptions& options);
// Whether this process computes what another one plans: it answers no request and prints nothing but messages.
bool follows(const DeviceOptions& options);

// What tells a model from others: its tensors, and some bytes of each.
std::string fingerprint(const formats::Checkpoint& checkpoint);

class RankGroup {
 public:
  // Waits until all ranks have joined. `model`: as on the command line. `rows`: as of open_running().
  RankGroup(const std::string& model, const std::string& fingerprint, const DeviceOptions& options, uint32_t rows);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  ranks::Group& group() { return *joined_.group; }
  const ranks::Group& group() const { return *joined_.group; }
  model::Collective& collective() { return *joined_.collective; }  // of all
  model::Collective& of_stage() { return joined_.of_stage ? *joined_.of_stage : *joined_.collective; }
  uint32_t rank() const { return group().rank(); }
  uint32_t ranks() const { return group().ranks(); }
  bool leads() const { return rank() == 0; }
  ranks::PartNumbers& numbers() { return numbers_; }  // of rank 0's store
  // The largest limits, and a context, that every rank has memory for. `own`: the part of this rank, which may have
  // neither windows nor states where others have some.
  void agree(const model::Model& own, uint32_t& context, model::Limits& limits);

 private:
  std::unique_ptr<ranks::Children> children_;  // of rank 0, where it has started the others
  ranks::Joined joined_;
  ranks::PartNumbers numbers_;
};

// Options with this rank's share of what the ranks of a machine have together: threads and memory, where they do not
// say what each rank has.
DeviceOptions share_of_rank(DeviceOptions options);

// The folder of this rank; null: none is asked for. What fails here is told to the others.
std::unique_ptr<tiers::PartFolder> open_rank_folder(const RankStore& store, ranks::Group& group);

// What a process does that follows: opens its part of the model and computes it until rank 0 ends the work. The exit
// status.
int follow_ranks(const std::string& model, const DeviceOptions& options, std::ostream& err, uint32_t rows = 0);

}  // namespace heddle
