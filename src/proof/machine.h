// Where a kernel is proved: the interpreter or a GPU. A case says what to launch and what must come out, and knows no
// more of the machine than this.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/spec/field.h"

namespace heddle::proof {

class Machine {
 public:
  virtual ~Machine() = default;

  // Buffers live as long as the machine, or until the next clear(). Behind and before each lie bytes that must stay as
  // they are; check_guards() throws an Error that names the buffer if they did not.
  template <class T>
  ptx::DevicePtr<T> put(const std::vector<T>& data) {
    ptx::DevicePtr<T> p{allocate(data.size() * sizeof(T))};
    if (!data.empty()) write(p.address, data.data(), data.size() * sizeof(T));
    return p;
  }
  // For results: filled with 0xCC, so that what a kernel forgot to write shows.
  template <class T>
  ptx::DevicePtr<T> poisoned(size_t count) {
    return {allocate(count * sizeof(T))};
  }
  template <class T>
  std::vector<T> get(ptx::DevicePtr<T> p, size_t count) {
    std::vector<T> v(count);
    if (count) read(v.data(), p.address, count * sizeof(T));
    return v;
  }
  template <class T>
  void set(ptx::DevicePtr<T> p, const std::vector<T>& data) {
    if (!data.empty()) write(p.address, data.data(), data.size() * sizeof(T));
  }

  // Builds the kernel (once per spec) and launches it after all launches before. A spec has name, fields(), build() and
  // grid(args).
  template <class Spec>
  void launch(const Spec& spec, const typename Spec::Args& args) {
    run(kernels::AnySpec(spec), spec.grid(args), &args, sizeof args);
  }

  // True if kernels for this target run here ("sm_90").
  virtual bool runs(const std::string& lowest_target) const = 0;
  // SMs: how many blocks a persistent kernel is launched with.
  virtual uint32_t processors() const = 0;
  virtual void check_guards() = 0;
  virtual void clear() = 0;

 protected:
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void write(uint64_t to, const void* from, size_t bytes) = 0;
  virtual void read(void* to, uint64_t from, size_t bytes) = 0;
  virtual void run(const kernels::AnySpec& spec, ptx::Grid grid, const void* args, size_t args_bytes) = 0;
};

// Every launch is verified and interpreted on the CPU, with races looked for. `target`: kernels are as that GPU would
// run them, and those that it cannot run are refused; empty: as they are built.
std::unique_ptr<Machine> interpreter(uint64_t seed = 0, const std::string& target = {});

}  // namespace heddle::proof
