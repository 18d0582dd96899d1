// Weights that stay on the host and come over the bus when a batch is large enough to be worth it: a sublayer at a
// time, the matrices that read its input to one slot, those that read what is between to another, in a stream of their
// own.
#pragma once
#include "gpu/gpu.h"
#include "gpu/sender.h"

namespace heddle::gpu {

// The weights of a feed-forward or a mixture that come and go. The router of a mixture stays.
struct Visitor {
  Visitor(DeviceModel& model, const VisitingSublayer& place);
  std::vector<Weights*> in, down;
};

class Visitors {
 public:
  // The weights are described and uploaded, all but those that visit; both must outlive it.
  Visitors(DeviceModel& model, const std::vector<VisitingSublayer>& visiting, Library& library);

  // The device memory that it takes.
  static uint64_t bytes(DeviceModel& model, const std::vector<VisitingSublayer>& visiting);

  bool visits(uint32_t layer, uint32_t sublayer) const { return find(layer, sublayer) != nullptr; }
  // Brings a sublayer. What `stream` does next may use the first matrices.
  void bring(uint32_t layer, uint32_t sublayer, cuda::Stream& stream);
  // What `stream` does next may use all of them.
  void wait_for_all(cuda::Stream& stream) { stream.wait(slots_[1].filled); }
  // The stream has no further use for them.
  void leave(cuda::Stream& stream);

 private:
  struct Guest {
    VisitingSublayer place;
    Visitor weights;
    std::vector<std::vector<cuda::Buffer>> in_orders, down_orders;
  };
  struct Slot {
    cuda::Buffer tiles;
    cuda::Event filled, left;
  };
  const Guest* find(uint32_t layer, uint32_t sublayer) const;
  void fill(Slot& slot, const std::vector<Weights*>& weights, const std::vector<std::vector<cuda::Buffer>>& orders);

  cuda::Stream stream_;
  std::vector<Guest> guests_;
  std::vector<Slot> slots_;  // two
  Sender sender_;
};

}  // namespace heddle::gpu
