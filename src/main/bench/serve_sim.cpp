// Options in, one run, figures out.
#include "main/bench/serve_sim.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "main/bench/figures.h"
#include "main/bench/serve_sim_run.h"

namespace heddle {
namespace {

TrafficOptions traffic_of(const BenchServeOptions& options) {
  if (options.requests == 0 && options.long_one.empty()) throw Error("--requests: expected at least one, found 0");
  if (!(options.rate >= 0)) throw Error("--rate: expected 0 or more requests per second, found {}", options.rate);
  TrafficOptions traffic{.prompts = LengthMix("--prompt", options.prompts),
                         .answers = LengthMix("--make", options.answers),
                         .requests = options.requests,
                         .rate = options.rate,
                         .shared = options.shared,
                         .seed = options.seed};
  if (!options.long_one.empty()) traffic.long_one = long_prompt(options.long_one);
  return traffic;
}

// Tokens of the longest stream.
uint64_t longest(const TrafficOptions& traffic) {
  const uint64_t usual = traffic.requests ? uint64_t(traffic.shared) + traffic.prompts.longest() : 0;
  return std::max<uint64_t>(usual, traffic.long_one ? traffic.long_one->tokens : 0) + traffic.answers.longest();
}

// Tokens that all streams have at once, if they are as long as can be.
uint64_t enough_cache(const TrafficOptions& traffic, uint32_t at_once) {
  const uint64_t streams = at_once ? std::min(at_once, traffic.requests) : traffic.requests;
  const uint64_t usual = uint64_t(traffic.prompts.longest()) + traffic.answers.longest() + model::Limits().block_tokens;
  return traffic.shared + streams * usual + (traffic.long_one ? longest(traffic) : 0);
}

double share(uint64_t part, uint64_t all) { return all ? double(part) / double(all) : 0; }

// What is said about a run, as JSON and from there as text.
nlohmann::ordered_json figures(const Traffic& traffic, const BenchServeOptions& options) {
  const engine::Metrics& metrics = traffic.metrics;
  std::vector<double> first, gaps = traffic.gaps;
  uint64_t made = 0, prompts = 0, reused = 0;
  for (const Stream& stream : traffic.streams) {
    if (stream.finish_reason == engine::FinishReason::none) continue;
    if (stream.generated) first.push_back(stream.first - stream.due);
    made += stream.generated;
    prompts += stream.prompt;
    reused += stream.cached_tokens;
  }
  const double seconds = std::max(traffic.seconds, 1e-9);
  nlohmann::ordered_json json{
      {"requests", traffic.streams.size()},
      {"refused", traffic.refused},
      {"failed", traffic.failed},
      {"seconds", traffic.seconds},
      {"tokens_made", made},
      {"tokens_made_per_second", double(made) / seconds},
      {"prompt_tokens", prompts},
      {"prompt_tokens_reused", reused},
      {"prompt_tokens_per_second", double(prompts) / seconds},
      {"first_token_seconds", spread_of(first)},
      {"between_tokens_seconds", spread_of(gaps)},
      {"max_stall_seconds", options.engine.max_stall / 1000},
      {"steps", metrics.steps},
      {"step_seconds_max", metrics.step_seconds.largest()},
      {"sequences_per_step", {{"mean", metrics.step_sequences.mean()}, {"max", metrics.step_sequences.largest()}}},
      {"rows_per_step", {{"mean", metrics.step_rows.mean()}, {"max", metrics.step_rows.largest()}}},
      {"kv_blocks", {{"most_in_use", traffic.most_blocks}, {"all", metrics.blocks_all}}},
      {"preemptions", metrics.preemptions},
      {"speculation", {{"proposed", metrics.proposed}, {"accepted", metrics.accepted}}},
      {"answers", fmt::format("{:016x}", traffic.answers)},
  };
  if (!options.long_one.empty()) {
    const Stream& last = traffic.streams.back();
    json["long_prompt"] = {{"tokens", last.prompt}, {"first_token_seconds", last.first - last.due}};
  }
  if (!traffic.reason.empty()) json["reason"] = traffic.reason;
  return json;
}

void print(const nlohmann::ordered_json& json, const BenchServeOptions& options, std::ostream& out) {
  const auto row = [&](const char* name, const std::string& text) { print_figure(out, name, text); };
  const auto count = [](const nlohmann::ordered_json& value) { return value.get<uint64_t>(); };
  const auto number = [](const nlohmann::ordered_json& value) { return value.get<double>(); };
  const auto ms = [&](const nlohmann::ordered_json& value) { return ms_text(number(value)); };
  const auto& between = json["between_tokens_seconds"];
  row("requests", fmt::format("{} in {:.2f} s, {} refused, {} failed", count(json["requests"]), number(json["seconds"]),
                              count(json["refused"]), count(json["failed"])));
  if (json.contains("reason")) row("", json["reason"].get<std::string>());
  row("tokens made",
      fmt::format("{}, {:.1f} per second", count(json["tokens_made"]), number(json["tokens_made_per_second"])));
  const uint64_t prompts = count(json["prompt_tokens"]), reused = count(json["prompt_tokens_reused"]);
  row("prompt tokens", fmt::format("{}, {:.1f} per second; {} reused ({:.0f} %)", prompts,
                                   number(json["prompt_tokens_per_second"]), reused, 100 * share(reused, prompts)));
  row("first token", spread_text(json["first_token_seconds"]));
  row("between tokens", spread_text(between));
  row("longest stall",
      fmt::format("{} (prompts of others may cause {})", ms(between["max"]), ms(json["max_stall_seconds"])));
  if (json.contains("long_prompt"))
    row("long prompt", fmt::format("{} tokens, first token after {}", count(json["long_prompt"]["tokens"]),
                                   ms(json["long_prompt"]["first_token_seconds"])));
  row("steps", fmt::format("{}, of {:.1f} sequences (at most {:.0f}) and {:.1f} rows (at most {:.0f}); the longest {}",
                           count(json["steps"]), number(json["sequences_per_step"]["mean"]),
                           number(json["sequences_per_step"]["max"]), number(json["rows_per_step"]["mean"]),
                           number(json["rows_per_step"]["max"]), ms(json["step_seconds_max"])));
  row("KV cache",
      fmt::format("at most {} of {} blocks in use, {}; {} preemptions", count(json["kv_blocks"]["most_in_use"]),
                  count(json["kv_blocks"]["all"]), name_of(options.device.kv), count(json["preemptions"])));
  const auto& speculation = json["speculation"];
  row("speculation", fmt::format("{}: {} proposed, {} accepted ({:.0f} %)", options.engine.speculation,
                                 count(speculation["proposed"]), count(speculation["accepted"]),
                                 100 * share(count(speculation["accepted"]), count(speculation["proposed"]))));
  row("answers", json["answers"].get<std::string>());
}

}  // namespace

void describe_bench_serve(CLI::App& bench, std::ostream& out, std::ostream& err) {
  const auto options = std::make_shared<BenchServeOptions>();
  CLI::App* command =
      bench.add_subcommand("serve-sim", "Many requests at once, made up by a seed: how fast, and how evenly");
  describe_model(*command, options->model);
  describe_device(*command, options->device);
  const auto option = [command](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type)->capture_default_str();
  };
  option("-n,--requests", options->requests, "How many", "N");
  option("--rate", options->rate, "Requests per second, at random times; 0: all at once", "R");
  option("-c,--concurrency", options->at_once,
         "No more than so many at once, the next when one ends; 0: as they arrive", "N");
  option("-p,--prompt", options->prompts, "Lengths of prompts: 512, or 16-512, or 512:0.8,4096:0.2", "MIX");
  option("-m,--make", options->answers, "Lengths of answers, the same way", "MIX");
  option("--shared", options->shared, "Tokens that all prompts begin with, before their own", "N");
  option("--long", options->long_one, "One more prompt of L tokens after S seconds, or without @S when all streams run",
         "L@S");
  describe_engine(*command, options->engine);
  option("--kv-tokens", options->cache_tokens, "Tokens of the KV cache; 0: enough for all that are there at once", "N");
  option("--seed", options->seed, "Of the traffic", "N");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &out, &err] { bench_serve(*options, out, err); });
}

