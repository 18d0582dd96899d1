// Prompts and single tokens of random ids, timed some times each; bytes and products are counted from the model. Where
// the device picks tokens by itself, it goes on with those.
#include "main/bench/bench_command.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "cuda/context.h"
#include "main/bench/cost.h"
#include "main/commands/process_start.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "model/forward.h"

namespace heddle {
namespace {

struct Row {
  uint32_t prompt = 0, tokens = 0;  // one of them
  uint32_t depth = 0, batch = 1;
  uint32_t threads = 0;       // 0: on a GPU
  std::vector<double> rates;  // tokens per second, ascending
  double bytes = 0;           // per second, at the median
  double products = 0;        // the same
  double limit = 0;           // bytes per second
  double median() const { return rates[rates.size() / 2]; }
};

// Sequences of random tokens on one backend.
class Bench {
 public:
  Bench(const RunningModel& running, uint32_t threads)
      : running_(running), threads_(threads), random_(std::random_device{}()) {}

  double limit = 0;  // of memory, in bytes per second

  // A prompt of so many tokens after `depth` others, which are not timed.
  Row prompt(uint32_t length, uint32_t depth, uint32_t runs) {
    Row row{.prompt = length, .depth = depth, .threads = threads_, .limit = limit};
    begin(1, depth + length);
    feed(0, 0, depth);
    for (uint32_t run = 0; run < runs; ++run) {
      const auto start = Clock::now();
      feed(0, depth, length);
      const std::span<const float> logits = running_.backend->result().logits;  // waits for it
      row.rates.push_back(length / seconds_since(start));
      expect_numbers(logits);
    }
    std::sort(row.rates.begin(), row.rates.end());
    row.products = step_cost(running_, 1).products * row.median();
    return row;
  }

  // `tokens` steps of one token for each of `batch` sequences.
  Row decode(uint32_t tokens, uint32_t depth, uint32_t batch, uint32_t runs) {
    Row row{.tokens = tokens, .depth = depth, .batch = batch, .threads = threads_, .limit = limit};
    begin(batch, depth + tokens + 1);
    for (uint32_t sequence = 0; sequence < batch; ++sequence) feed(sequence, 0, depth);
    const bool by_itself = time_steps(depth, tokens).has_value();  // graphs are made on the way
    for (uint32_t run = 0; run < runs; ++run)
      row.rates.push_back(double(tokens) * batch / (by_itself ? *time_steps(depth, tokens) : time_fed(depth, tokens)));
    std::sort(row.rates.begin(), row.rates.end());
    const StepCost cost = step_cost(running_, batch);
    const double steps = row.median() / batch;
    row.bytes = (cost.bytes + batch * cache_bytes(running_, depth + tokens / 2.0)) * steps;
    row.products = cost.products * row.median();
    return row;
  }

  void first_token() {
    begin(1, 16);
    feed(0, 0, 16);
    expect_numbers(running_.backend->result().logits);
  }

 private:
  // Seconds for so many tokens of all sequences, each step launched before the one before it is read. None where tokens
  // have to be fed.
  std::optional<double> time_steps(uint32_t depth, uint32_t tokens) {
    const auto sequences = uint32_t(batch_.blocks.size());
    if (!running_.backend->can_pick({}) || sequences > running_.backend->max_followed_rows()) return std::nullopt;
    const auto take = [&] {
      for (const auto& picked : running_.backend->result().picked)
        if (picked->id == ~0u) throw Error("{}: there was no token to pick", running_.model.name);
    };
    const auto follow = [&] { model::forward(running_.model, *running_.backend, {.follows = true}); };
    put(depth);
    batch_.picking.assign(sequences, model::Picking());
    run();
    batch_.picking.clear();
    take();
    const auto start = Clock::now();
    follow();
    for (uint32_t i = 1; i <= tokens; ++i) {
      if (i < tokens) follow();
      take();
    }
    return seconds_since(start);
  }
  double time_fed(uint32_t depth, uint32_t tokens) {
    step(depth);  // wakes the threads
    const auto start = Clock::now();
    std::span<const float> logits;
    for (uint32_t i = 0; i < tokens; ++i) logits = step(depth + i);
    const double seconds = seconds_since(start);
    expect_numbers(logits);
    return seconds;
  }

