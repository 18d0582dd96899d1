#include "gpu/visitors.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::gpu {
namespace {

uint64_t tile_bytes(const std::vector<Weights*>& weights) {
  uint64_t bytes = 0;
  for (const Weights* w : weights) bytes += (w->bytes() + 255) / 256 * 256;
  return bytes;
}

struct SlotSizes {
  uint64_t in = 0, down = 0, stage = 0, orders = 0;
};
SlotSizes sizes_of(DeviceModel& model, const std::vector<VisitingSublayer>& visiting) {
  SlotSizes sizes;
  for (const VisitingSublayer& place : visiting) {
    const Visitor visitor(model, place);
    sizes.in = std::max(sizes.in, tile_bytes(visitor.in));
    sizes.down = std::max(sizes.down, tile_bytes(visitor.down));
    for (const auto* group : {&visitor.in, &visitor.down})
      for (const Weights* w : *group) {
        sizes.stage = std::max(sizes.stage, Sender::stage_bytes(*w));
        for (size_t i = 0; i < w->sources.size() / w->count; ++i)
          sizes.orders += allocated(w->sources[i].rows.size() * 4);
      }
  }
  return sizes;
}

}  // namespace

Visitor::Visitor(DeviceModel& model, const VisitingSublayer& place) {
  const auto take = [&](std::vector<Weights>& first, Weights& second) {
    for (Weights& w : first) in.push_back(&w);
    down.push_back(&second);
  };
  DeviceSublayer& sublayer = model.layers.at(place.layer).sublayers.at(place.sublayer);
  if (auto* f = std::get_if<DeviceFeedForward>(&sublayer)) take(f->in, f->down);
  if (auto* m = std::get_if<DeviceMixture>(&sublayer)) {
    take(m->in, m->down);
    if (m->shared) take(m->shared->in, m->shared->down);
  }
  check(!in.empty(), "a feed-forward or a mixture that visits");
}

Visitors::Visitors(DeviceModel& model, const std::vector<VisitingSublayer>& visiting, Library& library)
    : stream_(library.context()), sender_(library, stream_, sizes_of(model, visiting).stage) {
  const cuda::Context& context = library.context();
  const SlotSizes sizes = sizes_of(model, visiting);
  for (const uint64_t bytes : {sizes.in, sizes.down})
    slots_.push_back({cuda::Buffer(context, bytes), cuda::Event(context, cuda::Event::untimed),
                      cuda::Event(context, cuda::Event::untimed)});
  const auto settle = [&](const Slot& slot, const std::vector<Weights*>& weights, auto& orders) {
    uint64_t at = slot.tiles.address();
    for (Weights* w : weights) {
      w->tied = at;
      at += (w->bytes() + 255) / 256 * 256;
      orders.push_back(sender_.orders(*w));
    }
  };
  for (const VisitingSublayer& place : visiting) {
    Guest& guest = guests_.emplace_back(Guest{place, Visitor(model, place), {}, {}});
    settle(slots_[0], guest.weights.in, guest.in_orders);
    settle(slots_[1], guest.weights.down, guest.down_orders);
  }
}

uint64_t Visitors::bytes(DeviceModel& model, const std::vector<VisitingSublayer>& visiting) {
  const SlotSizes sizes = sizes_of(model, visiting);
  return allocated(sizes.in) + allocated(sizes.down) + allocated(sizes.stage) + sizes.orders;
}

const Visitors::Guest* Visitors::find(uint32_t layer, uint32_t sublayer) const {
  const auto found = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& guest) {
    return guest.place.layer == layer && guest.place.sublayer == sublayer;
  });
  return found == guests_.end() ? nullptr : &*found;
}

void Visitors::bring(uint32_t layer, uint32_t sublayer, cuda::Stream& stream) {
  const Guest& guest = *find(layer, sublayer);
  fill(slots_[0], guest.weights.in, guest.in_orders);
  stream.wait(slots_[0].filled);
  fill(slots_[1], guest.weights.down, guest.down_orders);
}

void Visitors::fill(Slot& slot, const std::vector<Weights*>& weights,
                    const std::vector<std::vector<cuda::Buffer>>& orders) {
  stream_.wait(slot.left);
  for (size_t i = 0; i < weights.size(); ++i) sender_.fill(*weights[i], weights[i]->tied, orders[i]);
  slot.filled.record(stream_);
}

void Visitors::leave(cuda::Stream& stream) {
  for (Slot& slot : slots_) slot.left.record(stream);
}

}  // namespace heddle::gpu
