#include "main/serve/engine_model.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/version.h"
#include "cuda/context.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "main/models/named_model.h"
#include "main/serve/engine_options.h"
#include "model/load.h"
#include "server/http/http.h"

namespace heddle {

// Known when the model is loaded.
struct EngineModel::Facts {
  const ServeOptions& options;
  const RunningModel& running;
  const std::string& model;  // as the command line has it
  std::string name;          // in the API
  uint32_t context = 0;
  double load_seconds = 0;

  uint64_t kv_tokens() const { return uint64_t(running.limits.kv_blocks) * running.limits.block_tokens; }
  uint64_t window_tokens() const { return uint64_t(running.limits.window_blocks) * running.limits.block_tokens; }
};

namespace {

struct DeviceFacts {
  std::string name;  // "cpu", "cuda:0 NVIDIA H200"
  model::Memory memory;
  std::optional<model::Memory> draft;  // of the draft
};

DeviceFacts device_facts(const auto& facts) {
  const RunningModel& running = facts.running;
  std::optional<cuda::Context> gpu;
  if (running.gpu) gpu.emplace(*running.gpu);
  const auto memory = [&](const RunningModel& of) {
    if (of.split) return of.split->on_gpu;
    return memory_for(of.own(), facts.options.device, of.limits, gpu ? &gpu->info() : nullptr);
  };
  DeviceFacts device{gpu ? fmt::format("cuda:{} {}", *running.gpu, gpu->info().name) : "cpu", memory(running), {}};
  if (running.draft) device.draft = memory(*running.draft);
  return device;
}

server::ModelFacts model_facts(const auto& facts) {
  const RunningModel& running = facts.running;
  const DeviceFacts device = device_facts(facts);
  const uint64_t draft = device.draft ? device.draft->total() : 0, own = device.memory.total();
  return {.architecture = running.model.architecture,
          .format = running.files.format,
          .quantization = running.files.type,
          .license = running.files.license,
          .parameters = uint64_t(parameters(running.model)),
          .layers = model::own_layers(running.model),
          .file_bytes = running.files.bytes,
          .memory = own + draft + (running.split ? running.split->on_cpu.total() : 0),
          .gpu_memory = running.gpu ? own + draft : 0,
          .modified = running.files.modified};
}

server::ModelCard card_of(const model::Model& model, const std::string& chat_template, const std::string& name) {
  return {.name = name,
          .chat_template = chat_template,
          .context = model.context,
          .vocabulary = model.vocabulary,
          .width = model::embedding_width(model),
          .generates = model::generates(model),
          .embeds = model.pooling != model::Pooling::rank,
          .embeds_tokens = model.pooling == model::Pooling::none,
          .ranks = model.pooling == model::Pooling::rank};
}

std::string file_of(const std::string& model) {
  return model == own_model_name ? "(in the program)" : find_model(model).path.string();
}

// For people, at the start; each line ends with a line break.
std::string serve_lines(const auto& facts) {
  const RunningModel& running = facts.running;
  const DeviceFacts device = device_facts(facts);
  std::string text;
  const auto row = [&](const char* name, const std::string& what) { text += fmt::format("{:<10} {}\n", name, what); };
  const auto bytes = [](uint64_t count) { return bytes_text(double(count)); };
  row("model", fmt::format("{}: {}, {:.1f} M parameters, {}", facts.name, running.model.architecture,
                           parameters(running.model) / 1e6, file_of(facts.model)));
  row("device", fmt::format("{}, {}", device.name, running.backend->describe()));
  if (running.split) row("split", running.split->text);
  if (running.group) row("ranks", fmt::format("{}; device and memory are those of rank 0", running.group->ranks()));
  row("context", fmt::format("{} tokens", facts.context));
  row("KV cache",
      fmt::format("{} tokens{}, {}, {}", facts.kv_tokens(),
                  facts.window_tokens() ? fmt::format(" ({} in layers with a window)", facts.window_tokens()) : "",
                  bytes(device.memory.kv), name_of(running.limits.kv)));
  if (const KvTierChoices& tiers = facts.options.engine.kv; tiers.host_bytes())
    row("KV store", fmt::format("{} of the system's memory{}{}", bytes(tiers.host_bytes()),
                                tiers.disk.empty() ? "" : ", and on disk: " + tiers.disk,
                                running.group ? "; each rank has its own" : ""));
  row("memory",
      fmt::format("{}: weights {}, KV cache {}, workspace {}", bytes(device.memory.total()),
                  bytes(device.memory.weights), bytes(device.memory.kv), bytes(device.memory.workspace)) +
          (device.memory.in_file ? fmt::format("; {} of weights stay in the file", bytes(device.memory.in_file)) : ""));
  if (device.draft)
    row("draft",
        fmt::format("{}: {:.1f} M parameters, {}, up to {} tokens at once", running.draft->model.name,
                    parameters(running.draft->model) / 1e6, bytes(device.draft->total()), running.draft_tokens));
  if (model::next_head(running.model))
    row("draft",
        fmt::format("the model's head for multi-token prediction, up to {} tokens at once", running.draft_tokens));
  return text;
}

// A JSON object for /v1/effective-config.
std::string serve_config(const auto& facts) {
  const RunningModel& running = facts.running;
  const ServeOptions& options = facts.options;
  const DeviceFacts device = device_facts(facts);
  const server::HttpOptions http;  // defaults of what has no option here
  nlohmann::ordered_json draft;    // null: there is none
  if (device.draft)
    draft = {{"name", running.draft->model.name},
             {"file", options.device.draft},
             {"tokens", running.draft_tokens},
             {"planned_memory", device.draft->total()}};
  else if (model::next_head(running.model))
    draft = {{"mtp", true}, {"tokens", running.draft_tokens}};
  const nlohmann::ordered_json json{
      {"version", version},
      {"model",
       {{"name", facts.name},
        {"architecture", running.model.architecture},
        {"file", file_of(facts.model)},
        {"parameters", uint64_t(parameters(running.model))},
        {"vocabulary", running.model.vocabulary},
        {"context", facts.context},
        {"width", running.model.width},
        {"chat_template", !running.chat_template.empty()}}},
      {"device", device.name},
      {"split", running.split ? nlohmann::ordered_json(running.split->text) : nlohmann::ordered_json()},
      {"backend", running.backend->describe()},
      {"ranks", running.group ? running.group->ranks() : 1},
      {"threads", running.gpu && !running.split ? 0
                  : options.device.threads      ? options.device.threads
                                                : hardware_threads()},
      {"exact", options.device.exact},
      {"no_repack", options.device.no_repack},
      {"deterministic", !running.gpu || options.device.deterministic},
      {"kv",
       {{"format", name_of(running.limits.kv)},
        {"tokens", facts.kv_tokens()},
        {"window_tokens", facts.window_tokens()},
        {"block_tokens", running.limits.block_tokens},
        {"bytes", device.memory.kv},
        {"host_bytes", options.engine.kv.host_bytes()},
        {"disk", options.engine.kv.disk},
        {"transfer", options.engine.kv.transfer}}},
      {"rows", running.limits.rows},
      {"limits",
       {{"max_queue", options.max_queue},
        {"max_stall_ms", options.engine.max_stall},
        {"drain_delay", options.drain_delay},
        {"drain_seconds", options.drain_seconds},
        {"heartbeat_seconds", options.heartbeat_seconds},
        {"max_body_bytes", options.max_body_mb << 20},
        {"store_bytes", options.store_mb << 20},
        {"max_connections", options.max_connections}}},
      {"http",
       {{"tls", !options.tls_certificate.empty()},
        {"threads", options.http_threads},
        {"max_header_bytes", http.max_header},
        {"max_bodies_bytes", http.max_bodies},
        {"header_seconds", http.header_seconds},
        {"body_seconds", http.body_seconds},
        {"idle_seconds", http.idle_seconds},
        {"write_seconds", http.write_seconds}}},
      {"prefix_cache", !options.engine.no_prefix_cache},
      {"kv_events",
       options.events.endpoint.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(options.events.endpoint)},
      {"speculation", options.engine.speculation},
      {"draft", draft},
      {"strict", options.strict},
      {"any_model", options.any_model},
      {"parse_special", options.parse_special},
      {"log_prompts", options.log_prompts},
      {"planned_memory",
       {{"weights", device.memory.weights},
        {"kv", device.memory.kv},
        {"workspace", device.memory.workspace},
        {"draft", device.draft ? device.draft->total() : 0},
        {"total", device.memory.total() + (device.draft ? device.draft->total() : 0)}}},
      {"measured", {{"load_seconds", facts.load_seconds}, {"peak_memory_bytes_at_load", peak_memory()}}},
  };
  return json.dump();
}

}  // namespace

EngineModel::EngineModel(const ServeOptions& options, const DeviceOptions& device, const std::string& model,
                         const std::string& name, std::ostream* log, const Beyond& beyond)
    : options_(options), model_(model), beyond_(beyond) {
  const auto start = Clock::now();
  try {
    running_ = open_running(model, device, log, options.engine.rows);
    engine::EngineOptions with = engine_options(options.engine);
    with.max_waiting = options.max_queue;
    with.kv_observer = beyond_.observer;
    if (running_->group) with.ranks = running_->group->ranks();
    running_->set_draft(with);
    if (running_->group) rank_store_ = make_rank_store(device.ranks.store, *running_->group, beyond_.on_store_failure);
    if (model::is_causal(running_->model)) store_ = rank_store_ ? rank_store_.get() : beyond_.store;
    if (store_) {
      with.store = store_;
      with.store_identity = store_identity(model, *running_);
    }
    engine_.emplace(running_->model, *running_->backend, running_->limits, with);
    thread_.emplace(*engine_);
  } catch (const std::bad_alloc&) {
    throw Error("{}: out of memory: the system has not enough for the model, its KV cache and its workspace",
                file_of(model));
  }
  name_ = name.empty() ? running_->model.name : name;
  load_seconds_ = seconds_since(start);
}

EngineModel::~EngineModel() {
  thread_.reset();
  if (engine_ && store_) save_all(*engine_, *store_);
}

EngineModel::Facts EngineModel::facts() const {
  return {.options = options_,
          .running = *running_,
          .model = model_,
          .name = name_,
          .context = engine_->context(),
          .load_seconds = load_seconds_};
}

server::Served EngineModel::served() {
  server::ModelCard card = card_of(running_->model, running_->chat_template, name_);
  card.context = engine_->context();
  card.ranks = running_->ranks();
  card.facts = model_facts(facts());
  return {.card = std::move(card),
          .tokenizer = running_->tokenizer(),
          .engine = *thread_,
          .config = serve_config(facts()),
          .rerank_template = running_->rerank_template,
          .token_types = model::token_types(running_->model),
          .state_width = running_->model.width,
          .transfer = model::is_causal(running_->model) ? beyond_.transfer : nullptr};
}

std::string EngineModel::fault() const { return running_->group ? running_->group->group().alarm().why() : ""; }

std::string EngineModel::lines() const {
  std::string lines = serve_lines(facts());
  lines.pop_back();
  return lines;
}

server::ModelCard model_card(const std::string& model, const std::string& name, uint32_t context) {
  formats::Checkpoint checkpoint = open_model(model);
  expect_known_architecture(checkpoint);
  if (!has_vocabulary(checkpoint)) throw Error("{}: the model has no tokenizer", model);
  const std::string chat_template = checkpoint.chat_template();
  const ModelFiles files = files_of(checkpoint);
  const model::Model read = model::load(std::move(checkpoint), {.context = context});
  server::ModelCard card = card_of(read, chat_template, name.empty() ? read.name : name);
  card.facts = {.architecture = read.architecture,
                .format = files.format,
                .quantization = files.type,
                .license = files.license,
                .parameters = uint64_t(parameters(read)),
                .layers = read.layers.size(),
                .file_bytes = files.bytes,
                .modified = files.modified};
  return card;
}

}  // namespace heddle
