// Memory on the device, memory of the host that the device can copy from without a detour, and descriptions of tensors
// in device memory for bulk tensor copies.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "cuda/context.h"
#include "cuda/stream.h"

namespace heddle::cuda {

// On the device, move-only. Contents are undefined until written.
//
// With a stream, a copy is part of the stream's work, and host memory must stay until it is done (from memory that
// is not pinned it may be slow, and may wait). Without a stream, a call returns when it is done, and waits for no
// stream.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Context& context, size_t bytes);  // throws OutOfMemory; 0 bytes have the address 0

  uint64_t address() const { return memory_.handle(); }
  size_t bytes() const { return memory_ ? bytes_ : 0; }
  ContextState& state() const { return memory_.state(); }

  void write(const void* from, size_t bytes, size_t offset = 0);
  void write(Stream& stream, const void* from, size_t bytes, size_t offset = 0);
  void read(void* to, size_t bytes, size_t offset = 0) const;
  void read(Stream& stream, void* to, size_t bytes, size_t offset = 0) const;
  // Every byte of it.
  void fill(uint8_t value);
  void fill(Stream& stream, uint8_t value);
  // The whole of `from`, to the beginning of this.
  void copy(Stream& stream, const Buffer& from);

  template <class T>
  static Buffer of(const Context& context, std::span<const T> data) {
    Buffer buffer(context, data.size_bytes());
    buffer.write(data.data(), data.size_bytes());
    return buffer;
  }
  template <class T>
  std::vector<T> get(size_t count, size_t offset = 0) const {
    std::vector<T> data(count);
    read(data.data(), count * sizeof(T), offset);
    return data;
  }

 private:
  void check_range(const char* what, size_t bytes, size_t offset) const;
  Owned memory_;
  size_t bytes_ = 0;
};

// On the host, page-locked, move-only.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(const Context& context, size_t bytes);  // throws OutOfMemory

  std::byte* data() const { return static_cast<std::byte*>(memory_.pointer()); }
  size_t bytes() const { return memory_ ? bytes_ : 0; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), bytes() / sizeof(T)};
  }

 private:
  Owned memory_;
  size_t bytes_ = 0;
};

// Bytes at device addresses that are not the beginning of a Buffer: inside one, or memory that is not a Buffer.
// Without a stream, they return when they are done.
void write_device(const Context& context, uint64_t to, const void* from, size_t bytes);
void read_device(const Context& context, void* to, uint64_t from, size_t bytes);
void fill_device(const Context& context, uint64_t to, uint8_t value, size_t bytes);

void write_device(Stream& stream, uint64_t to, const void* from, size_t bytes);
void read_device(Stream& stream, void* to, uint64_t from, size_t bytes);
void fill_device(Stream& stream, uint64_t to, uint8_t value, size_t bytes);
void copy_device(Stream& stream, uint64_t to, uint64_t from, size_t bytes);

// --- tensor maps ----------------------------------------------------------------------------------------------------
// The numbers are the driver's.
enum class TensorType : int { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16 };
enum class TensorSwizzle : int { none, b32, b64, b128 };

struct TensorLayout {  // dimension 0 is the contiguous one
  TensorType type = TensorType::f32;
  uint32_t rank = 1;                 // 1 to 5
  uint64_t address = 0;              // a multiple of 16
  std::array<uint64_t, 5> size{};    // elements
  std::array<uint64_t, 5> stride{};  // bytes between neighbours in dimension i (i >= 1), multiples of 16
  std::array<uint32_t, 5> box{};     // elements copied at once, each 1 to 256
  TensorSwizzle swizzle = TensorSwizzle::none;
};

struct alignas(64) EncodedTensorMap {
  std::array<uint64_t, 16> words{};
};

// Zeros are read outside of the tensor. Needs a driver for CUDA 12.0 or newer, and a GPU from sm_90 on.
EncodedTensorMap encode_tensor_map(const Context& context, const TensorLayout& layout);

}  // namespace heddle::cuda
