// Buffers are cut from large slabs, with poisoned bytes before and behind each.
#include "proof/gpu_machine.h"

#include <algorithm>

#include "kernels/spec/catalog.h"

namespace heddle::proof {
namespace {

constexpr size_t guard = 256, slab_bytes = size_t(64) << 20;
constexpr uint8_t poison = 0xCC;

size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

GpuMachine::GpuMachine(gpu::Library& library) : library_(library), stream_(library.context()) {}

bool GpuMachine::runs(const std::string& lowest_target) const {
  return kernels::runs_on(lowest_target, library_.target());
}

void GpuMachine::clear() {
  stream_.synchronize();
  pieces_.clear();
  // one slab is kept, so that small cases do not allocate
  if (!slabs_.empty() && slabs_.front().bytes() == slab_bytes)
    slabs_.resize(1);
  else
    slabs_.clear();
  used_ = 0;
}

uint64_t GpuMachine::allocate(size_t bytes) {
  const size_t whole = guard + rounded(bytes) + guard;
  if (slabs_.empty() || used_ + whole > slabs_.back().bytes()) {
    slabs_.emplace_back(library_.context(), std::max(whole, slab_bytes));
    used_ = 0;
  }
  const uint64_t begin = slabs_.back().address() + used_ + guard;
  cuda::fill_device(stream_, begin - guard, poison, whole);
  stream_.synchronize();
  used_ += whole;
  pieces_.push_back({begin, bytes});
  return begin;
}

void GpuMachine::write(uint64_t to, const void* from, size_t bytes) {
  stream_.synchronize();
  cuda::write_device(library_.context(), to, from, bytes);
}

void GpuMachine::read(void* to, uint64_t from, size_t bytes) {
  stream_.synchronize();
  cuda::read_device(library_.context(), to, from, bytes);
}

void GpuMachine::check_guards() {
  std::vector<uint8_t> bytes(guard);
  for (size_t i = 0; i < pieces_.size(); ++i)
    for (const uint64_t at : {pieces_[i].begin - guard, pieces_[i].begin + pieces_[i].bytes}) {
      read(bytes.data(), at, guard);
      if (std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b != poison; }))
        throw Error("a kernel wrote {} buffer {} of {} bytes", at < pieces_[i].begin ? "before" : "behind", i,
                    pieces_[i].bytes);
    }
}

void GpuMachine::run(const kernels::AnySpec& spec, ptx::Grid grid, const void* args, size_t args_bytes) {
  const gpu::Loaded& kernel = library_.get(spec);
  cuda::Launch launch = kernel.launch(grid, 0, args, args_bytes);
  if (plan_)
    plan_->launch(std::move(launch));
  else
    cuda::launch(stream_, launch);
}

}  // namespace heddle::proof
