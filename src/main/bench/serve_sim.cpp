// Options in, one run on one thread, figures out: requests that have arrived are submitted, the engine does a step, and
// callbacks note the time.
#include "main/bench/serve_sim.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "main/bench/html_report.h"
#include "main/bench/traffic.h"
#include "main/commands/commands.h"
#include "main/progress.h"

namespace heddle {
namespace {

TrafficOptions traffic_of(const BenchServeOptions& options) {
  if (options.requests == 0 && options.long_one.empty()) throw Error("--requests: expected at least one, found 0");
  if (!(options.rate >= 0)) throw Error("--rate: expected 0 or more requests per second, found {}", options.rate);
  TrafficOptions traffic{.prompts = LengthMix("--prompt", options.prompts),
                         .answers = LengthMix("--generate", options.answers),
                         .requests = options.requests,
                         .rate = options.rate,
                         .shared = options.shared,
                         .seed = options.seed,
                         .turns = options.turns};
  if (options.turns == 0) throw Error("--turns: expected at least one, found 0");
  if (options.turns > 1 && !options.long_one.empty())
    throw Error("--turns: expected one turn with --long, found {}", options.turns);
  if (!options.long_one.empty()) traffic.long_one = long_prompt(options.long_one);
  return traffic;
}

// Tokens of all turns of a conversation, without those that all begin with.
uint64_t longest_turns(const TrafficOptions& traffic) {
  return traffic.turns * (uint64_t(traffic.prompts.longest()) + traffic.answers.longest());
}
// Tokens of the longest stream.
uint64_t longest(const TrafficOptions& traffic) {
  const uint64_t usual = traffic.requests ? traffic.shared + longest_turns(traffic) : 0;
  return std::max<uint64_t>(usual, traffic.long_one ? traffic.long_one->tokens + traffic.answers.longest() : 0);
}

// Tokens that all streams have at once, if they are as long as can be.
uint64_t enough_cache(const TrafficOptions& traffic, uint32_t at_once) {
  const uint64_t streams = at_once ? std::min(at_once, traffic.requests) : traffic.requests;
  const uint64_t usual = longest_turns(traffic) + model::Limits().block_tokens;
  return traffic.shared + streams * usual + (traffic.long_one ? longest(traffic) : 0);
}

// --- the run --------------------------------------------------------------------------------------------------------
struct Stream {
  double due = 0;              // seconds; when it arrived, whether or not the engine had time for it
  double first = 0, last = 0;  // tokens
  uint32_t prompt = 0, cached_tokens = 0, generated = 0;
  engine::FinishReason finish_reason = engine::FinishReason::none;  // none: refused, or the turn before it ended early
};

struct Traffic {
  std::vector<Stream> streams;     // (turns, conversations), as they arrived
  std::vector<double> gaps;        // seconds between tokens of a stream, of all of them
  double seconds = 0;              // from the first arrival to the last token
  uint64_t answers = 0;            // a hash of all tokens of all streams: equal if all completions are
  uint64_t max_blocks_in_use = 0;  // of the KV cache
  uint32_t refused = 0, failed = 0;
  std::string reason;  // of the first that was refused or failed
  engine::Metrics metrics;
};

class Run {
 public:
  Run(engine::Engine& engine, std::vector<Arrival> arrivals, uint32_t turns, uint32_t at_once,
      engine::Speculation speculation, const std::ostream* log)
      : engine_(engine),
        conversations_(uint32_t(arrivals.size())),
        arrivals_(std::move(arrivals)),
        at_once_(at_once),
        speculation_(speculation),
        progress_(log) {
    arrivals_.resize(size_t(conversations_) * turns);
    traffic_.streams.resize(arrivals_.size());
    hashes_.resize(arrivals_.size());
  }

