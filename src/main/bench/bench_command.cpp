// Random tokens through the engine, as a request takes them: prompts to the logits after the last token, answers from
// the moment that all streams have their first token.
#include "main/bench/bench_command.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "cpu/cpu.h"
#include "cuda/context.h"
#include "cuda/cubin_cache.h"
#include "gpu/weights.h"
#include "grammar/gbnf.h"
#include "grammar/token_masks.h"
#include "main/bench/embed_bench.h"
#include "main/bench/forced_acceptance.h"
#include "main/bench/html_report.h"
#include "main/commands/commands.h"
#include "main/commands/constraint_options.h"
#include "main/commands/generate.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "main/process.h"
#include "main/progress.h"
#include "proof/bench.h"

namespace heddle {

// --- what a step reads ----------------------------------------------------------------------------------------------
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
  double bytes = 0;
  model::each_attention(running.model, [&](const model::Attention& a) {
    const double seen = a.window ? std::min<double>(position, a.window) : position;
    bytes += seen * double(model::kv_bytes(a, running.limits.kv));
  });
  return bytes;
}

double read_bandwidth(const RunningModel& running, uint32_t threads) {
  const auto bytes = uint64_t(step_bytes(running, 1));
  if (running.split) return 0;  // of two devices, which wait for each other
  if (!running.gpu) return cpu::read_bandwidth(threads, bytes);
  cuda::Context context(*running.gpu);
  if (bytes <= context.info().l2_bytes) return 0;
  cuda::CubinCache cache = cuda::CubinCache::from_environment();
  gpu::Library library(std::move(context), &cache);
  proof::GpuMachine machine(library);
  return proof::streaming_limit(machine);
}