  uint32_t any_token() { return uint32_t(random_() % running_.model.vocabulary); }

  void begin(uint32_t sequences, uint32_t length) {
    const uint32_t each = (length + running_.limits.block_tokens - 1) / running_.limits.block_tokens;
    check(uint64_t(each) * sequences <= running_.limits.kv_blocks, "a cache for all sequences");
    batch_.blocks.assign(sequences, std::vector<uint32_t>(each));
    uint32_t next = 0;
    for (auto& blocks : batch_.blocks)
      for (uint32_t& block : blocks) block = next++;
  }

  void clear() {
    batch_.tokens.clear();
    batch_.positions.clear();
    batch_.sequences.clear();
  }
  void add(uint32_t sequence, uint32_t position) {
    batch_.tokens.push_back(any_token());
    batch_.positions.push_back(position);
    batch_.sequences.push_back(sequence);
  }
  void run() { model::forward(running_.model, *running_.backend, batch_); }
  void expect_numbers(std::span<const float> logits) {
    for (const float logit : logits)
      if (!std::isfinite(logit)) throw Error("{}: a logit is {}", running_.model.name, logit);
  }
  void feed(uint32_t sequence, uint32_t first, uint32_t count) {
    for (uint32_t done = 0; done < count;) {
      const uint32_t here = std::min(running_.limits.rows, count - done);
      clear();
      for (uint32_t i = 0; i < here; ++i) add(sequence, first + done + i);
      batch_.outputs = {here - 1};
      run();
      done += here;
    }
  }
  void put(uint32_t position) {  // a token of each sequence
    clear();
    for (uint32_t sequence = 0; sequence < batch_.blocks.size(); ++sequence) add(sequence, position);
    batch_.outputs.resize(batch_.blocks.size());
    std::iota(batch_.outputs.begin(), batch_.outputs.end(), 0u);
  }
  std::span<const float> step(uint32_t position) {
    put(position);
    run();
    return running_.backend->result().logits;
  }