void bench_serve(const BenchServeOptions& options, std::ostream& out, std::ostream& err) {
  const TrafficOptions wanted = traffic_of(options);
  engine::EngineOptions with = engine_options(options.engine);
  with.max_waiting = UINT32_MAX;
  DeviceOptions device = options.device;
  const uint64_t cache = options.cache_tokens ? options.cache_tokens : enough_cache(wanted, options.at_once);
  device.cache_tokens = uint32_t(std::min<uint64_t>(cache, INT32_MAX));
  const auto start = Clock::now();
  const auto running = open_running(options.model, device, &err, options.engine.rows);
  const double loading = seconds_since(start);
  if (longest(wanted) > running->model.context)
    throw Error(
        "{}: expected streams of at most {} tokens, the context, found {} asked for (--prompt, --shared, --long and "
        "--make)",
        running->model.name, running->model.context, longest(wanted));

  engine::Engine engine(running->model, *running->backend, running->limits, with);
  const std::vector<Arrival> arrivals = make_traffic(wanted, running->model.vocabulary);
  const uint64_t tokens = uint64_t(running->limits.kv_blocks) * running->limits.block_tokens;
  if (!options.json)
    out << fmt::format("{}: {}, loaded in {:.2f} s; a KV cache of {} tokens, batches of {} rows\n", running->model.name,
                       running->backend->describe(), loading, tokens, running->limits.rows)
        << std::flush;
  const Traffic traffic = run_traffic(engine, arrivals, options.at_once, with.speculation, &err);
  nlohmann::ordered_json json{
      {"model", running->model.name}, {"backend", running->backend->describe()}, {"kv_tokens", tokens}};
  json.update(figures(traffic, options));
  if (options.json)
    out << json.dump(2) << '\n';
  else
    print(json, options, out);
  if (traffic.failed) throw Error("{} requests failed: {}", traffic.failed, traffic.reason);
}

}  // namespace heddle