  Traffic run() {
    const size_t timed = arrivals_[conversations_ - 1].at ? conversations_ : conversations_ - 1;
    std::vector<uint32_t> order(timed);  // the long one may come between the others
    for (uint32_t i = 0; i < timed; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return arrivals_[a].at < arrivals_[b].at; });
    bool untimed = timed < conversations_;
    for (size_t next = 0;;) {
      for (; !later_.empty() && has_room(); later_.pop_front())
        submit(later_.front(), traffic_.streams[later_.front()].due);
      for (; next < order.size() && has_room() && *arrivals_[order[next]].at <= now(); ++next)
        submit(order[next], at_once_ ? now() : *arrivals_[order[next]].at);
      const bool all_run = in_flight_ > 0 && without_token_ == 0 && (next == order.size() || !has_room());
      if (untimed && (all_run || (next == order.size() && in_flight_ == 0))) {
        untimed = false;
        submit(conversations_ - 1, now());
      }
      if (engine_.step()) {
        traffic_.max_blocks_in_use = std::max(traffic_.max_blocks_in_use, engine_.metrics().blocks_in_use);
        progress_.count("finished", finished_, arrivals_.size(), "requests");
        continue;
      }
      if (in_flight_ > 0 || !later_.empty()) continue;
      if (next == order.size()) break;
      std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0., *arrivals_[order[next]].at - now())));
    }
    for (const uint64_t hash : hashes_) traffic_.answers = mixed(traffic_.answers, hash);
    traffic_.metrics = engine_.metrics();
    return std::move(traffic_);
  }

 private:
  double now() const { return seconds_since(start_); }
  bool has_room() const { return at_once_ == 0 || in_flight_ < at_once_; }
  static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
  }

  void submit(uint32_t index, double due) {
    const Arrival& arrival = arrivals_[index];
    Stream& stream = traffic_.streams[index];
    stream.due = due;
    stream.prompt = uint32_t(arrival.prompt.size());
    engine::Request request{.prompt = arrival.prompt, .max_tokens = arrival.answer, .speculation = speculation_};
    request.sampling.temperature = 0;
    try {
      engine_.submit(std::move(request), [this, index](const engine::Event& event) { note(index, event); });
    } catch (const Error& error) {
      ++traffic_.refused;
      say(error.what());
      return;
    }
    ++in_flight_;
    ++without_token_;
  }

  void note(uint32_t index, const engine::Event& event) {
    Stream& stream = traffic_.streams[index];
    const double time = now();
    if (event.finish_reason == engine::FinishReason::none) {
      if (stream.generated == 0) {
        stream.first = time;
        --without_token_;
      } else {
        traffic_.gaps.push_back(time - stream.last);
      }
      ++stream.generated;
      stream.last = time;
      hashes_[index] = mixed(hashes_[index], event.pick.id + 1);
      if (!arrivals_[index].later.empty()) arrivals_[index].prompt.push_back(event.pick.id);
      traffic_.seconds = time;
      return;
    }
    if (stream.generated == 0) --without_token_;
    --in_flight_;
    ++finished_;
    stream.finish_reason = event.finish_reason;
    stream.cached_tokens = event.cached_tokens;
    if (event.finish_reason != engine::FinishReason::failed) return next_turn(index, time);
    ++traffic_.failed;
    say(event.reason);
  }
  // After the answer, which is part of the prompt by now.
  void next_turn(uint32_t index, double due) {
    Arrival& before = arrivals_[index];
    if (before.later.empty()) return;
    const uint32_t next = index + conversations_;
    Arrival& arrival = arrivals_[next];
    const Arrival::Turn& turn = before.later.front();
    arrival = {.prompt = std::move(before.prompt), .answer = turn.answer};
    arrival.prompt.insert(arrival.prompt.end(), turn.prompt.begin(), turn.prompt.end());
    arrival.later.assign(before.later.begin() + 1, before.later.end());
    traffic_.streams[next].due = due;
    later_.push_back(next);
  }
  void say(const std::string& reason) {
    if (traffic_.reason.empty()) traffic_.reason = reason;
  }

  engine::Engine& engine_;
  const uint32_t conversations_;
  std::vector<Arrival> arrivals_;  // (turns, conversations)
  std::deque<uint32_t> later_;     // turns after the first that are due
  uint32_t at_once_;
  engine::Speculation speculation_;
  Clock::time_point start_ = Clock::now();
  uint32_t in_flight_ = 0, without_token_ = 0, finished_ = 0;  // streams
  ProgressLine progress_;
  std::vector<uint64_t> hashes_;  // of the answers
  Traffic traffic_;
};

// --- figures --------------------------------------------------------------------------------------------------------
double share(uint64_t part, uint64_t all) { return all ? double(part) / double(all) : 0; }

// Of the first turns of all conversations, of the second ones, and so on.
nlohmann::ordered_json turn_figures(const Traffic& traffic, uint32_t turns) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const size_t conversations = traffic.streams.size() / turns;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    std::vector<double> first;
    uint64_t prompts = 0, cached = 0;
    for (const Stream& stream : std::span(traffic.streams).subspan(turn * conversations, conversations)) {
      if (stream.finish_reason == engine::FinishReason::none) continue;
      if (stream.generated) first.push_back(stream.first - stream.due);
      prompts += stream.prompt;
      cached += stream.cached_tokens;
    }
    all.push_back({{"prompt_tokens", prompts},
                   {"cached_tokens", cached},
                   {"computed_tokens", prompts - cached},
                   {"first_token_seconds", percentiles(first)}});
  }
  return all;
}

