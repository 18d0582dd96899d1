// Timing of the layer kernels: one token's worth, where a launch is latency, and many, where it is bandwidth.
#include "base/rope_frequencies.h"
#include "kernels/attention/kv_scatter.h"
#include "kernels/attention/rope.h"
#include "kernels/attention/softmax.h"
#include "kernels/layer/gate.h"
#include "kernels/layer/norm.h"
#include "kernels/layer/residual.h"
#include "kernels/product/q8_1.h"
#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using namespace kernels;

// Several inputs of `count` normals each.
std::vector<ptx::DevicePtr<float>> inputs(Machine& m, Random& random, size_t count) {
  std::vector<float> block = random.normals(std::min<size_t>(count, 1 << 20)), one;
  while (one.size() < count)
    one.insert(one.end(), block.begin(), block.begin() + ptrdiff_t(std::min(block.size(), count - one.size())));
  std::vector<ptx::DevicePtr<float>> all;
  for (uint32_t i = 0; i < copies(double(count) * 4); ++i) all.push_back(m.put(one));
  return all;
}

// make(machine, random) gives what completes the arguments of a round from its input.
template <class Spec, class Make>
Bench one(std::string kernel, std::string shape, const Spec& spec, size_t count, double bytes, double flops,
          Make make) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto in = inputs(m, random, count);
    const std::function<typename Spec::Args(ptx::DevicePtr<float>)> args = make(m, random);
    return [=](Machine& now, uint32_t r) { now.launch(spec, args(in[r % in.size()])); };
  };
  return {std::move(kernel), std::move(shape), std::string(Spec::lowest_target), bytes, flops, prepare};
}

void sample_benches(uint32_t rows, std::vector<Bench>& all) {
  struct Kind {
    const char* name;
    SampleRow row;
  };
  constexpr uint32_t vocab = 128256, capacity = 4096;
  const double min_p = std::log(0.05), n = double(rows) * vocab;
  // lengths are as of a text of 1000 tokens; the others look at none
  const Kind kinds[] = {
      {"greedy", {.temperature = 0}},
      {"temperature", {.temperature = 0.8f}},
      {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}},
      {"top-k 40, top-p 0.95, min-p 0.05", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .log_min_p = min_p}},
      {"top-k 40, 1000 tokens seen",
       {.temperature = 0.8f,
        .top_k = 40,
        .repetition = 1.1f,
        .frequency = 0.1f,
        .repetition_last = ~0u,
        .length = 1000}}};
  for (const uint32_t splits : rows == 1 ? std::vector{1u, 8u, 16u} : std::vector{1u, 2u, 4u})
    for (const auto& [name, row] : kinds) {
      Bench bench = one(splits > 1 ? "cluster_sample" : "sample",
                        fmt::format("{} x {} {}, {} blocks a row", rows, vocab, name, splits),
                        Sample{.splits = splits, .vec = 4, .chained = 1}, size_t(n), n * 4, n,
                        [=, given = row](Machine& m, Random& random) {
                          std::vector<uint32_t> texts(size_t(rows) * capacity);
                          for (uint32_t& id : texts) id = random.below(vocab);
                          Sample::Args a{.out = {m.poisoned<Sampled>(rows).address},
                                         .logits = {},
                                         .params = {m.put(std::vector<SampleRow>(rows, given)).address},
                                         .biases = {},
                                         .texts = m.put(texts),
                                         .changed = m.poisoned<float>(size_t(rows) * vocab),
                                         .rows = rows,
                                         .vocab = vocab,
                                         .capacity = capacity};
                          return [=](ptx::DevicePtr<float> x) mutable { return a.logits = x, a; };
                        });
      if (splits > 1) bench.lowest_target = "sm_90";
      all.push_back(bench);
    }
}

}  // namespace

