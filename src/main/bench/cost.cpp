// Of a mixture, the experts that a token uses are taken to be any.
#include "main/bench/cost.h"

#include <algorithm>
#include <cmath>

#include "cpu/cpu.h"
#include "cuda/cache.h"
#include "gpu/weights.h"
#include "proof/bench.h"

namespace heddle {
namespace {

double share_used(const model::FeedForward& f) {  // of the experts, for one token
  return f.up_experts.count ? double(f.used) / double(f.up_experts.count) : 1;
}
double share_read(const model::FeedForward& f, uint32_t rows) { return 1 - std::pow(1 - share_used(f), rows); }

StepCost cost_in_file(const model::Model& model, uint32_t rows) {
  StepCost cost;
  const auto add = [&](const model::Matrix& matrix, double read = 1, double used = 1) {
    cost.bytes += double(matrix.data.size()) * read;
    cost.products += double(matrix.rows) * double(matrix.cols) * used;
  };
  for (const model::Layer& layer : model.layers) {
    const model::Attention& a = layer.attention;
    const model::FeedForward& f = layer.ffn;
    for (const model::Matrix* matrix : {&a.q, &a.k, &a.v, &a.output, &f.gate, &f.up, &f.down, &f.router}) add(*matrix);
    for (const model::Experts* experts : {&f.gate_experts, &f.up_experts, &f.down_experts})
      add(experts->all, share_read(f, rows), share_used(f));
  }
  add(model.output);
  return cost;
}

double bytes_on_gpu(const model::Model& model, uint32_t rows) {
  gpu::DeviceModel device = gpu::describe_weights(model);
  double bytes = double(device.output.bytes());
  for (size_t i = 0; i < device.layers.size(); ++i)
    for (const gpu::Weights* weights : device.layers[i].all())
      bytes += double(weights->bytes()) * (weights->count > 1 ? share_read(model.layers[i].ffn, rows) : 1);
  return bytes;
}

}  // namespace

StepCost step_cost(const RunningModel& running, uint32_t rows) {
  StepCost cost = cost_in_file(running.model, rows);
  if (running.gpu) cost.bytes = bytes_on_gpu(running.model, rows);
  return cost;
}

double cache_bytes(const RunningModel& running, double position) {
  double values = 0;
  for (const model::Layer& layer : running.model.layers) {
    const model::Attention& a = layer.attention;
    const double seen = a.window ? std::min<double>(position, a.window) : position;
    values += seen * a.kv_heads * (a.head + a.value_head);
  }
  return values * (running.limits.kv == model::KvFormat::q8 ? 34.0 / 32 : 2);
}

double memory_limit(const RunningModel& running, uint32_t threads) {
  if (!running.gpu) return cpu::read_bandwidth(threads);
  cuda::Cache cache = cuda::Cache::from_environment();
  gpu::Library library(cuda::Context(*running.gpu), &cache);
  proof::GpuMachine machine(library);
  return proof::streaming_limit(machine);
}

}  // namespace heddle
