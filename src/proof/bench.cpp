// Timing on the device by events around a graph of many rounds.
#include "proof/bench.h"

#include <algorithm>
#include <chrono>

#include "kernels/layer/elementwise.h"

namespace heddle::proof {

Timing time(const Bench& bench, GpuMachine& machine, uint64_t seed) {
  machine.clear();
  Random random(seed);
  const Bench::Round round = bench.prepare(machine, random);
  const cuda::Context& context = machine.library().context();
  cuda::Stream& stream = machine.stream();

  auto graph_of = [&](uint32_t rounds) {
    cuda::Plan plan;
    machine.record(&plan);
    for (uint32_t r = 0; r < rounds; ++r) round(machine, r);
    machine.record(nullptr);
    return plan.graph(context);
  };
  cuda::Event begin(context), end(context);
  auto run = [&](cuda::Graph& graph) {
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.synchronize();
    return double(end.milliseconds_since(begin)) * 1e3;
  };

  Timing timing;
  const auto start = std::chrono::steady_clock::now();
  cuda::Graph first = graph_of(1);
  timing.start = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  run(first);
  // about four milliseconds of work, and at least the whole rotation
  const uint32_t rounds =
      std::max(copies(bench.bytes), uint32_t(std::clamp(4000.0 / std::max(1.0, run(first)), 4.0, 1000.0)));
  cuda::Graph graph = graph_of(rounds);
  for (int i = 0; i < 3; ++i) run(graph);
  std::vector<double> runs;
  for (int i = 0; i < 11; ++i) runs.push_back(run(graph) / rounds);
  std::sort(runs.begin(), runs.end());
  timing.microseconds = runs[runs.size() / 2];
  timing.low = runs.front();
  timing.high = runs.back();
  return timing;
}

uint32_t copies(double bytes) { return uint32_t(std::clamp(400e6 / std::max(bytes, 1.0), 2.0, 64.0)); }

double streaming_limit(GpuMachine& machine) {
  // the best of a few ways to read four gigabytes (or a quarter of a small GPU's memory)
  const uint64_t bytes = std::min<uint64_t>(uint64_t(4) << 30, machine.library().context().memory().free / 4) / 16 * 16;
  double best = 0;
  for (const auto& [threads, loads, per_sm] :
       {std::tuple{512u, 8u, 4u}, std::tuple{256u, 8u, 8u}, std::tuple{256u, 4u, 8u}, std::tuple{1024u, 4u, 2u}}) {
    const kernels::StreamRead spec{.threads = threads, .loads = loads};
    const uint32_t blocks = per_sm * machine.library().context().info().sms;
    Bench bench{"stream_read", "", "sm_75", double(bytes), 0, {}};
    bench.prepare = [=](Machine& m, Random& random) -> Bench::Round {
      const std::vector<uint8_t> noise = random.bytes(size_t(16) << 20);
      const kernels::StreamRead::Args args{.sum = m.put(std::vector<uint32_t>{0}),
                                           .data = m.poisoned<uint32_t>(bytes / 4),
                                           .words = bytes / 4,
                                           .blocks = blocks};
      for (uint64_t at = 0; at < bytes; at += noise.size())  // memory full of one value may be read faster
        m.set(ptx::DevicePtr<uint8_t>{args.data.address + at},
              std::vector(noise.begin(), noise.begin() + std::min<uint64_t>(noise.size(), bytes - at)));
      return [=](Machine& machine_now, uint32_t) { machine_now.launch(spec, args); };
    };
    best = std::max(best, double(bytes) / (time(bench, machine, 1).microseconds * 1e-6));
  }
  return best;
}

std::vector<ptx::DevicePtr<float>> float_inputs(Machine& m, Random& random, size_t count) {
  std::vector<float> block = random.normals(std::min<size_t>(count, 1 << 20)), one;
  while (one.size() < count)
    one.insert(one.end(), block.begin(), block.begin() + ptrdiff_t(std::min(block.size(), count - one.size())));
  std::vector<ptx::DevicePtr<float>> all;
  for (uint32_t i = 0; i < copies(double(count) * 4); ++i) all.push_back(m.put(one));
  return all;
}

std::vector<f16> half_inputs(Random& random, size_t count) {
  std::vector<f16> x(count);
  std::vector<float> some = random.normals(4099);
  for (size_t i = 0; i < count; ++i) x[i] = to_f16(some[i % some.size()]);
  return x;
}

// Each file with benches appends its own, in a function at its end that is named after it.
using AddBenches = void(std::vector<Bench>& all);
AddBenches add_stream_read_benches, add_tile_pack_benches, add_half_rows_benches, add_product_benches,
    add_mma_product_benches, add_mma_tiles_benches, add_wgmma_product_benches;
AddBenches add_cluster_attention_benches, add_prompt_attention_benches, add_wgmma_attention_benches,
    add_latent_attention_benches, add_latent_expand_benches;
AddBenches add_embedding_benches, add_norm_benches, add_elementwise_benches;
AddBenches add_mixture_benches, add_router_benches, add_group_rows_benches;
AddBenches add_sample_benches, add_recurrence_benches, add_chunked_recurrence_benches;

std::vector<Bench> all_benches() {
  std::vector<Bench> all;
  for (AddBenches* add : {add_stream_read_benches,
                          add_tile_pack_benches,
                          add_half_rows_benches,
                          add_product_benches,
                          add_mma_product_benches,
                          add_mma_tiles_benches,
                          add_wgmma_product_benches,
                          add_cluster_attention_benches,
                          add_prompt_attention_benches,
                          add_wgmma_attention_benches,
                          add_embedding_benches,
                          add_norm_benches,
                          add_elementwise_benches,
                          add_mixture_benches,
                          add_router_benches,
                          add_group_rows_benches,
                          add_sample_benches,
                          add_latent_attention_benches,
                          add_latent_expand_benches,
                          add_recurrence_benches,
                          add_chunked_recurrence_benches})
    add(all);
  return all;
}

}  // namespace heddle::proof
