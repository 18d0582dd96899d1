// Batches as bytes, from the rank that plans them to those that follow: only what the last batch does not say already.
#pragma once
#include <cstdint>
#include <span>

#include "model/backend.h"
#include "ranks/bytes.h"

namespace heddle::ranks {

// What a batch may have; more is refused by the decoder, before it takes memory for it.
struct BatchBounds {
  uint64_t rows = 1 << 20;
  uint64_t blocks = 1 << 24;  // of a table
  uint64_t text = 1 << 24;    // tokens of a picking, and biases
};

// What both sides remember of the batch before.
struct LastBatch {
  model::BlockTables blocks, window_blocks;
  std::vector<uint32_t> slots;
  std::vector<uint32_t> next;                           // by sequence: the position after its last row
  std::vector<std::optional<model::Picking>> pickings;  // by sequence: that of its last output
  bool predicts = false;
};

// The batches of one backend, in order: what encode() gives is for the decode() of the decoder that has seen all
// before.
class BatchEncoder {
 public:
  // `taken`: results that were taken since the last batch, up to 31. Valid until the next call.
  std::span<const uint8_t> encode(const model::Batch& batch, uint32_t taken = 0);

 private:
  LastBatch last_;
  Bytes bytes_;
};
class BatchDecoder {
 public:
  explicit BatchDecoder(const BatchBounds& bounds = {}) : bounds_(bounds) {}
  // Throws an Error for bytes that no encoder gives; nothing can be decoded after that. Valid until the next call.
  const model::Batch& decode(std::span<const uint8_t> bytes, uint32_t& taken);

 private:
  BatchBounds bounds_;
  LastBatch last_;
  model::Batch batch_;
};

// The masks of Backend::allow().
void encode_masks(std::span<const std::span<const uint32_t>> masks, Bytes& bytes);
std::vector<std::vector<uint32_t>> decode_masks(std::span<const uint8_t> bytes, uint64_t max_masks, uint64_t max_words);

}  // namespace heddle::ranks
