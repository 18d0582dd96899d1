// The NVIDIA driver by dlopen, as little of it as running a test kernel takes. Declarations follow its public manual.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx/interpret.h"
#include "ptx/tensor_map.h"

namespace heddle::gpu_test {

// No driver, or no GPU: nothing can be tested here.
struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A call of the driver failed.
struct DriverError : std::runtime_error {
  int code;
  bool sticky;  // the context is lost with it
  DriverError(const std::string& what, int code_, bool sticky_)
      : std::runtime_error(what), code(code_), sticky(sticky_) {}
};

struct Functions;

// The first GPU and its primary context. Modules may be loaded from several threads, each after use().
class Device {
 public:
  Device();  // throws NoGpu
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::string name() const { return name_; }
  uint32_t sm() const { return sm_; }  // 90 for compute capability 9.0
  std::string driver_version() const;
  // Makes the context current in the calling thread.
  void use() const;

  const Functions& call() const { return *functions_; }

 private:
  Functions* functions_ = nullptr;
  std::string name_;
  uint32_t sm_ = 0;
  int device_ = 0;
  void* context_ = nullptr;
};

class Buffer {
 public:
  Buffer(const Device& d, size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint64_t address() const { return address_; }
  void fill(uint8_t value, size_t bytes);
  void put(const std::vector<uint8_t>& data);
  std::vector<uint8_t> get(size_t bytes) const;

 private:
  const Device& device_;
  uint64_t address_ = 0;
};

class Module {
 public:
  // Throws a DriverError with the assembler's messages if the text does not assemble.
  Module(const Device& d, const std::string& ptx, const std::string& kernel);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Launches and waits; gives up after `seconds` with a DriverError of code `hung`, which nothing can follow.
  static constexpr int hung = -1;
  void run(const ptx::Kernel& kernel, ptx::Grid grid, uint32_t shared_bytes, const void* args, double seconds) const;

 private:
  const Device& device_;
  void* module_ = nullptr;
  void* function_ = nullptr;
};

ptx::TensorMap encode(const Device& d, const ptx::TensorMapSpec& spec);

}  // namespace heddle::gpu_test
