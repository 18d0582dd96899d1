// The ways in which a GPU fails to do what was asked. All of them are heddle::Error, so one catch at the edge is
// enough.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace heddle::cuda {

// No usable driver library: not found (the message says where it was looked for), or too old (which function it lacks).
struct NoDriver : Error {
  explicit NoDriver(const std::string& message) : Error("{}", message) {}
};

// The driver is there, but no GPU, not this GPU, or the driver refuses it; the message has the driver's reason.
struct NoDevice : Error {
  explicit NoDevice(const std::string& message) : Error("{}", message) {}
};

// A call of the driver failed. The message names the call, the kernel where there is one, and the driver's reason.
struct DriverError : Error {
  int code;            // the driver's number
  std::string name;    // and its name for it, "CUDA_ERROR_ILLEGAL_ADDRESS"
  bool context_lost;   // nothing can be done in this context any more, and its memory is gone
  std::string kernel;  // the kernel the call was about; empty if it was about none
  DriverError(const std::string& message, int code_, std::string name_, bool context_lost_, std::string kernel_ = {})
      : Error("{}", message),
        code(code_),
        name(std::move(name_)),
        context_lost(context_lost_),
        kernel(std::move(kernel_)) {}
};

// Not enough memory on the device, or not enough that can be pinned on the host.
struct OutOfMemory : DriverError {
  uint64_t asked, free;  // bytes; free: on the device
  OutOfMemory(const std::string& message, int code_, std::string name_, uint64_t asked_, uint64_t free_)
      : DriverError(message, code_, std::move(name_), false), asked(asked_), free(free_) {}
};

// The driver's assembler refused a kernel. The message has its log and the lines of the text that the log names.
struct CompileError : DriverError {
  std::string log;
  CompileError(const std::string& message, int code_, std::string name_, std::string kernel_, std::string log_)
      : DriverError(message, code_, std::move(name_), false, std::move(kernel_)), log(std::move(log_)) {}
};

// True for errors after which every call in the context fails: illegal address, trap, timeout, ECC, ...
inline bool loses_context(int code) {
  switch (code) {
    case 4:    // the driver is shutting down
    case 214:  // ECC
    case 220:  // NVLink
    case 226:  // contained memory fault
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // assert
    case 714:  // hardware stack
    case 715:  // illegal instruction, trap
    case 716:  // misaligned address
    case 717:  // wrong address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
      return true;
    default:
      return false;
  }
}

}  // namespace heddle::cuda
