// A model in memory with its engine, as the server serves it.
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine_thread.h"
#include "main/device/running_model.h"
#include "main/serve/serve_options.h"
#include "server/service/models.h"

namespace heddle {

class EngineModel : public server::LoadedModel {
 public:
  // `model`: as the command line has it; `name`: in the API, or empty for that of the model. Throws an Error if it
  // cannot be loaded. `options` must outlive this, and so must what is beyond its KV cache, of
  // which all may be null.
  struct Beyond {
    tiers::TieredStore* store = nullptr;  // of one process; several ranks make their own
    std::function<void(const std::string&)> on_store_failure = {};
    engine::KvTransfer* transfer = nullptr;  // to other processes; null: there is none
    engine::KvObserver* observer = nullptr;  // of its KV cache; null: there is none
  };
  EngineModel(const ServeOptions& options, const DeviceOptions& device, const std::string& model,
              const std::string& name, std::ostream* log, const Beyond& beyond);
  ~EngineModel() override;

  server::Served served() override;
  std::string fault() const;  // why its ranks cannot go on; empty: they can, or it has none
  std::string lines() const;  // for people, without a line break at the end
  double load_seconds() const { return load_seconds_; }

 private:
  struct Facts;
  Facts facts() const;

  const ServeOptions& options_;
  const std::string model_;
  std::string name_;
  const Beyond beyond_;
  std::unique_ptr<RunningModel> running_;
  std::unique_ptr<tiers::TieredStore> rank_store_;  // of rank 0; null: there are no ranks, or nothing is asked for
  tiers::TieredStore* store_ = nullptr;             // that the engine has
  std::optional<engine::Engine> engine_;
  std::optional<engine::EngineThread> thread_;
  double load_seconds_ = 0;
};

// What is known of a model before it is loaded: its files are read, but for the weights. Throws an Error if it cannot
// be served. `name`: in the API; empty: that of the model.
server::ModelCard model_card(const std::string& model, const std::string& name, uint32_t context);

}  // namespace heddle
