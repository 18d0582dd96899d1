// cpu_bench MODEL.gguf [threads] [isa]: tokens per second of the CPU backend: prompts of 128 and 512 tokens, then one
// token at a time, and the memory it took. Times are the best and the median of some runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "model/forward.h"
#include "model/load.h"

namespace {

using namespace heddle;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// VmRSS or VmHWM: now, or at most
uint64_t memory_kib(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == which) {
      uint64_t kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

// `count` tokens from position `first` on, logits of the last.
double step(const model::Model& model, model::Backend& backend, uint32_t first, uint32_t count,
            const std::vector<uint32_t>& blocks) {
  model::Batch batch;
  for (uint32_t i = 0; i < count; ++i) {
    batch.tokens.push_back((first + i) * 7919 % model.vocabulary);
    batch.positions.push_back(first + i);
    batch.sequences.push_back(0);
  }
  batch.blocks = {blocks};
  batch.outputs = {count - 1};
  const auto start = std::chrono::steady_clock::now();
  model::forward(model, backend, batch);
  return seconds_since(start);
}

void report(const char* what, std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  fmt::print("{:<12} best {:8.2f} tok/s, median {:8.2f}, worst {:8.2f} ({} runs)\n", what, rates.back(),
             rates[rates.size() / 2], rates.front(), rates.size());
}

void bench(const std::string& path, const cpu::Options& options, uint32_t runs) {
  const auto start = std::chrono::steady_clock::now();
  const model::Model model = model::load(formats::open_checkpoint(path));
  const model::Limits limits{.rows = 512, .kv_blocks = 24, .block_tokens = 32};
  const auto backend = cpu::make_cpu(model, limits, options);
  fmt::print("{}: {}, loaded in {:.2f} s, {} MiB resident\n", model.name, backend->describe(), seconds_since(start),
             memory_kib("VmRSS:") >> 10);
  std::vector<uint32_t> blocks(limits.kv_blocks);
  std::iota(blocks.begin(), blocks.end(), 0u);
  for (const uint32_t prompt : {128u, 512u}) {
    std::vector<double> rates;
    for (uint32_t i = 0; i < runs; ++i) rates.push_back(prompt / step(model, *backend, 0, prompt, blocks));
    report(fmt::format("prompt {}", prompt).c_str(), rates);
  }
  std::vector<double> rates;
  for (uint32_t i = 0; i < 16 * runs; ++i) rates.push_back(1 / step(model, *backend, i % 32, 1, blocks));
  report("decode", rates);
  fmt::print("{} MiB resident, {} at most\n", memory_kib("VmRSS:") >> 10, memory_kib("VmHWM:") >> 10);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print("usage: cpu_bench MODEL.gguf [threads] [isa] [runs]\n");
    return 2;
  }
  try {
    cpu::Options options;
    if (count > 2) options.threads = uint32_t(std::atoi(arguments[2]));
    if (count > 3) options.isa = arguments[3];
    bench(arguments[1], options, count > 4 ? uint32_t(std::atoi(arguments[4])) : 3);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
