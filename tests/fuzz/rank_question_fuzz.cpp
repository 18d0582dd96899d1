// Any bytes as what ranks say about the parts of a cache that they keep: orders in the stream of batches, numbers,
// questions about disks and answers. What is accepted has the same meaning after it was encoded again.
#include <algorithm>
#include <cstdlib>

#include "ranks/kv_parts.h"
#include "tests/fuzz/target.h"
#include "tiers/rank_questions.h"

FUZZ_TARGET(rank_question) {
  using namespace heddle;
  const std::span<const uint8_t> bytes(data, size);
  const auto accepted = [](auto&& again) {
    try {
      if (!again()) std::abort();
    } catch (const Error&) {  // refused
    }
  };
  model::Limits limits{.kv_blocks = 100};
  limits.window_blocks = 10;
  limits.state_slots = 3;
  accepted([&] {
    ranks::Bytes encoded;
    const std::vector<ranks::PartOrder> orders = ranks::decode_orders(bytes, limits);
    ranks::encode_orders(orders, encoded);
    const std::vector<ranks::PartOrder> same = ranks::decode_orders(encoded, limits);
    return std::ranges::equal(orders, same, [](const ranks::PartOrder& a, const ranks::PartOrder& b) {
      return a.place.part == b.place.part && a.place.index == b.place.index && a.number == b.number;
    });
  });
  accepted([&] {
    ranks::Bytes encoded;
    const std::vector<uint64_t> numbers = ranks::decode_numbers(bytes);
    ranks::encode_numbers(numbers, encoded);
    return ranks::decode_numbers(encoded) == numbers;
  });
  accepted([&] {
    const tiers::DiskQuestion question = tiers::decode_disk_question(bytes),
                              same = tiers::decode_disk_question(tiers::encode(question));
    return question.kind == same.kind && question.buffer == same.buffer && question.parts == same.parts;
  });
  accepted([&] { return std::ranges::equal(tiers::encode(tiers::decode_disk_answer(bytes)), bytes); });
  accepted([&] { return tiers::decode_there(bytes, size * 8).size() == size * 8; });
  return 0;
}