// --- the tests ------------------------------------------------------------------------------------------------------
namespace {

using text::TokenId;

struct Row {
  uint32_t prompt = 0, tokens = 0;  // one of them
  uint32_t depth = 0, batch = 1;
  uint32_t threads = 0;                      // 0: on a GPU
  std::vector<double> rates;                 // tokens per second, ascending
  double rows = 0;                           // of a step, the mean; 0: not known
  double bytes = 0;                          // read per second, at the median; 0: not known
  double share = 0;                          // of the bandwidth; 0: not known
  std::optional<model::SplitTimes> split{};  // of all runs
  double median() const { return rates[rates.size() / 2]; }
};

std::string label_of(const Row& row) {
  std::string name = row.prompt ? fmt::format("prompt {}", row.prompt) : fmt::format("decode {}", row.tokens);
  if (row.batch > 1) name += fmt::format(" x {}", row.batch);
  if (row.depth) name += fmt::format(" after {}", row.depth);
  return name;
}

// KV blocks that an engine needs to run `batch` sequences of `tokens` at once: one more each, to grow into.
uint64_t blocks_needed(uint64_t tokens, uint64_t batch) {
  const uint64_t block = model::Limits().block_tokens;
  return ((tokens + block - 1) / block + 1) * batch;
}

// JSON as it is asked for, in a list that does not end.
constexpr std::string_view endless_json = R"(root ::= "[" item (", " item)*
item ::= "{\"name\": " string ", \"count\": " number ", \"tags\": [" string (", " string)* "]}"
string ::= "\"" [^"\\\x00-\x1f]{0,40} "\""
number ::= "-"? [0-9]{1,9}
)";

class Bench {
 public:
  Bench(const RunningModel& running, uint32_t threads, const std::ostream* err, std::optional<double> accept)
      : running_(running),
        threads_(threads),
        err_(err),
        forced_(*running.backend, running.model.vocabulary, accept.value_or(0)),
        engine_(running.model, accept ? forced_ : *running.backend, running.limits, engine_options(running, accept)),
        random_(std::random_device{}()) {}

  // What is generated from now on is JSON.
  void constrain() {
    constraint_ = constraint_for(running_, std::make_shared<grammar::CompiledGrammar>(grammar::gbnf(endless_json)));
    constraint_->end_tokens.clear();
  }

  double bandwidth = 0;  // bytes per second; 0: not known

  const engine::Metrics& metrics() const { return engine_.metrics(); }

  static constexpr uint32_t first_prompt = 16;  // tokens before the first token that is timed
  void first_token() { generate({random_tokens(first_prompt)}, 1); }

  // A prompt of `length` tokens after `depth` others, which are computed before.
  Row prompt(uint32_t length, uint32_t depth, uint32_t runs) {
    Row row{.prompt = length, .depth = depth, .threads = threads_};
    expect_room(depth + length, 1);
    const std::vector<TokenId> before = random_tokens(depth);
    ProgressLine progress(err_);
    progress.show(label_of(row) + ": what comes before");
    if (depth) time_prompt(before);
    running_.backend->split_times();  // from here on
    for (uint32_t run = 0; run < runs; ++run) {
      progress.count(label_of(row) + ":", run, runs, "runs");
      std::vector<TokenId> text = before;
      const std::vector<TokenId> own = random_tokens(length);
      text.insert(text.end(), own.begin(), own.end());
      row.rates.push_back(time_prompt(text));
    }
    row.split = running_.backend->split_times();
    std::sort(row.rates.begin(), row.rates.end());
    return row;
  }

  // `tokens` for each of `batch` sequences, after `depth` others.
  Row decode(uint32_t tokens, uint32_t depth, uint32_t batch, uint32_t runs) {
    Row row{.tokens = tokens, .depth = depth, .batch = batch, .threads = threads_};
    expect_room(depth + 1 + tokens, batch);
    std::vector<std::vector<TokenId>> texts;
    ProgressLine progress(err_);
    for (uint32_t i = 0; i < batch; ++i) {
      progress.count(label_of(row) + ":", i, batch, "prompts");
      texts.push_back(random_tokens(depth + 1));
      time_prompt(texts.back());  // from the KV cache later, so that all streams begin at once
    }
    if (running_.gpu || running_.drafts())
      generate(texts, tokens + 1);  // makes graphs, and the draft reads the prompts
    running_.backend->split_times();
    double rows_of_step = batch;
    for (uint32_t run = 0; run < runs; ++run) {
      progress.count(label_of(row) + ":", run, runs, "runs");
      const Generated generated = generate(texts, tokens + 1);
      row.rates.push_back(generated.rate);
      rows_of_step = generated.rows_of_step;
    }
    row.split = running_.backend->split_times();
    std::sort(row.rates.begin(), row.rates.end());
    if (running_.drafts()) return row;  // what a step reads depends on the proposals
    row.rows = running_.backend->computes_rows_in_groups() ? rows_of_step : batch;  // streams may take turns
    const double bytes =
        step_bytes(running_, uint32_t(std::lround(row.rows))) + row.rows * cache_bytes(running_, depth + tokens / 2.0);
    row.bytes = bytes * row.median() / row.rows;
    if (bandwidth > 0) {
      bandwidth = std::max(bandwidth, row.bytes);  // other programs may have run while it was measured
      row.share = row.bytes / bandwidth;
    }
    return row;
  }

 private:
  static engine::EngineOptions engine_options(const RunningModel& running, std::optional<double> accept) {
    engine::EngineOptions options = single_user(running);
    if (accept) options.speculation = engine::Speculation::on;
    return options;
  }

  std::vector<TokenId> random_tokens(uint32_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = TokenId(random_() % running_.model.vocabulary);
    return tokens;
  }
  void expect_room(uint64_t tokens, uint32_t batch) const {
    const uint64_t needed = blocks_needed(tokens, batch);
    if (needed > running_.limits.kv_blocks)
      throw Error("{}: expected a KV cache of {} tokens for this, found memory for {}", running_.model.name,
                  needed * running_.limits.block_tokens,
                  uint64_t(running_.limits.kv_blocks) * running_.limits.block_tokens);
  }

  // Tokens per second of what of the prompt was not in the KV cache, to the logits after its last token.
  double time_prompt(const std::vector<TokenId>& text) {
    std::optional<engine::Event> end;
    engine_.submit({.prompt = text,
                    .max_tokens = 0,
                    .on_prompt_logits =
                        [this](uint32_t, std::span<const float> logits) {
                          for (const float logit : logits)
                            if (!std::isfinite(logit)) throw Error("{}: a logit is {}", running_.model.name, logit);
                        },
                    .logits_from = uint32_t(text.size() - 1)},
                   [&](const engine::Event& event) { end = event; });
    while (!end) engine_.step();
    expect_fine(*end);
    return end->computed_tokens / (end->timing.queue + end->timing.prompt);
  }

  struct Generated {
    double rate = 0;          // tokens per second of all streams together
    double rows_of_step = 1;  // the mean
  };
  // In the steps from when all streams have a token to when the first has ended.
  Generated generate(const std::vector<std::vector<TokenId>>& texts, uint32_t tokens) {
    size_t started = 0, ended = 0, in_step = 0, counted = 0, steps = 0;
    std::optional<engine::Event> failed;
    for (const std::vector<TokenId>& text : texts) {
      engine::Request request{.prompt = text, .max_tokens = tokens};
      request.sampling.temperature = 0;
      request.constraint = constraint_;
      engine_.submit(std::move(request), [&, first = true](const engine::Event& event) mutable {
        const bool end = event.finish_reason != engine::FinishReason::none;
        ended += end;
        in_step += !end;
        started += !end && std::exchange(first, false);
        if (event.finish_reason == engine::FinishReason::failed) failed = event;
      });
    }
    Clock::time_point start, last;
    while (!engine_.idle()) {
      const bool all_started = started == texts.size(), all_run = all_started && ended == 0;
      in_step = 0;
      engine_.step();
      if (!all_started) start = Clock::now();
      if (!all_run || in_step == 0) continue;
      counted += in_step;
      ++steps;
      last = Clock::now();
    }
    if (failed) expect_fine(*failed);
    if (counted == 0) return {};
    return {double(counted) / std::chrono::duration<double>(last - start).count(), double(counted) / double(steps)};
  }

  void expect_fine(const engine::Event& event) const {
    if (event.finish_reason == engine::FinishReason::failed) throw Error("{}", event.reason);
  }

  const RunningModel& running_;
  const uint32_t threads_;
  const std::ostream* err_;
  ForcedAcceptance forced_;  // used where acceptance is forced
  std::optional<engine::Constrained> constraint_;
  engine::Engine engine_;
  std::mt19937_64 random_;
};

uint32_t largest(const std::vector<uint32_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// One sequence's tokens at most, and those of all at once.
void set_sizes(const BenchOptions& options, const std::vector<uint32_t>& prompts, const std::vector<uint32_t>& batches,
               DeviceOptions& device) {
  const uint64_t depth = largest(options.depths), prompt = depth + largest(prompts),
                 answer = depth + options.tokens + 1;
  const uint64_t first = Bench::first_prompt + 1;
  const uint64_t blocks =
      std::max({blocks_needed(first, 1), blocks_needed(prompt, 1), blocks_needed(answer, largest(batches))});
  const uint64_t tokens = blocks * model::Limits().block_tokens;
  if (tokens > INT32_MAX) throw Error("expected a cache of less than 2^31 tokens, found {} asked for", tokens);
  device.context = uint32_t(std::max({first, prompts.empty() ? 0 : prompt, batches.empty() ? 0 : answer}));
  device.cache_tokens = uint32_t(tokens);
  device.at_once = std::max(1u, largest(batches));
}

void print_header(std::ostream& out) {
  out << fmt::format("{:<24} {:>7} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "test", "threads", "tok/s", "slowest",
                     "fastest", "GB/s", "of limit")
      << std::flush;
}
void print_row(const Row& row, std::ostream& out) {
  out << fmt::format("{:<24} {:>7} {:>10.2f} {:>10.2f} {:>10.2f}", label_of(row),
                     row.threads ? std::to_string(row.threads) : "gpu", row.median(), row.rates.front(),
                     row.rates.back());
  if (row.bytes > 0) out << fmt::format(" {:>8.1f}", row.bytes / 1e9);
  if (row.share > 0) out << fmt::format(" {:>6.0f} %", 100 * row.share);
  if (row.split && row.split->batches) {
    const double batches = double(row.split->batches), ms = 1e3 / batches;
    out << fmt::format(
        "\n  a step: {:.2f} ms on the CPU, {:.2f} launching, {:.2f} waiting for the GPU; {:.0f} crossings",
        row.split->host * ms, row.split->launch * ms, row.split->wait * ms, double(row.split->crossings) / batches);
  }
  out << std::endl;
}

nlohmann::ordered_json json_of(const Row& row) {
  nlohmann::ordered_json json{{"test", row.prompt ? "prompt" : "decode"},
                              {"tokens", row.prompt ? row.prompt : row.tokens},
                              {"depth", row.depth},
                              {"batch", row.batch},
                              {"threads", row.threads},
                              {"tokens_per_second", row.median()},
                              {"runs", row.rates}};
  if (row.rows > 0) json["rows_per_step"] = row.rows;
  if (row.bytes > 0) json["bytes_per_second"] = row.bytes;
  if (row.share > 0) json["share_of_limit"] = row.share;
  if (row.split && row.split->batches) {
    const double batches = double(row.split->batches);
    json["split_step"] = {{"cpu_seconds", row.split->host / batches},
                          {"launch_seconds", row.split->launch / batches},
                          {"wait_seconds", row.split->wait / batches},
                          {"crossings", double(row.split->crossings) / batches}};
  }
  return json;
}

std::string draft_name(const RunningModel& running) {
  return running.draft ? running.draft->model.name : "by the model's own head";
}

}  // namespace

void describe_bench(CLI::App& command, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<BenchOptions>();
  describe_model(command, options->model);
  describe_device(command, options->device);
  describe_draft(command, options->device);
  describe_ranks(command, options->device.ranks);
  command
      .add_option_function<double>(
          "--draft-accept", [options](double share) { options->draft_accept = share; },
          "Take this share of the draft's proposals as right, 0 to 1: for timing random weights")
      ->type_name("P")
      ->group("");  // a tool for measuring, not for users
  command.add_flag("--constrained", options->constrained, "Generate JSON, as a constraint makes a model do");
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
  describe_json(command, options->json);
  describe_html(command, options->html);
  command.callback([&command, options, &out, &err, &status] {
    if (command.get_subcommands().empty()) status = bench_model(*options, out, err);
  });
}

int bench_model(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<uint32_t> prompts = options.prompts, batches = options.batches;
  std::erase(prompts, 0u);
  std::erase(batches, 0u);
  if (options.tokens == 0) batches.clear();
  if (options.runs == 0 || options.depths.empty() || options.threads.empty() || (prompts.empty() && batches.empty()))
    throw Error("nothing to time: expected a prompt or tokens to generate, a depth, threads and a run");
  if (options.draft_accept && options.device.draft.empty() && !options.device.mtp)
    throw Error("--draft-accept: expected --draft or --mtp with it, found neither");
  if (options.draft_accept && !(*options.draft_accept >= 0 && *options.draft_accept <= 1))
    throw Error("--draft-accept: expected a share of 0 to 1, found {}", *options.draft_accept);
  if (options.draft_accept && options.constrained)
    throw Error("--draft-accept: expected no --constrained with it: tokens are taken that no grammar allows");
  if (is_encoder(options.model)) {  // an Error if it is no model
    bench_encoder(options, out, err);
    return 0;
  }
  HtmlReport report(options.html);
  nlohmann::ordered_json json{{"results", nlohmann::ordered_json::array()}};
  uint64_t peak = 0;
  for (const uint32_t threads : options.threads) {
    DeviceOptions device = options.device;
    device.threads = threads;
    set_sizes(options, prompts, batches, device);
    device.untrained_context = true;
    const uint32_t rows = largest(batches) > 512 ? largest(batches) : 0;
    if (follows(device)) {
      if (const int status = follow_ranks(options.model, device, err, rows)) return status;
      continue;
    }
    forget_peak_memory();
    const auto start = Clock::now();
    const auto running = open_running(options.model, device, &err, rows);
    const double loading = seconds_since(start);
    Bench bench(*running,
                running->gpu && !running->split ? 0
                : threads                       ? threads
                                                : uint32_t(hardware_threads()),
                &err, options.draft_accept);
    if (options.constrained) bench.constrain();
    bench.first_token();
    const double first_token = seconds_since(start);
    peak = std::max(peak, peak_memory());
    bench.bandwidth = read_bandwidth(*running, threads);
    forget_peak_memory();
    if (!options.json) {
      out << fmt::format("{}: {}\nloaded in {:.2f} s, first token after {:.2f} s", running->model.name,
                         running->backend->describe(), loading, first_token);
      if (bench.bandwidth > 0)
        out << fmt::format("; {} of weights can be read at {:.1f} GB/s", bytes_text(step_bytes(*running, 1)),
                           bench.bandwidth / 1e9);
      out << '\n';
      if (running->drafts())
        out << fmt::format("draft {}: up to {} tokens at once{}\n", draft_name(*running), running->draft_tokens,
                           options.draft_accept ? ", of which a share is taken as right: the text is meaningless" : "");
      print_header(out);
    }
    const auto done = [&](const Row& row) {
      json["results"].push_back(json_of(row));
      if (!options.json) print_row(row, out);
    };
    for (const uint32_t depth : options.depths) {
      for (const uint32_t length : prompts) done(bench.prompt(length, depth, options.runs));
      for (const uint32_t batch : batches) done(bench.decode(options.tokens, depth, batch, options.runs));
    }
    if (!json.contains("model")) {  // of the first number of threads
      json["model"] = running->model.name;
      json["backend"] = running->backend->describe();
      if (bench.bandwidth > 0) json["memory_bytes_per_second"] = bench.bandwidth;
      json["load_seconds"] = loading;
      json["first_token_seconds"] = first_token;
    }
    peak = std::max(peak, peak_memory());
    if (running->drafts()) {
      const uint64_t proposed = bench.metrics().draft_proposed, accepted = bench.metrics().draft_accepted;
      json["draft"] = {{"model", draft_name(*running)}, {"proposed", proposed}, {"accepted", accepted}};
      if (options.draft_accept) json["draft"]["forced_share"] = *options.draft_accept;
      if (!options.json)
        out << fmt::format("draft proposed {} tokens, {} accepted ({:.0f} %{})\n", proposed, accepted,
                           100 * double(accepted) / double(std::max<uint64_t>(proposed, 1)),
                           options.draft_accept ? ", forced" : "");
    }
    if (running->gpu) {
      const cuda::Context context(*running->gpu);
      uint64_t taken = running->split ? running->split->on_gpu.total()
                                      : memory_for(running->model, device, running->limits, &context.info()).total();
      if (running->draft)
        taken += memory_for(running->draft->model, device, running->draft->limits, &context.info()).total();
      json["device_memory_bytes"] = taken;
      if (!options.json) out << fmt::format("memory on the device {}\n", bytes_text(double(taken)));
      if (!running->split) break;  // threads of the CPU do not matter
    }
  }
  json["peak_memory_bytes"] = peak;
  report.write(fmt::format("heddle bench {}", json["model"].get<std::string>()), json);
  if (options.json)
    out << json.dump(2) << '\n';
  else
    out << fmt::format("peak memory {}\n", bytes_text(double(peak)));
  return 0;
}

}  // namespace heddle
