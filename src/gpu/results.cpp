// What comes back from the device: tokens picked, logits and states that were asked for.
#include <cstring>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

model::Result Gpu::result() {
  check(taken_ < launched_, "a batch whose result was not taken");
  const size_t slot = taken_++ % kept_steps;
  if (step_)
    arrived_[slot].synchronize();
  else
    keep_fetched();  // waits even where nothing comes back: the time of a batch is its own
  const auto* picked = reinterpret_cast<const kernels::Sampled*>(picked_.data()) + (step_ ? slot * few_rows : 0);
  for (size_t i = 0; i < picks_.size(); ++i)
    if (picks_[i]) picks_[i] = model::Picked{picked[i].id, picked[i].log_probability};
  read_states();
  return {picks_, logits_, states_};
}

void Gpu::fetch(const Part& part) {
  const size_t row_bytes = model_.vocabulary * 4ull, room = fetched_.bytes() / row_bytes;
  for (size_t i = 0, count; i < part.count; i += count) {
    count = 1;
    if (picks(part.first + i)) continue;
    if (fetched_rows_ == room) keep_fetched();
    while (i + count < part.count && fetched_rows_ + count < room && !picks(part.first + i + count)) ++count;
    cuda::read_device(stream_, fetched_.data() + fetched_rows_ * row_bytes, work_->logits.address() + i * row_bytes,
                      count * row_bytes);
    fetched_rows_ += count;
  }
}

void Gpu::keep_fetched() {
  stream_.synchronize();
  const std::span<const float> arrived = fetched_.as<float>().first(fetched_rows_ * model_.vocabulary);
  logits_.insert(logits_.end(), arrived.begin(), arrived.end());
  fetched_rows_ = 0;
}

void Gpu::read_states() {
  const size_t row_bytes = model_.width * 4ull, at_once = fetched_.bytes() / row_bytes;
  states_.resize(wanted_states_.size() * model_.width);
  for (size_t first = 0, count; first < wanted_states_.size(); first += count) {
    const uint64_t row = wanted_states_[first];
    for (count = 1; count < at_once && first + count < wanted_states_.size(); ++count)
      if (wanted_states_[first + count] != row + count) break;
    cuda::read_device(stream_, fetched_.data(), work_->result.address() + row * row_bytes, count * row_bytes);
    stream_.synchronize();
    std::memcpy(states_.data() + first * model_.width, fetched_.data(), count * row_bytes);
  }
}

}  // namespace heddle::gpu
