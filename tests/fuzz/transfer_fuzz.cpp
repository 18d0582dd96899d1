// Frames between two processes that hand over a KV cache: what is accepted is what heddle writes, byte by byte.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "tests/fuzz/target.h"
#include "tiers/transfer_wire.h"

namespace heddle {

FUZZ_TARGET(transfer) {
  // with the checksum that such a frame has: otherwise nothing but that is tried
  std::vector<uint8_t> frame(data, data + size);
  const tiers::Checksum checksum = tiers::checksum_of({}, frame);
  frame.insert(frame.end(), checksum.begin(), checksum.end());
  const auto expect = [&](const std::vector<uint8_t>& written) {
    if (!std::ranges::equal(std::span(written).subspan(tiers::frame_length_bytes), frame)) std::abort();
  };
  try {
    expect(tiers::encode_request(tiers::decode_request(frame)));
  } catch (const Error&) {
  }
  try {
    expect(tiers::encode_answer(tiers::decode_answer(frame)));
  } catch (const Error&) {
  }
  try {
    tiers::decode_request({data, size});
    std::abort();  // a frame within a frame has another checksum
  } catch (const Error&) {
  }
  if (size >= tiers::frame_length_bytes) try {
      if (tiers::frame_bytes({data, tiers::frame_length_bytes}) > tiers::max_frame) std::abort();
    } catch (const Error&) {
    }
  return 0;
}

}  // namespace heddle
