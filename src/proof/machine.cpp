// The machine that interprets kernels.
#include "proof/machine.h"

#include <map>

#include "kernels/spec/catalog.h"
#include "ptx/expand.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::proof {
namespace {

class Interpreter : public Machine {
 public:
  Interpreter(uint64_t seed, const std::string& target)
      : seed_(seed), target_(target.empty() ? nullptr : &ptx::target(target)) {}
  bool runs(const std::string& lowest) const override { return !target_ || kernels::runs_on(lowest, *target_); }
  uint32_t processors() const override { return 4; }
  void check_guards() override {}  // the interpreter reports any access outside a buffer
  void clear() override { memory_ = {}; }

 protected:
  uint64_t allocate(size_t bytes) override { return memory_.alloc<uint8_t>(bytes).address; }
  void write(uint64_t to, const void* from, size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void read(void* to, uint64_t from, size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void run(const kernels::AnySpec& spec, ptx::Grid grid, const void* args, size_t args_bytes) override {
    auto found = kernels_.find(spec);
    if (found == kernels_.end()) {
      ptx::Kernel kernel = target_ ? ptx::expanded(spec.build(), *target_) : spec.build();
      target_ ? ptx::verify(kernel, *target_) : ptx::verify(kernel);
      found = kernels_.emplace(spec, std::move(kernel)).first;
    }
    ptx::interpret(found->second, grid, args, args_bytes, memory_, {.seed = seed_});
  }

 private:
  uint64_t seed_;
  const ptx::Target* target_;
  ptx::Memory memory_;
  std::map<kernels::AnySpec, ptx::Kernel, kernels::SpecOrder> kernels_;
};

}  // namespace

std::unique_ptr<Machine> interpreter(uint64_t seed, const std::string& target) {
  return std::make_unique<Interpreter>(seed, target);
}

}  // namespace heddle::proof