void add_layer_benches(std::vector<Bench>& all) {
  for (uint32_t rows : {1u, 512u}) {
    const double n = double(rows) * 4096;
    const std::string shape = fmt::format("{} x 4096", rows);
    all.push_back(one("rms_norm", shape, RmsNorm{.threads = 512, .vec = 4, .chained = 1}, size_t(n), n * 8, n * 4,
                      [=](Machine& m, Random& random) {
                        RmsNorm::Args a{.y = m.poisoned<float>(size_t(n)),
                                        .x = {},
                                        .w = m.put(random.normals(4096)),
                                        .rows = rows,
                                        .cols = 4096,
                                        .eps = 1e-5f};
                        return [=](ptx::DevicePtr<float> x) mutable { return a.x = x, a; };
                      }));
    all.push_back(one("layer_norm", shape, LayerNorm{.threads = 512, .chained = 1}, size_t(n), n * 8, n * 8,
                      [=](Machine& m, Random& random) {
                        LayerNorm::Args a{};
                        a.y = m.poisoned<float>(size_t(n)), a.w = m.put(random.normals(4096)),
                        a.b = m.put(random.normals(4096));
                        a.rows = rows, a.cols = 4096, a.eps = 1e-5f;
                        return [=](ptx::DevicePtr<float> x) mutable { return a.x = x, a; };
                      }));
    all.push_back(
        one("residual_add", shape, ResidualAdd{.chained = 1}, size_t(n), n * 12, n, [=](Machine& m, Random& random) {
          ResidualAdd::Args a{.y = m.poisoned<float>(size_t(n)),
                              .a = {},
                              .b = m.put(random.normals(size_t(n))),
                              .n = uint32_t(n),
                              .scale = 1};
          return [=](ptx::DevicePtr<float> x) mutable { return a.a = x, a; };
        }));
    all.push_back(
        one("quantize_q8_1", shape, QuantizeQ8_1{.chained = 1}, size_t(n), n * 5.125, n * 4, [=](Machine& m, Random&) {
          QuantizeQ8_1::Args a{
              .y = m.poisoned<uint8_t>(rows * QuantizeQ8_1{}.row_bytes(4096)), .x = {}, .rows = rows, .cols = 4096};
          return [=](ptx::DevicePtr<float> x) mutable { return a.x = x, a; };
        }));
    all.push_back(
        one("rope", fmt::format("{} tokens, 32 + 8 heads of 128", rows), Rope{.chained = 1}, size_t(rows) * 40 * 128,
            rows * 40.0 * 128 * 8, rows * 40.0 * 128 * 3, [=](Machine& m, Random&) {
              Rope::Args a{};
              a.q_out = m.poisoned<float>(size_t(rows) * 40 * 128), a.k_out.address = a.q_out.address + 4096 * 4;
              std::vector<int32_t> positions(rows);
              for (uint32_t i = 0; i < rows; ++i) positions[i] = int32_t(i);
              a.positions = m.put(positions);
              a.turns = m.put(rope_frequencies(128, 10000).turns());
              a.tokens = rows, a.q_heads = 32, a.k_heads = 8, a.head_dim = a.rotary_dim = 128;
              a.q_out_stride = a.q_stride = a.k_out_stride = a.k_stride = 40 * 128;
              return [=](ptx::DevicePtr<float> x) mutable { return a.q = x, a.k.address = x.address + 4096 * 4, a; };
            }));
    const double f = double(rows) * 14336;
    for (uint32_t act : {uint32_t(Gate::silu), uint32_t(Gate::gelu_tanh)})
      all.push_back(one(
          act == Gate::silu ? "silu_gate" : "gelu_gate", fmt::format("{} x 14336", rows),
          Gate{.vec = 4, .act = act, .chained = 1}, size_t(f) * 2, f * 12, f * 8, [=](Machine& m, Random&) {
            Gate::Args a{.y = m.poisoned<float>(size_t(f)),
                         .gate = {},
                         .up = {},
                         .rows = rows,
                         .cols = 14336,
                         .y_stride = 14336,
                         .gate_stride = 28672,
                         .up_stride = 28672};
            return [=](ptx::DevicePtr<float> x) mutable { return a.gate = x, a.up.address = x.address + 14336 * 4, a; };
          }));
    for (uint32_t act : {uint32_t(Gate::silu), uint32_t(Gate::gelu_erf)})
      all.push_back(one(act == Gate::silu ? "silu" : "gelu", fmt::format("{} x 14336", rows),
                        Gate{.vec = 4, .act = act, .times_up = 0, .chained = 1}, size_t(f), f * 8, f * 8,
                        [=](Machine& m, Random&) {
                          Gate::Args a{.y = m.poisoned<float>(size_t(f)),
                                       .gate = {},
                                       .up = {},
                                       .rows = rows,
                                       .cols = 14336,
                                       .y_stride = 14336,
                                       .gate_stride = 14336,
                                       .up_stride = 0};
                          return [=](ptx::DevicePtr<float> x) mutable { return a.gate = x, a; };
                        }));
    const uint32_t keys = 4096, queries = rows == 1 ? 1 : 128;
    const double s = 32.0 * queries * keys;
    all.push_back(one("causal_softmax", fmt::format("{} rows x {}", 32 * queries, keys), CausalSoftmax{.chained = 1},
                      size_t(s), s * 8, s * 6, [=](Machine& m, Random&) {
                        CausalSoftmax::Args a{.y = m.poisoned<float>(size_t(s)),
                                              .x = {},
                                              .rows = 32 * queries,
                                              .queries = queries,
                                              .keys = keys,
                                              .offset = int32_t(keys - queries),
                                              .window = 0,
                                              .scale = 0.1f,
                                              .cap = 0};
                        return [=](ptx::DevicePtr<float> x) mutable { return a.x = x, a; };
                      }));
    const uint32_t sequences = rows == 1 ? 1 : 64, max_len = 1024;
    const double kv = double(sequences) * 8 * 128;
    all.push_back(one("kv_scatter", fmt::format("{} sequences, 8 heads of 128", sequences), KvScatter{.chained = 1},
                      size_t(kv) * 2, kv * 12, 0, [=](Machine& m, Random&) {
                        KvScatter::Args a{};
                        std::vector<uint64_t> k, v;
                        for (uint32_t i = 0; i < sequences; ++i)
                          k.push_back(m.poisoned<f16>(size_t(8) * max_len * 128).address),
                              v.push_back(m.poisoned<f16>(size_t(8) * max_len * 128).address);
                        a.k_base = m.put(k), a.v_base = m.put(v),
                        a.positions = m.put(std::vector<int32_t>(sequences, 512));
                        a.rows = sequences, a.kv_heads = 8, a.k_stride = a.v_stride = 1024, a.max_len = max_len;
                        return [=](ptx::DevicePtr<float> x) mutable {
                          return a.k_new = x, a.v_new.address = x.address + uint64_t(kv) * 4, a;
                        };
                      }));
  }
  for (uint32_t rows : {1u, 64u}) {
    const uint32_t vocab = 128256;
    const double n = double(rows) * vocab;
    const std::string shape = fmt::format("{} x {}", rows, vocab);
    all.push_back(one("argmax", shape, Argmax{.vec = 4, .chained = 1}, size_t(n), n * 4, n, [=](Machine& m, Random&) {
      Argmax::Args a{.ids = m.poisoned<uint32_t>(rows),
                     .x = {},
                     .best = m.put(std::vector<uint64_t>(rows)),
                     .arrived = m.put(std::vector<uint32_t>(rows)),
                     .rows = rows,
                     .cols = vocab};
      return [=](ptx::DevicePtr<float> x) mutable { return a.x = x, a; };
    }));
    sample_benches(rows, all);
  }
}

}  // namespace heddle::proof
