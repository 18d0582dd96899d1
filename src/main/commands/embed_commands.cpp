// heddle embed: the embeddings of texts; heddle rerank: documents by how well they match a query.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "base/error.h"
#include "main/commands/commands.h"
#include "main/device/running_model.h"
#include "main/device/text_requests.h"
#include "main/progress.h"
#include "model/pooled.h"

namespace heddle {
namespace {

struct EmbedOptions {
  std::string model, query;
  std::vector<std::string> texts;  // empty: lines of standard input
  uint32_t dimensions = 0, top = 0;
  bool truncate = false, json = false;
  DeviceOptions device;
};

std::vector<std::string> text_lines(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) throw Error("expected texts after the model, or lines on standard input, found none");
  return lines;
}

// Opened as a server would: many texts in a batch.
std::unique_ptr<RunningModel> open_for_texts(const EmbedOptions& options, std::ostream& err) {
  DeviceOptions device = options.device;
  device.many = true;
  return open_running(options.model, device, &err);
}

// All requests at once; the last event of each.
std::vector<engine::Event> compute(const RunningModel& running, std::vector<engine::Request> requests,
                                   std::ostream& err) {
  engine::Engine engine(running.model, *running.backend, running.limits,
                        {.max_stall = INFINITY, .max_waiting = UINT32_MAX});
  std::vector<engine::Event> events(requests.size());
  size_t done = 0;
  for (size_t i = 0; i < requests.size(); ++i)
    engine.submit(std::move(requests[i]), [&events, &done, i](const engine::Event& event) {
      events[i] = event;
      ++done;
    });
  ProgressLine progress(&err);
  while (!engine.idle()) {
    progress.count("computed", done, events.size(), "texts");
    engine.step();
  }
  for (const engine::Event& event : events)
    if (event.finish_reason == engine::FinishReason::failed) throw Error("{}", event.reason);
  return events;
}

void embed(const EmbedOptions& options, std::ostream& out, std::ostream& err) {
  const auto running = open_for_texts(options, err);
  const uint32_t width = model::embedding_width(running->model);
  if (options.dimensions > width)
    throw Error("--dimensions: expected at most {}, the width of the embeddings, found {}", width, options.dimensions);
  std::vector<engine::Request> requests;
  for (const std::string& text : options.texts) requests.push_back(embed_request(*running, text));
  std::vector<engine::Event> events = compute(*running, std::move(requests), err);
  for (engine::Event& event : events) {
    if (options.dimensions) event.embedding.resize(options.dimensions);
    out << nlohmann::json(embedding_of(event)).dump() << '\n';
  }
}

void rerank(const EmbedOptions& options, std::ostream& out, std::ostream& err) {
  const auto running = open_for_texts(options, err);
  const std::vector<engine::Event> events =
      compute(*running, rank_requests(*running, options.query, options.texts, options.truncate), err);
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return events[a].rank_score > events[b].rank_score; });
  if (options.top) order.resize(std::min<size_t>(order.size(), options.top));
  for (const size_t i : order) {
    if (options.json)
      out << nlohmann::ordered_json{{"index", i}, {"score", events[i].rank_score}, {"document", options.texts[i]}}.dump(
                 -1, ' ', false, nlohmann::json::error_handler_t::replace)
          << '\n';
    else
      out << fmt::format("{:.6f}  {}\n", events[i].rank_score, options.texts[i]);
  }
}

}  // namespace

void describe_embed(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto embedding = std::make_shared<EmbedOptions>();
  CLI::App* command = program.add_subcommand("embed", "Print the embeddings of texts, a line of JSON for each");
  describe_required_model(*command, embedding->model);
  command->add_option("TEXT", embedding->texts, "Texts; without any, the lines of standard input")->type_name("");
  command->add_option("--dimensions", embedding->dimensions, "Only the first values, scaled to a length of 1; 0: all")
      ->type_name("N");
  describe_device(*command, embedding->device);
  command->callback([embedding, &in, &out, &err] {
    if (embedding->texts.empty()) embedding->texts = text_lines(in);
    embed(*embedding, out, err);
  });

  const auto ranking = std::make_shared<EmbedOptions>();
  command = program.add_subcommand("rerank", "Order documents by how well they match a query, the best first");
  describe_required_model(*command, ranking->model);
  command->add_option("DOCUMENT", ranking->texts, "Documents; without any, the lines of standard input")->type_name("");
  command->add_option("--query", ranking->query, "The query")->type_name("TEXT")->required();
  command->add_option("--top", ranking->top, "How many to print; 0: all")->type_name("N");
  command->add_flag("--truncate", ranking->truncate, "Cut documents that are too long, instead of refusing them");
  describe_json(*command, ranking->json, "Print a line of JSON for each");
  describe_device(*command, ranking->device);
  command->callback([ranking, &in, &out, &err] {
    if (ranking->texts.empty()) ranking->texts = text_lines(in);
    rerank(*ranking, out, err);
  });
}

}  // namespace heddle
