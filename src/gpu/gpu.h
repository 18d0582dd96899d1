// The GPU backend: weights as tiles on the device, a layer in five launches, a step in one graph.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "cuda/context.h"
#include "cuda/device.h"
#include "model/backend.h"
#include "model/collective.h"

namespace heddle::kernels {
class AnySpec;
}
namespace heddle::ptx {
struct Kernel;
struct Target;
}  // namespace heddle::ptx

namespace heddle::gpu {

struct BuiltKernel {
  std::shared_ptr<const ptx::Kernel> kernel;
  std::string text;  // to be assembled
};
// Called for every kernel, from several threads.
using BuildKernel = std::function<BuiltKernel(const kernels::AnySpec& spec, const ptx::Target& target)>;

// A sublayer of a model that stays on the host, and is brought to the device when it is computed there.
struct VisitingSublayer {
  uint32_t layer, sublayer;
};

// How the GPUs of the ranks that compute one model together (model/shard.h) sum what they have.
struct RankOptions {
  model::Collective* group =
      nullptr;  // by which they meet; must outlive the backend. Null: one GPU has the whole model
  enum class Sums {
    automatic,  // small ones through memory that all ranks see, if they do, and large ones by NCCL, if it is there
    own,        // all through such memory
    nccl,
  } sums = Sums::automatic;
  uint64_t max_own_bytes = 512 << 10;  // of a sum; larger ones go by NCCL
  double timeout = 10;                 // seconds until a rank that does not come to a sum is given up
};

struct Options {
  uint32_t device = 0;
  bool exact = false;  // activations stay f32 in every product: slower, closer to the reference
  // A row's result does not depend on what else is in the batch, nor on how its prompt was cut. Slower.
  bool deterministic = false;
  bool graphs = true;                           // false: every kernel is launched by itself
  bool trace = false;                           // keeps the times of all kernels, each alone; see Backend::kernel_times
  std::vector<VisitingSublayer> visiting = {};  // feed-forwards and mixtures
  RankOptions ranks = {};
  bool preload = true;  // kernels of the usual batches are assembled while loading; false: each when it is first used
  std::function<void(uint64_t, uint64_t)> progress;  // bytes of weights uploaded, and in all. May be empty.
  std::function<void()> on_assembling;               // the weights are there, the kernels are next. May be empty.
  BuildKernel build_kernel;                          // instead of the function of library.h. May be empty.
};

// Throws an Error if the GPU cannot run the model: too little memory, too old, a type of weights without kernels. The
// model must outlive it.
std::unique_ptr<model::Backend> make_gpu(const model::Model& model, const model::Limits& limits,
                                         const Options& options = {});

// The memory that make_gpu() would take; nothing is read or allocated.
model::Memory memory_needed(const model::Model& model, const model::Limits& limits, const cuda::DeviceInfo& device,
                            const Options& options = {});

// Bytes per second at which the GPU reads its memory, measured within a few hundredths of a second.
double read_bandwidth(const cuda::Context& context);

// Throws an Error that says why models cannot run on this GPU.
void expect_capable(const cuda::DeviceInfo& device);

// Which kernels models take on such a GPU, and why.
std::string path_text(const cuda::DeviceInfo& device);

// Looks for the fastest shapes of the kernels of a decode step on this GPU, by timing whole steps, and keeps them on
// disk for all models with such kernels. `batches`: rows of the steps, each 1 to 8. `say`: a line for each
// kernel. `progress` is called before each shape is timed.
struct Tuned {
  double before = 0, after = 0;  // seconds of all steps timed
  uint32_t kernels = 0, tried = 0;
  std::string file;  // where the shapes are kept; empty: the file could not be written
};
Tuned tune(const model::Model& model, const Options& options, const std::vector<uint32_t>& batches,
           const std::function<void(const std::string&)>& say,
           const std::function<void(uint64_t tried, uint64_t all)>& progress = {});

}  // namespace heddle::gpu