// The figures of a run as JSON, which the table is printed from.
nlohmann::ordered_json figures(const Traffic& traffic, const BenchServeOptions& options) {
  const engine::Metrics& metrics = traffic.metrics;
  std::vector<double> first, gaps = traffic.gaps;
  uint64_t generated = 0, prompts = 0, cached = 0;
  for (const Stream& stream : traffic.streams) {
    if (stream.finish_reason == engine::FinishReason::none) continue;
    if (stream.generated) first.push_back(stream.first - stream.due);
    generated += stream.generated;
    prompts += stream.prompt;
    cached += stream.cached_tokens;
  }
  const double seconds = std::max(traffic.seconds, 1e-9);
  nlohmann::ordered_json json{
      {"requests", traffic.streams.size()},
      {"refused", traffic.refused},
      {"failed", traffic.failed},
      {"seconds", traffic.seconds},
      {"generated_tokens", generated},
      {"generated_tokens_per_second", double(generated) / seconds},
      {"prompt_tokens", prompts},
      {"cached_tokens", cached},
      {"prompt_tokens_per_second", double(prompts) / seconds},
      {"first_token_seconds", percentiles(first)},
      {"between_tokens_seconds", percentiles(gaps)},
      {"max_stall_seconds", options.engine.max_stall / 1000},
      {"steps", metrics.steps},
      {"step_seconds_max", metrics.step_seconds.largest()},
      {"sequences_per_step", {{"mean", metrics.step_sequences.mean()}, {"max", metrics.step_sequences.largest()}}},
      {"rows_per_step", {{"mean", metrics.step_rows.mean()}, {"max", metrics.step_rows.largest()}}},
      {"kv_blocks", {{"max_in_use", traffic.max_blocks_in_use}, {"all", metrics.blocks_all}}},
      {"preemptions", metrics.preemptions},
      {"kv_store",
       {{"restored", metrics.restored},
        {"host", {{"parts", metrics.store.memory_parts}, {"bytes", metrics.store.memory_bytes}}},
        {"disk", {{"parts", metrics.store.disk_parts}, {"bytes", metrics.store.disk_bytes}}},
        {"loaded", metrics.store.loaded},
        {"dropped", metrics.store.dropped},
        {"failures", metrics.store.failures}}},
      {"state_slots",
       {{"all", metrics.slots_all},
        {"snapshots_taken", metrics.snapshots_taken},
        {"snapshots_found", metrics.snapshots_found},
        {"snapshots_dropped", metrics.snapshots_dropped}}},
      {"speculation",
       {{"proposed", metrics.proposed},
        {"accepted", metrics.accepted},
        {"draft_proposed", metrics.draft_proposed},
        {"draft_accepted", metrics.draft_accepted}}},
      {"answers", fmt::format("{:016x}", traffic.answers)},
  };
  if (!options.long_one.empty()) {
    const Stream& last = traffic.streams.back();
    json["long_prompt"] = {{"tokens", last.prompt}, {"first_token_seconds", last.first - last.due}};
  }
  if (options.turns > 1) json["turns"] = turn_figures(traffic, options.turns);
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
  row("generated", fmt::format("{} tokens, {:.1f} per second", count(json["generated_tokens"]),
                               number(json["generated_tokens_per_second"])));
  const uint64_t prompts = count(json["prompt_tokens"]), cached = count(json["cached_tokens"]);
  row("prompt tokens", fmt::format("{}, {:.1f} per second; {} cached ({:.0f} %)", prompts,
                                   number(json["prompt_tokens_per_second"]), cached, 100 * share(cached, prompts)));
  row("first token", percentiles_text(json["first_token_seconds"]));
  for (size_t turn = 0; json.contains("turns") && turn < json["turns"].size(); ++turn) {
    const auto& of = json["turns"][turn];
    row(fmt::format("turn {}", turn + 1).c_str(),
        fmt::format("{} of {} prompt tokens computed; first token {}", count(of["computed_tokens"]),
                    count(of["prompt_tokens"]), percentiles_text(of["first_token_seconds"])));
  }
  row("between tokens", percentiles_text(between));
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
      fmt::format("at most {} of {} blocks in use, {}; {} preemptions", count(json["kv_blocks"]["max_in_use"]),
                  count(json["kv_blocks"]["all"]), name_of(options.device.kv), count(json["preemptions"])));
  if (const auto& states = json["state_slots"]; count(states["all"]) > 0)
    row("states", fmt::format("{} slots; {} snapshots taken, {} found, {} dropped", count(states["all"]),
                              count(states["snapshots_taken"]), count(states["snapshots_found"]),
                              count(states["snapshots_dropped"])));
  if (const auto& store = json["kv_store"]; options.engine.kv.host_bytes())
    row("KV store",
        fmt::format("{} blocks and states given back, {} of them from the disk; {} in memory, {} on disk",
                    count(store["restored"]), count(store["loaded"]), bytes_text(number(store["host"]["bytes"])),
                    bytes_text(number(store["disk"]["bytes"]))));
  const auto& speculation = json["speculation"];
  row("speculation", fmt::format("{}: {} proposed, {} accepted ({:.0f} %)", options.engine.speculation,
                                 count(speculation["proposed"]), count(speculation["accepted"]),
                                 100 * share(count(speculation["accepted"]), count(speculation["proposed"]))));
  const uint64_t drafted = count(speculation["draft_proposed"]), right = count(speculation["draft_accepted"]);
  if (!options.device.draft.empty() || options.device.mtp)
    row("draft", fmt::format("{} proposed, {} accepted ({:.0f} %)", drafted, right, 100 * share(right, drafted)));
  row("answers", json["answers"].get<std::string>());
}

}  // namespace

