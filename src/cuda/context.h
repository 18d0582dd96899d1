// One GPU in use: its primary context, shared by everything that is created in it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/device.h"
#include "cuda/error.h"

namespace heddle::cuda {

class ContextState;

// Copies are the same context. It is released with the last copy and the last object created in it, in any order.
//
// Any thread may use it: every call makes it current in its thread first. Once an error has lost the context, every
// further call in it throws a DriverError "the GPU context was lost: <the first reason>"; destructors still work.
class Context {
 public:
  explicit Context(uint32_t ordinal = 0);  // throws NoDriver, NoDevice

  const DeviceInfo& info() const;
  const std::string& driver_version() const;  // "13.0"

  // Makes it current in the calling thread: needed only before calls that are not made through this room.
  void use() const;
  // Waits for all work in all streams.
  void synchronize() const;

  struct Memory {
    uint64_t free, total;  // bytes
  };
  Memory memory() const;

  bool lost() const;
  std::string why_lost() const;  // empty if it is not

  const std::shared_ptr<ContextState>& state() const { return state_; }

 private:
  std::shared_ptr<ContextState> state_;
};

// A handle of the driver, released exactly once. Releasing never throws, not even in a lost context.
class Owned {
 public:
  using Release = void (*)(ContextState&, uint64_t handle) noexcept;
  Owned() = default;
  Owned(std::shared_ptr<ContextState> state, uint64_t handle, Release release)
      : state_(std::move(state)), handle_(handle), release_(release) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned(std::move(other)).swap(*this);
    return *this;
  }
  ~Owned() {
    if (handle_) release_(*state_, handle_);
  }

  explicit operator bool() const { return state_ != nullptr; }  // false after it was moved from
  uint64_t handle() const { return handle_; }
  void* pointer() const { return reinterpret_cast<void*>(handle_); }
  ContextState& state() const {
    check(state_ != nullptr, "used after it was moved from");
    return *state_;
  }

 private:
  void swap(Owned& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(handle_, other.handle_);
    std::swap(release_, other.release_);
  }
  std::shared_ptr<ContextState> state_;
  uint64_t handle_ = 0;
  Release release_ = nullptr;
};

}  // namespace heddle::cuda
