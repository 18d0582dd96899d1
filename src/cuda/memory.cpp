#include "cuda/memory.h"

#include "cuda/context_state.h"

namespace heddle::cuda {

namespace {

std::string size_text(uint64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{} bytes", bytes);
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB ({} bytes)", double(bytes) / double(1 << 20), bytes);
  return fmt::format("{:.2f} GiB ({} bytes)", double(bytes) / double(1 << 30), bytes);
}

[[noreturn]] void allocation_failed(ContextState& s, int result, const char* call, uint64_t bytes) {
  if (result != code::out_of_memory) s.fail(result, call, {}, fmt::format(" of {}", size_text(bytes)));
  size_t free = 0, total = 0;
  const bool known = s.api.memory_info(&free, &total) == code::success;
  throw OutOfMemory(
      fmt::format("{} of {}: {}{}", call, size_text(bytes), s.api.reason(result),
                  known ? fmt::format("; the GPU has {} free, of {}", size_text(free), size_text(total)) : ""),
      result, s.api.code_name(result), bytes, free);
}

// The default stream: our own streams neither wait for it nor are waited for.
constexpr void* no_stream = nullptr;

void write(ContextState& s, void* stream, uint64_t to, const void* from, size_t bytes) {
  if (bytes) s.call(s.api.copy_to_device, to, from, bytes, stream);
}
void read(ContextState& s, void* stream, void* to, uint64_t from, size_t bytes) {
  if (bytes) s.call(s.api.copy_to_host, to, from, bytes, stream);
}
void fill(ContextState& s, void* stream, uint64_t to, uint8_t value, size_t bytes) {
  if (bytes) s.call(s.api.fill, to, static_cast<unsigned char>(value), bytes, stream);
}
// After writes and fills too: the driver may return from them before the bytes have arrived.
void wait(ContextState& s) { s.call(s.api.stream_synchronize, no_stream); }

}  // namespace

// --- buffers --------------------------------------------------------------------------------------------------------
Buffer::Buffer(const Context& context, size_t bytes) : bytes_(bytes) {
  ContextState& s = *context.state();
  uint64_t address = 0;
  if (bytes)
    if (const int result = s.result_of(s.api.memory_alloc, &address, bytes))
      allocation_failed(s, result, s.api.memory_alloc.name, bytes);
  memory_ = Owned(context.state(), address,
                  [](ContextState& state, uint64_t h) noexcept { state.release(state.api.memory_free, h); });
}

void Buffer::check_range(const char* what, size_t bytes, size_t offset) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw Error("{} of {} bytes at offset {}: the buffer has {} bytes", what, bytes, offset, bytes_);
}

void Buffer::write(const void* from, size_t bytes, size_t offset) {
  ContextState& s = memory_.state();
  check_range("write", bytes, offset);
  cuda::write(s, no_stream, address() + offset, from, bytes);
  wait(s);
}
void Buffer::write(Stream& stream, const void* from, size_t bytes, size_t offset) {
  check_range("write", bytes, offset);
  cuda::write(memory_.state(), stream.handle(), address() + offset, from, bytes);
}
void Buffer::read(void* to, size_t bytes, size_t offset) const {
  ContextState& s = memory_.state();
  check_range("read", bytes, offset);
  cuda::read(s, no_stream, to, address() + offset, bytes);
  wait(s);
}
void Buffer::read(Stream& stream, void* to, size_t bytes, size_t offset) const {
  check_range("read", bytes, offset);
  cuda::read(memory_.state(), stream.handle(), to, address() + offset, bytes);
}
void Buffer::fill(uint8_t value) {
  cuda::fill(memory_.state(), no_stream, address(), value, bytes());
  wait(memory_.state());
}
void Buffer::fill(Stream& stream, uint8_t value) {
  cuda::fill(memory_.state(), stream.handle(), address(), value, bytes());
}
void Buffer::copy(Stream& stream, const Buffer& from) {
  check_range("copy", from.bytes(), 0);
  copy_device(stream, address(), from.address(), from.bytes());
}

PinnedBuffer::PinnedBuffer(const Context& context, size_t bytes) : bytes_(bytes) {
  ContextState& s = *context.state();
  void* data = nullptr;
  if (bytes)
    if (const int result = s.result_of(s.api.host_alloc, &data, bytes, host_portable))
      allocation_failed(s, result, s.api.host_alloc.name, bytes);
  memory_ = Owned(context.state(), reinterpret_cast<uint64_t>(data), [](ContextState& state, uint64_t h) noexcept {
    state.release(state.api.host_free, reinterpret_cast<void*>(h));
  });
}

// --- addresses ------------------------------------------------------------------------------------------------------
void write_device(const Context& context, uint64_t to, const void* from, size_t bytes) {
  write(*context.state(), no_stream, to, from, bytes);
  wait(*context.state());
}
void read_device(const Context& context, void* to, uint64_t from, size_t bytes) {
  read(*context.state(), no_stream, to, from, bytes);
  wait(*context.state());
}
void fill_device(const Context& context, uint64_t to, uint8_t value, size_t bytes) {
  fill(*context.state(), no_stream, to, value, bytes);
  wait(*context.state());
}
void write_device(Stream& stream, uint64_t to, const void* from, size_t bytes) {
  write(stream.state(), stream.handle(), to, from, bytes);
}
void read_device(Stream& stream, void* to, uint64_t from, size_t bytes) {
  read(stream.state(), stream.handle(), to, from, bytes);
}
void fill_device(Stream& stream, uint64_t to, uint8_t value, size_t bytes) {
  fill(stream.state(), stream.handle(), to, value, bytes);
}
void copy_device(Stream& stream, uint64_t to, uint64_t from, size_t bytes) {
  ContextState& s = stream.state();
  if (bytes) s.call(s.api.copy_on_device, to, from, bytes, stream.handle());
}

// --- tensor maps ----------------------------------------------------------------------------------------------------
EncodedTensorMap encode_tensor_map(const Context& context, const TensorLayout& layout) {
  ContextState& s = *context.state();
  if (!s.api.tensor_map_encode)
    throw NoDriver(
        fmt::format("tensor maps need a driver for CUDA 12.0 or newer, this one is for CUDA {}", s.driver_version));
  const std::array<uint32_t, 5> ones{1, 1, 1, 1, 1};
  EncodedTensorMap map;
  // the driver's strides begin with dimension 1; then: no interleaving, the swizzle, no promotion in L2, zeros outside
  s.call(s.api.tensor_map_encode, static_cast<void*>(map.words.data()), int(layout.type), layout.rank,
         reinterpret_cast<void*>(layout.address), layout.size.data(), layout.stride.data() + 1, layout.box.data(),
         ones.data(), 0, int(layout.swizzle), 0, 0);
  return map;
}

}  // namespace heddle::cuda