void describe_bench_serve(CLI::App& bench, std::ostream& out, std::ostream& err) {
  const auto options = std::make_shared<BenchServeOptions>();
  CLI::App* command =
      bench.add_subcommand("serve-sim", "Throughput and latency of many synthetic requests at once, without a network");
  describe_model(*command, options->model);
  describe_device(*command, options->device);
  describe_draft(*command, options->device);
  const auto option = [command](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type)->capture_default_str();
  };
  option("-n,--requests", options->requests, "Number of requests", "N");
  option("--rate", options->rate, "Requests per second, at random times; 0: all at once", "R");
  option("-c,--concurrency", options->at_once,
         "Maximum number of requests at once, the next when one ends; 0: as they arrive", "N");
  option("-p,--prompt", options->prompts, "Lengths of prompts: 512, or 16-512, or 512:0.8,4096:0.2", "MIX");
  option("-g,--generate", options->answers, "Lengths of completions, the same way", "MIX");
  option("--shared", options->shared, "Tokens that all prompts begin with, before their own", "N");
  option("--turns", options->turns,
         "Requests of each conversation: those after the first add a prompt to the one before and its answer", "N");
  option("--long", options->long_one, "One more prompt of L tokens after S seconds, or without @S when all streams run",
         "L@S");
  describe_engine(*command, options->engine);
  option("--kv-tokens", options->cache_tokens, "Tokens of the KV cache; 0: enough for all requests that run at once",
         "N");
  option("--seed", options->seed, "Seed of the traffic", "N");
  describe_json(*command, options->json);
  describe_html(*command, options->html);
  command->callback([options, &out, &err] { bench_serve(*options, out, err); });
}

void bench_serve(const BenchServeOptions& options, std::ostream& out, std::ostream& err) {
  const TrafficOptions wanted = traffic_of(options);
  HtmlReport report(options.html);
  engine::EngineOptions with = engine_options(options.engine);
  with.max_waiting = UINT32_MAX;
  DeviceOptions device = options.device;
  const uint64_t cache = options.cache_tokens ? options.cache_tokens : enough_cache(wanted, options.at_once);
  device.cache_tokens = uint32_t(std::min<uint64_t>(cache, INT32_MAX));
  device.at_once = std::max(1u, options.at_once);
  leave_room_for_store(options.engine.kv, device);
  const auto store =
      make_store(options.engine.kv, [&err](const std::string& what) { err << "warning: KV store: " + what + "\n"; });
  const auto start = Clock::now();
  const auto running = open_running(options.model, device, &err, options.engine.rows);
  const double loading = seconds_since(start);
  if (longest(wanted) > running->model.context)
    throw Error(
        "{}: expected streams of at most {} tokens, the context, found {} asked for (--prompt, --shared, --long, "
        "--generate and --turns)",
        running->model.name, running->model.context, longest(wanted));

  running->set_draft(with);
  with.store = store.get();
  if (store) with.store_identity = store_identity(options.model, *running);
  engine::Engine engine(running->model, *running->backend, running->limits, with);
  const std::vector<Arrival> arrivals = make_traffic(wanted, running->model.vocabulary);
  const uint64_t tokens = uint64_t(running->limits.kv_blocks) * running->limits.block_tokens;
  if (!options.json)
    out << fmt::format("{}: {}, loaded in {:.2f} s; a KV cache of {} tokens, batches of {} rows\n", running->model.name,
                       running->backend->describe(), loading, tokens, running->limits.rows)
        << std::flush;
  const Traffic traffic = Run(engine, arrivals, options.turns, options.at_once, with.speculation, &err).run();
  nlohmann::ordered_json json{
      {"model", running->model.name}, {"backend", running->backend->describe()}, {"kv_tokens", tokens}};
  json.update(figures(traffic, options));
  if (store) save_all(engine, *store);
  report.write(fmt::format("heddle bench serve-sim {}", running->model.name), json);
  if (options.json)
    out << json.dump(2) << '\n';
  else
    print(json, options, out);
  if (traffic.failed) throw Error("{} requests failed: {}", traffic.failed, traffic.reason);
}

}  // namespace heddle