  const RunningModel& running_;
  uint32_t threads_;
  std::mt19937_64 random_;
  model::Batch batch_;
};

uint32_t largest(const std::vector<uint32_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Tokens that the cache must hold: whole blocks for every sequence.
uint32_t cache_tokens(const BenchOptions& options) {
  const uint32_t depth = largest(options.depths), block = model::Limits().block_tokens;
  const auto whole = [&](uint64_t tokens) { return (tokens + block - 1) / block * block; };
  const uint64_t most = std::max(whole(uint64_t(depth) + largest(options.prompts)),
                                 whole(uint64_t(depth) + options.tokens + 1) * largest(options.batches));
  if (most > UINT32_MAX / 2) throw Error("expected a cache of less than 2^31 tokens, found {} asked for", most);
  return uint32_t(most);
}

std::string label_of(const Row& row) {
  std::string name = row.prompt ? fmt::format("prompt {}", row.prompt) : fmt::format("decode {}", row.tokens);
  if (row.batch > 1) name += fmt::format(" x {}", row.batch);
  if (row.depth) name += fmt::format(" after {}", row.depth);
  return name;
}

void print_row(const Row& row, std::ostream& out) {
  out << fmt::format("{:<24} {:>7}  {:>9.2f} ({:.2f} - {:.2f})", label_of(row),
                     row.threads ? std::to_string(row.threads) : "gpu", row.median(), row.rates.front(),
                     row.rates.back());
  out << fmt::format("  {:.0f} G products/s", row.products / 1e9);
  if (row.bytes > 0) out << fmt::format("  {:.1f} GB/s, {:.0f} %", row.bytes / 1e9, 100 * row.bytes / row.limit);
  out << std::endl;
}

nlohmann::ordered_json json_of(const Row& row) {
  nlohmann::ordered_json json{{"test", row.prompt ? "prompt" : "decode"},
                              {"tokens", row.prompt ? row.prompt : row.tokens},
                              {"depth", row.depth},
                              {"batch", row.batch},
                              {"threads", row.threads},
                              {"tokens_per_second", row.median()},
                              {"runs", row.rates},
                              {"products_per_second", row.products}};
  if (row.bytes > 0) {
    json["bytes_per_second"] = row.bytes;
    json["share_of_limit"] = row.bytes / row.limit;
  }
  return json;
}

}  // namespace

void describe_bench(CLI::App& command, std::ostream& out, std::ostream& err) {
  const auto options = std::make_shared<BenchOptions>();
  describe_model(command, options->model);
  describe_device(command, options->device);
  command.remove_option(command.get_option("--ctx"));
  command.remove_option(command.get_option("--threads"));
  const auto list = [&command](const char* name, std::vector<uint32_t>& values, const char* text) {
    command.add_option(name, values, text)->delimiter(',')->type_name("N,N,...")->capture_default_str();
  };
  list("-p,--prompt", options->prompts, "Lengths of prompts; 0: none");
  list("-d,--depth", options->depths, "Tokens that are there before a test begins");
  list("-b,--batch", options->batches, "Sequences that are continued at once");
  list("-t,--threads", options->threads, "0: one per core");
  command.add_option("-n,--tokens", options->tokens, "Tokens to generate for each sequence; 0: none")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("-r,--runs", options->runs, "How often each test is run; the median counts")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([&command, options, &out, &err] {
    if (command.get_subcommands().empty()) bench_model(*options, out, err);
  });
}

void bench_model(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<uint32_t> prompts = options.prompts, batches = options.batches;
  std::erase(prompts, 0u);
  std::erase(batches, 0u);
  if (options.tokens == 0) batches.clear();
  if (options.runs == 0 || options.depths.empty() || options.threads.empty() || (prompts.empty() && batches.empty()))
    throw Error("nothing to time: expected a prompt or tokens to generate, a depth, threads and a run");
  open_model(options.model);  // before minutes are spent: is it one?
  nlohmann::ordered_json json{{"results", nlohmann::ordered_json::array()}};
  uint64_t peak = 0;
  for (const uint32_t threads : options.threads) {
    DeviceOptions device = options.device;
    device.threads = threads;
    device.context = cache_tokens(options);
    forget_peak_memory();
    const auto start = Clock::now();
    const auto running = open_running(options.model, device, &err, largest(batches) > 512 ? largest(batches) : 0);
    const double loading = seconds_since(start);
    const uint32_t used = running->gpu ? 0 : threads ? threads : uint32_t(hardware_threads());
    Bench bench(*running, used);
    bench.first_token();
    const double first_token = seconds_since_process_start();
    peak = std::max(peak, peak_memory());
    bench.limit = memory_limit(*running, threads);
    forget_peak_memory();
    if (!options.json)
      out << fmt::format(
                 "{}: {}, loaded in {:.2f} s, first token {:.2f} s after the start of the program; memory gives {:.1f} "
                 "GB/s\n{:<24} {:>7}  {:>9}\n",
                 running->model.name, running->backend->describe(), loading, first_token, bench.limit / 1e9, "test",
                 "threads", "tok/s")
          << std::flush;
    const auto done = [&](const Row& row) {
      if (options.json)
        json["results"].push_back(json_of(row));
      else
        print_row(row, out);
    };
    for (const uint32_t depth : options.depths) {
      for (const uint32_t length : prompts) done(bench.prompt(length, depth, options.runs));
      for (const uint32_t batch : batches) done(bench.decode(options.tokens, depth, batch, options.runs));
    }
    json["model"] = running->model.name;
    json["backend"] = running->backend->describe();
    json["memory_bytes_per_second"] = bench.limit;
    json["load_seconds"] = loading;
    if (!json.contains("first_token_seconds")) json["first_token_seconds"] = first_token;
    peak = std::max(peak, peak_memory());
    if (running->gpu) {
      const cuda::Context context(*running->gpu);
      const uint64_t taken = memory_for(running->model, device, running->limits, &context.info()).total();
      json["device_memory_bytes"] = taken;
      if (!options.json) out << fmt::format("memory on the device {}\n", bytes_text(double(taken)));
      break;  // threads of the CPU do not matter
    }
  }
  json["peak_memory_bytes"] = peak;
  if (options.json)
    out << json.dump(2) << '\n';
  else
    out << fmt::format("peak memory {}\n", bytes_text(double(peak)));
}

}  // namespace heddle
