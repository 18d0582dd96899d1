// The machine that runs kernels on a GPU.
#pragma once
#include "cuda/memory.h"
#include "cuda/plan.h"
#include "gpu/library.h"
#include "proof/machine.h"

namespace heddle::proof {

class GpuMachine : public Machine {
 public:
  explicit GpuMachine(gpu::Library& library);

  bool runs(const std::string& lowest_target) const override;
  uint32_t processors() const override { return library_.context().info().sms; }
  void check_guards() override;
  void clear() override;

  // While a plan is given, launches go into it instead of running.
  void record(cuda::Plan* plan) { plan_ = plan; }
  cuda::Stream& stream() { return stream_; }
  gpu::Library& library() { return library_; }

 protected:
  uint64_t allocate(size_t bytes) override;
  void write(uint64_t to, const void* from, size_t bytes) override;
  void read(void* to, uint64_t from, size_t bytes) override;
  void run(const kernels::AnySpec& spec, ptx::Grid grid, const void* args, size_t args_bytes) override;

 private:
  struct Piece {
    uint64_t begin, bytes;
  };
  gpu::Library& library_;
  cuda::Stream stream_;
  std::vector<cuda::Buffer> slabs_;  // the last one is being filled
  size_t used_ = 0;                  // of the last slab
  std::vector<Piece> pieces_;
  cuda::Plan* plan_ = nullptr;
};

}  // namespace heddle::proof
