// A model with its engine, called from any thread, and closed while calls wait for it.
#pragma once
#include <heddle.h>

#include <concepts>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/engine_thread.h"
#include "library/options.h"
#include "main/device/running_model.h"

namespace heddle::library {

class SharedModel {
 public:
  // Throws NotFound if there is no such model, an Error if it cannot be run.
  SharedModel(const std::string& name, const OpenOptions& options);
  ~SharedModel() { close(); }
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;

  // Cancels every request, waits until their ends are delivered, and releases the model. What the engine's callbacks
  // use may be released after that.
  void close();

  const heddle_model_info& info() const { return info_; }

  // Calls `use` with the RunningModel, which is not closed meanwhile. An Error if it is closed already.
  decltype(auto) with(auto&& use) const {
    const std::shared_lock lock(mutex_);
    expect_open();
    return use(static_cast<const RunningModel&>(*running_));
  }
  engine::RequestId submit(engine::Request request, engine::OnEvent on_event);
  void cancel(engine::RequestId id);  // no effect once it is closed
  void finish(engine::RequestId id);  // likewise

  // All requests at once, and the last event of each. An Error if one fails, or the model is closed.
  std::vector<engine::Event> compute(std::vector<engine::Request> requests);

 private:
  void expect_open() const {
    if (!thread_) throw Error("expected an open model, found one that was closed");
  }
  void describe();

  mutable std::shared_mutex mutex_;  // shared by calls that use the model; close() has it alone to take thread_ away
  std::unique_ptr<RunningModel> running_;
  std::optional<engine::Engine> engine_;
  std::unique_ptr<engine::EngineThread> thread_;  // null: closed
  std::string name_, architecture_, type_, backend_;
  heddle_model_info info_{};  // points to these
};

}  // namespace heddle::library

struct heddle_model {
  std::shared_ptr<heddle::library::SharedModel> shared;  // calls that wait have their own
};
