// A block of the KV cache, or a state, between the places that it has in all layers and one stretch of the host's
// memory, in one launch instead of a copy for each place.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Where a part of the block with index i lies: `bytes` at `address` + i * `bytes`, and at `offset` on the host.
struct PartPlace {
  uint64_t address, bytes, offset;
};

struct MoveParts {
  static constexpr std::string_view name = "move_parts", summary = "blocks of a KV cache to and from the host",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint64_t> places;  // (count) PartPlace
    ptx::DevicePtr<uint32_t> host;    // memory that the host and the device see
    uint32_t count, index;
    uint32_t largest;  // bytes of the largest part
  };
  uint32_t threads = 256;
  uint32_t vec = 4;      // words at a time: addresses, bytes and offsets are multiples of as many
  uint32_t to_host = 0;  // otherwise from there
  uint32_t chained = 0;
  auto operator<=>(const MoveParts&) const = default;
  static auto fields() {
    using S = MoveParts;
    using F = Field<S>;
    return std::tuple(F{"threads", &S::threads, range(32, 1024, 32)}, F{"vec", &S::vec, one_of({1, 4})},
                      F{"to_host", &S::to_host, yes_or_no()}, F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
