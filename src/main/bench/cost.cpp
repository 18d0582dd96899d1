// Of a mixture, the experts that a token uses are taken to be any.
#include "main/bench/cost.h"

#include <algorithm>
#include <cmath>

#include "cpu/cpu.h"
#include "cuda/cubin_cache.h"
#include "gpu/weights.h"
#include "proof/bench.h"

namespace heddle {
namespace {

// The share of a stack of experts that some of `rows` tokens use.
double share_read(uint64_t used, uint64_t experts, uint32_t rows) {
  return 1 - std::pow(1 - double(used) / double(experts), rows);
}

double bytes_in_file(const model::Model& model, uint32_t rows) {
  double bytes = double(model.output.data.size());
  for (const model::Layer& layer : model.layers)
    for (const model::SublayerMatrix& m : model::matrices_of(layer))
      bytes += double(m.matrix->data.size()) * share_read(m.used, m.experts, rows);
  return bytes;
}

double bytes_on_gpu(const model::Model& model, uint32_t rows) {
  gpu::DeviceModel device = gpu::describe_weights(model);
  double bytes = double(device.output.bytes());
  for (gpu::DeviceLayer& layer : device.layers) {
    const gpu::DeviceMixture* mixture = layer.find<gpu::DeviceMixture>();
    for (const gpu::Weights* weights : layer.all())
      bytes += double(weights->bytes()) *
               (weights->count > 1 ? share_read(mixture->model->routing.used, weights->count, rows) : 1);
  }
  return bytes;
}

}  // namespace

double step_bytes(const RunningModel& running, uint32_t rows) {
  return running.gpu ? bytes_on_gpu(running.model, rows) : bytes_in_file(running.model, rows);
}

double cache_bytes(const RunningModel& running, double position) {
  double values = 0;
  model::each_attention(running.model, [&](const model::Attention& a) {
    const double seen = a.window ? std::min<double>(position, a.window) : position;
    values += seen * a.kv_heads * (a.head + a.value_head);
  });
  return values * (running.limits.kv == model::KvFormat::q8 ? 34.0 / 32 : 2);
}

double read_bandwidth(const RunningModel& running, uint32_t threads) {
  const auto bytes = uint64_t(step_bytes(running, 1));
  if (!running.gpu) return cpu::read_bandwidth(threads, bytes);
  cuda::Context context(*running.gpu);
  if (bytes <= context.info().l2_bytes) return 0;
  cuda::CubinCache cache = cuda::CubinCache::from_environment();
  gpu::Library library(std::move(context), &cache);
  proof::GpuMachine machine(library);
  return proof::streaming_limit(machine);
}

}  // namespace heddle
