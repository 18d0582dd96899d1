#include "library/shared_model.h"

#include <condition_variable>
#include <sstream>

#include "library/calls.h"
#include "main/device/device_memory.h"
#include "main/models/named_model.h"

namespace heddle::library {
namespace {

// Callbacks only hand events on, so that none is stuck; a process may be stopped for any time.
constexpr double endless_patience = 1e9;  // seconds

void deliver_log(const OpenOptions& options, const std::ostringstream& log) {
  if (!options.log) return;
  std::istringstream lines(log.str());
  for (std::string line; std::getline(lines, line);) options.log(options.log_data, line.c_str());
}

std::unique_ptr<RunningModel> open_logged(const std::string& name, const OpenOptions& options) {
  std::ostringstream log;
  try {
    auto running = open_running(name, options.device, &log);
    deliver_log(options, log);
    return running;
  } catch (const Error& error) {
    deliver_log(options, log);
    if (name.empty() || is_model(name)) throw;
    throw NotFound("{}", error.what());
  }
}

// The last events of several requests.
struct Collected {
  explicit Collected(size_t count) : events(count), left(count) {}
  void add(size_t index, const engine::Event& event) {
    const std::lock_guard lock(mutex);
    events[index] = event;
    if (--left == 0) complete.notify_all();
  }

  std::mutex mutex;  // guards what follows
  std::condition_variable complete;
  std::vector<engine::Event> events;
  size_t left;
};

}  // namespace

SharedModel::SharedModel(const std::string& name, const OpenOptions& options) : running_(open_logged(name, options)) {
  // Callers wait in threads of their own: none is sent away because others wait.
  engine::EngineOptions with{.max_waiting = UINT32_MAX};
  running_->set_draft(with);
  engine_.emplace(running_->model, *running_->backend, running_->limits, with);
  describe();
  thread_ = std::make_unique<engine::EngineThread>(*engine_, endless_patience);
}

void SharedModel::describe() {
  const model::Model& model = running_->model;
  const bool has_tokenizer = running_->maybe_tokenizer.has_value();
  name_ = model.name;
  architecture_ = model.architecture;
  type_ = running_->files.type;
  backend_ = running_->backend->describe();
  info_ = {.name = name_.c_str(),
           .architecture = architecture_.c_str(),
           .type = type_.c_str(),
           .backend = backend_.c_str(),
           .parameters = uint64_t(parameters(model)),
           .context = engine_->context(),
           .vocabulary = model.vocabulary,
           .embedding_width = model::embedding_width(model),
           .can_generate = has_tokenizer && model::generates(model),
           .can_chat = has_tokenizer && model::generates(model) && !running_->chat_template.empty(),
           .can_embed = has_tokenizer && model.pooling != model::Pooling::rank,
           .can_rank = has_tokenizer && running_->ranks()};
}

void SharedModel::close() {
  std::unique_ptr<engine::EngineThread> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = std::move(thread_);
  }
  if (!ending) return;
  ending.reset();  // its callbacks may call finish()
  engine_.reset();
  running_.reset();
}

engine::RequestId SharedModel::submit(engine::Request request, engine::OnEvent on_event) {
  const std::shared_lock lock(mutex_);
  expect_open();
  return thread_->submit(std::move(request), std::move(on_event));
}

void SharedModel::cancel(engine::RequestId id) {
  const std::shared_lock lock(mutex_);
  if (thread_) thread_->cancel(id);
}

void SharedModel::finish(engine::RequestId id) {
  const std::shared_lock lock(mutex_);
  if (thread_) thread_->finish(id, 0);
}

std::vector<engine::Event> SharedModel::compute(std::vector<engine::Request> requests) {
  const auto collected = std::make_shared<Collected>(requests.size());
  std::vector<engine::RequestId> ids;
  try {
    for (size_t i = 0; i < requests.size(); ++i)
      ids.push_back(
          submit(std::move(requests[i]), [collected, i](const engine::Event& event) { collected->add(i, event); }));
  } catch (...) {
    for (const engine::RequestId id : ids) cancel(id);
    throw;
  }
  std::unique_lock lock(collected->mutex);
  collected->complete.wait(lock, [&] { return collected->left == 0; });
  for (const engine::Event& event : collected->events) {
    if (event.finish_reason == engine::FinishReason::failed) throw engine::Stopped("{}", event.reason);
    if (event.finish_reason == engine::FinishReason::cancelled)
      throw engine::Stopped("the model was closed before it was done");
  }
  return std::move(collected->events);
}

}  // namespace heddle::library
