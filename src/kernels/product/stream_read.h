// Reads memory at full speed: the limit that every other kernel is measured against.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// sum += all words of data (modulo 2^32). The sum makes the result checkable and keeps the loads from being removed.
struct StreamRead {
  static constexpr std::string_view name = "stream_read", summary = "sum of all words: the streaming limit",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> sum;   // one word, added to
    ptx::DevicePtr<uint32_t> data;  // 16-byte aligned
    uint64_t words;                 // a multiple of 4
    uint32_t blocks;                // of the grid: SMs times blocks per SM
  };
  uint32_t threads = 512;
  uint32_t loads = 8;  // of 16 bytes, in flight per thread
  auto operator<=>(const StreamRead&) const = default;
  static auto fields() {
    return std::tuple(Field<StreamRead>{"threads", &StreamRead::threads, range(32, 1024, 32)},
                      Field<StreamRead>{"loads", &StreamRead::loads, one_of({1, 2, 4, 8})});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
