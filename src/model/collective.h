// What the ranks of a group do together while they compute one model, each a part of it (shard.h).
#pragma once
#include <cstdint>
#include <span>

namespace heddle::model {

// All ranks call the verbs in the same order and with the same sizes. Throws an Error that names the rank where one is
// lost or late; nothing can be computed after that.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;
  // Each value becomes its sum over all ranks, added in the order of the ranks: the same bits on every rank.
  virtual void sum(std::span<float> values) = 0;
  // The parts of all ranks, one after the other; `sizes`: of each rank's part.
  virtual void gather(std::span<const float> part, std::span<const uint64_t> sizes, std::span<float> all) = 0;
  // From one rank to another, which takes as many; in order.
  virtual void send(uint32_t to, std::span<const float> values) = 0;
  virtual void receive(uint32_t from, std::span<float> values) = 0;
};

}  // namespace heddle::model
