// What the cache keeps, as bytes on the host: through pinned memory, in order with batches.
#include <algorithm>

#include "base/error.h"
#include "gpu/backend.h"
#include "kernels/layer/move_parts.h"

namespace heddle::gpu {
namespace {

using model::KvPart;

// Copies of several places are in flight at once: 8 of an 8B model's blocks of 32 tokens are 33 MB.
constexpr size_t staging_slots = 8;

}  // namespace

void Gpu::each_kv_part(model::KvPlace place, auto&& f) const {
  if (place.part == KvPart::state) {
    for (const StateCache& states : state_caches_) states.each_part(place.index, f);
    return;
  }
  for (const KvCache& cache : caches_)
    if (cache.of_windows() == (place.part == KvPart::window)) cache.each_part(place.index, f);
}

uint64_t Gpu::kv_part_bytes(KvPart part) const {
  if (part == KvPart::window && limits_.window_blocks == 0) return 0;
  uint64_t all = 0;
  each_kv_part({part, 0}, [&](uint64_t, uint64_t bytes) { all += bytes; });
  return all;
}

size_t Gpu::kv_staging_slots() {
  std::vector<KvStaging::Slot>& slots = kv_staging_.slots;
  const uint64_t bytes =
      std::max({kv_part_bytes(KvPart::block), kv_part_bytes(KvPart::window), kv_part_bytes(KvPart::state)});
  while (slots.size() < staging_slots)
    slots.push_back({cuda::PinnedBuffer(context_, bytes), cuda::Event(context_, cuda::Event::untimed)});
  return slots.size();
}

const KvStaging::Places& Gpu::kv_places(KvPart part) {
  KvStaging::Places& places = kv_staging_.places[size_t(part)];
  if (places.count) return places;
  std::vector<kernels::PartPlace> table;
  uint64_t offset = 0;
  each_kv_part({part, 0}, [&](uint64_t address, uint64_t bytes) {
    check(address % 4 == 0 && bytes % 4 == 0, "whole words of a cache");
    table.push_back({address, bytes, offset});
    offset += bytes;
    places.largest = std::max(places.largest, uint32_t(bytes));
    places.wide = places.wide && address % 16 == 0 && bytes % 16 == 0;
  });
  places.table = cuda::Buffer(context_, table.size() * sizeof table[0]);
  places.table.write(table.data(), table.size() * sizeof table[0]);
  places.count = uint32_t(table.size());
  return places;
}

void Gpu::move_kv(model::KvPlace place, std::byte* pinned, bool to_host) {
  const KvStaging::Places& places = kv_places(place.part);
  Recorder move(library_, false);
  move.launch(kernels::MoveParts{.vec = places.wide ? 4u : 1u, .to_host = to_host},
              {.places = {places.table.address()},
               .host = {reinterpret_cast<uint64_t>(pinned)},
               .count = places.count,
               .index = place.index,
               .largest = places.largest});
  move.plan.run(stream_);
}

void Gpu::read_kv(std::span<const model::KvRead> reads) {
  run_stretch();
  for (size_t count = kv_staging_slots(); !reads.empty(); reads = reads.subspan(std::min(count, reads.size()))) {
    const auto at_once = reads.first(std::min(count, reads.size()));
    for (size_t i = 0; i < at_once.size(); ++i) {
      model::check_kv_span(*this, limits_, at_once[i].from, at_once[i].to.size());
      kv_staging_.slots[i].copied.synchronize();
      move_kv(at_once[i].from, kv_staging_.slots[i].pinned.data(), true);
    }
    stream_.synchronize();
    for (size_t i = 0; i < at_once.size(); ++i)
      copy_in_pieces(kv_staging_.helpers, at_once[i].to.data(), kv_staging_.slots[i].pinned.data(),
                     at_once[i].to.size());
  }
}

void Gpu::write_kv(model::KvPlace place, std::span<const uint8_t> bytes) {
  model::check_kv_span(*this, limits_, place, bytes.size());
  run_stretch();
  auto& [pinned, copied] = kv_staging_.slots[kv_staging_.next++ % kv_staging_slots()];
  copied.synchronize();
  copy_in_pieces(kv_staging_.helpers, pinned.data(), bytes.data(), bytes.size());
  move_kv(place, pinned.data(), false);
  copied.record(stream_);
}

}  // namespace heddle::gpu
