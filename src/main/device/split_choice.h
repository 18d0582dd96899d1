// Which part of a model that is larger than a GPU runs there, and which on the CPU: counted and forecast before
// anything is loaded.
#pragma once
#include "base/error.h"
#include "cpu/cpu.h"
#include "cuda/context.h"
#include "gpu/gpu.h"
#include "main/device/device_options.h"
#include "model/split.h"

namespace heddle {

// How a split is cut: the first `gpu_layers` layers are the GPU's, all others the CPU's. Of the GPU's layers, the last
// `moved` that have one leave their mixture, or in a model without mixtures their feed-forward, to the CPU.
struct SplitCut {
  uint32_t gpu_layers = 0, moved = 0;
  bool head_on_gpu = false;
  bool visits = false;  // the CPU's feed-forwards and mixtures visit the GPU for many rows
};
model::Placement placement_of(const model::Model& model, const SplitCut& cut);
uint32_t mixtures_of(const model::Model& model);  // layers with one

struct SplitRates {
  double gpu = 0, cpu = 0;  // bytes of weights per second while tokens come one by one
};

struct SplitChoice {
  SplitCut cut;
  model::Placement placement;
  uint32_t context = 0;  // to run with
  model::Limits limits;
  model::Memory on_gpu, on_cpu;  // that it takes
  double seconds = 0;            // of a token, forecast; 0: unknown
  // "23 of 32 layers on cuda:0, 9 on 16 CPU threads, about 31 tok/s"
  std::string text;
};

// What there is for a split.
struct SplitRoom {
  const cuda::DeviceInfo& gpu;
  uint64_t gpu_bytes = 0, cpu_bytes = 0;  // available; of the CPU 0: unknown
  uint32_t rows = 0;                      // maximum tokens in a batch; 0: by the room
};

// Throws an Error for a split by numbers that this model cannot have.
void expect_splittable(const model::Model& model, const DeviceOptions& options);

struct DoesNotSplit : Error {
  using Error::Error;
};
// The split that `options` ask for, or the fastest that fits. Throws DoesNotSplit with what is needed and what there is
// if none fits.
SplitChoice choose_split(const model::Model& model, const DeviceOptions& options, const SplitRoom& room,
                         const SplitRates& rates, const model::Model* draft = nullptr);

std::unique_ptr<model::Backend> make_split_backend(const model::Model& model, const model::Placement& placement,
                                                   const model::Limits& limits, const gpu::Options& on_gpu,
                                                   const cpu::Options& on_cpu);

// Measured on this machine with some layers of the model, within about a second.
SplitRates measure_rates(const model::Model& model, const DeviceOptions& options, const cuda::Context& gpu);

// What a part takes of the GPU, with the room for visits.
model::Memory gpu_memory_of(const model::Model& model, const SplitCut& cut, const DeviceOptions& options,
                            const model::Limits& limits, const cuda::DeviceInfo& gpu);

// The part of a GPU's free memory that may be taken: what `options` allow, less what kernels and graphs need.
uint64_t usable_on_gpu(const DeviceOptions& options, uint64_t free);

}  // namespace heddle
