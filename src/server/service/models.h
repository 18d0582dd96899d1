// The models of a server: which of them a name means, which are in memory, and which is loaded or unloaded so that a
// request gets the one it asks for.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/service/served_model.h"

namespace heddle::server {

class Exchange;

// A model in memory with all it needs. It is destroyed when it is unloaded.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;
  virtual Served served() = 0;  // refers to this
};

// Thrown when a model is loaded: the memory that it needs is that of other models of this server.
class NoRoom : public Error {
 public:
  using Error::Error;
};

// A model that is loaded when a request needs it.
struct Loadable {
  ModelCard card;                  // its name, and what else is known before it is loaded
  std::vector<std::string> names;  // by which it is found besides that
  std::string problem = {};        // why no more is known of it; empty: all is well
  // `loaded`: the models in memory. Throws an Error if it cannot be loaded. Called from one thread.
  std::function<std::unique_ptr<LoadedModel>(const std::vector<ModelFacts>& loaded)> load;
};

struct ModelsOptions {
  static constexpr double forever = std::numeric_limits<double>::infinity();
  uint32_t max_loaded = 0;      // at a time; 0: as many as there is memory for
  double keep_alive = forever;  // seconds in memory after the last request
  double load_seconds = 600;    // that a request waits for its model
  size_t max_waiting = 1024;    // requests that wait for models
  // Takes a line for each model that is loaded, unloaded, or cannot be loaded; from any thread. May be empty.
  std::function<void(std::string)> say;
};

enum class ModelStatus { unloaded, loading, loaded, failed };  // failed: when it was last loaded
std::string_view name(ModelStatus status);

// A model in a list.
struct ListedModel {
  ModelCard card;
  std::shared_ptr<const chat::ChatFormat> chat_format;  // null without a usable template
  ModelStatus status = ModelStatus::unloaded;
  std::string error;                         // of ModelStatus::failed
  std::shared_ptr<const ServedModel> model;  // null unless it is loaded. Does not count as a request
  int64_t created = 0;                       // when it was loaded, in seconds since 1970; 0: it was not
  std::optional<double> keep_alive;          // seconds until it is unloaded; unset: never
  uint64_t requests = 0, waiting = 0;        // that have it, and that wait for it
  uint64_t loads = 0, failures = 0, unloads = 0;
};

// Requests for a model that is not in memory wait until it is loaded, one model at a time and in the order of the
// requests. If there is no room for it, idle models are unloaded, the longest idle first. If
// all have requests, one of them gets no more until it is unloaded: models take turns, and each stays at least as long
// as loading it took.
class Models {
 public:
  explicit Models(ModelsOptions options);
  ~Models();  // no request may have or want a model

  // One model that stays in memory, instead of all others. `names`: by which it is found besides its own.
  void serve(Served served, std::vector<std::string> names = {});
  void serve(std::vector<Loadable> all);  // instead of all others; not empty, and each name once

  bool empty() const;
  size_t size() const;
  bool unloads_models() const;  // otherwise the one model stays in memory
  std::string names() const;    // for messages: "a" or "a", "b", and so on
  // The name of the model that this name means: its own, one of its others, or one of them with ":latest". Empty: the
  // first model. Nothing: none.
  std::optional<std::string> find(std::string_view name) const;
  std::vector<ListedModel> list() const;
  ListedModel describe(std::string_view name) const;  // that of find()

  // Calls use(model) when it is loaded: at once, or later on another thread. The exchange is failed if the model cannot
  // be loaded, or not in time. Throws an ApiError if too many wait, or if it could not be loaded a moment ago. `name`:
  // of find().
  void request(const std::string& name, const std::shared_ptr<Exchange>& exchange,
               std::function<void(std::shared_ptr<const ServedModel>)> use);
  // Until the next request for this model. Of one that stays in memory it has no effect.
  void set_keep_alive(std::string_view name, double seconds);
  // As for a request; and when it has no more requests. Both return at once.
  void load(std::string_view name);
  void unload(std::string_view name);

  std::string fault() const;  // why an engine has stopped; empty: none has

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace heddle::server
