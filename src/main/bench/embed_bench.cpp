// Texts of random tokens through the engine, all submitted at once, from there to the last embedding.
#include "main/bench/embed_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "main/bench/html_report.h"
#include "main/device/open_model.h"
#include "main/progress.h"
#include "model/load.h"

namespace heddle {
namespace {

constexpr uint32_t usual_texts = 64;

struct EmbedRow {
  uint32_t length = 0, texts = 0;
  std::vector<double> rates;  // texts per second, ascending
  double median() const { return rates[rates.size() / 2]; }
};

// Texts per second.
double time_texts(const RunningModel& running, engine::Engine& engine, uint32_t length, uint32_t texts,
                  std::mt19937_64& random) {
  uint32_t done = 0;
  std::string failed;
  const auto start = Clock::now();
  for (uint32_t i = 0; i < texts; ++i) {
    engine::Request request;
    for (uint32_t t = 0; t < length; ++t) request.prompt.push_back(uint32_t(random() % running.model.vocabulary));
    request.embed = running.model.pooling != model::Pooling::rank;
    request.rank = !request.embed;
    engine.submit(std::move(request), [&](const engine::Event& event) {
      ++done;
      if (event.finish_reason == engine::FinishReason::failed) failed = event.reason;
      for (const float value : event.embedding)
        if (!std::isfinite(value)) failed = fmt::format("a value of an embedding is {}", value);
    });
  }
  while (!engine.idle()) engine.step();
  if (!failed.empty()) throw Error("{}: {}", running.model.name, failed);
  return done / seconds_since(start);
}

}  // namespace

bool is_encoder(const std::string& model) { return !model::generates(model::load(open_model(model))); }

void bench_encoder(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  if (options.constrained || !options.device.draft.empty() || options.device.mtp)
    throw Error("expected neither --constrained nor --draft nor --mtp for an encoder, which generates nothing");
  std::vector<uint32_t> lengths = options.prompts, batches = options.batches;
  std::erase(lengths, 0u);
  if (batches == std::vector<uint32_t>{1}) batches = {usual_texts};
  if (lengths.empty() || batches.empty()) throw Error("nothing to time: expected lengths of texts (-p) and texts (-b)");
  HtmlReport report(options.html);
  nlohmann::ordered_json json{{"results", nlohmann::ordered_json::array()}};
  std::mt19937_64 random(std::random_device{}());
  for (const uint32_t threads : options.threads) {
    DeviceOptions device = options.device;
    device.threads = threads;
    const auto start = Clock::now();
    const auto running = open_running(options.model, device, &err, 0);
    const double loading = seconds_since(start);
    engine::Engine engine(running->model, *running->backend, running->limits,
                          {.max_stall = INFINITY, .max_waiting = UINT32_MAX});
    time_texts(*running, engine, std::min(16u, engine.context()), 2, random);
    if (!options.json)
      out << fmt::format("{}: {}\nloaded in {:.2f} s; batches of up to {} tokens\n{:<24} {:>10} {:>12} {:>12} {:>12}\n",
                         running->model.name, running->backend->describe(), loading, running->limits.rows, "test",
                         "texts/s", "tok/s", "slowest", "fastest");
    json["model"] = running->model.name;
    json["backend"] = running->backend->describe();
    for (const uint32_t length : lengths) {
      if (length > engine.context())
        throw Error("{}: expected texts of at most {} tokens, found {}", running->model.name, engine.context(), length);
      for (const uint32_t texts : batches) {
        EmbedRow row{.length = length, .texts = texts};
        const std::string label = fmt::format("embed {} x {}", length, texts);
        {
          ProgressLine progress(&err);
          progress.show(label);
          time_texts(*running, engine, length, texts, random);  // kernels and graphs are made here
          for (uint32_t run = 0; run < options.runs; ++run) {
            progress.count(label + ":", run, options.runs, "runs");
            row.rates.push_back(time_texts(*running, engine, length, texts, random));
          }
        }
        std::sort(row.rates.begin(), row.rates.end());
        json["results"].push_back({{"test", "embed"},
                                   {"tokens", length},
                                   {"batch", texts},
                                   {"threads", threads},
                                   {"texts_per_second", row.median()},
                                   {"tokens_per_second", row.median() * length},
                                   {"runs", row.rates}});
        if (!options.json)
          out << fmt::format("{:<24} {:>10.2f} {:>12.1f} {:>12.1f} {:>12.1f}", label, row.median(),
                             row.median() * length, row.rates.front() * length, row.rates.back() * length)
              << std::endl;
      }
    }
    if (running->gpu) break;  // threads of the CPU do not matter
  }
  report.write(fmt::format("heddle bench {}", json["model"].get<std::string>()), json);
  if (options.json) out << json.dump(2) << '\n';
}

}  // namespace heddle
