// A lane's share of a row of weights.
#include "kernels/product/gemv_weights.h"

namespace heddle::kernels {

using namespace ptx;

GemvWeights::Place GemvWeights::place(Code& k) const {
  U32 lane = k.lane();
  if (!blocks) return {.index = lane, .lane = {}, .block = lane, .first = k.constant(0u)};
  Place p{.index = lane,
          .lane = lane_of(k, lane, blocks->pieces(), narrow),
          .block = lane / lanes_per_block(),
          .first = {}};
  p.first = blocks->first(p.lane);
  return p;
}

std::vector<U32> GemvWeights::load_head(Code& k, Global<uint8_t> at, const Place& place, Access how) const {
  const BlockInFile block(at, blocks->align, how);
  if (!shuffled) return blocks->load_head(block, place.lane);
  std::vector<Var<uint32_t>> words;
  for (uint32_t i = 0; i < blocks->shared_head; ++i) words.push_back(k.var(0u));
  const uint32_t others = lanes_per_block() - 1;
  k.when((place.index & others) == 0u, [&] {
    auto head = blocks->load_head(block, place.lane);
    for (size_t i = 0; i < words.size(); ++i) words[i] = head[i];
  });
  std::vector<U32> head;
  for (auto& word : words) head.push_back(shuffle(word.get(), place.index & ~others));
  return head;
}

Raw GemvWeights::load(Code& k, Global<uint8_t> at, const Place& place) const {
  const bool once = blocks ? blocks->align == 16 && !narrow : load_bytes == 16;
  const Access how{.nc = true, .l1 = once ? L1::no_allocate : L1::normal};
  if (!blocks) return {.head = {}, .quants = load_floats(at, load_bytes, how)};
  auto quants = blocks->load_quants(BlockInFile(at, blocks->align, how), place.lane);
  return {.head = load_head(k, at, place, {.nc = true}), .quants = std::move(quants)};
}

}  // namespace heddle::kernels
