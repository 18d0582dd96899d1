#include "server/service/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/memory.h"
#include "base/utf8.h"
#include "chat/detect.h"
#include "server/api/api_error.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

constexpr double retry_seconds = 5;  // after a model could not be loaded, before it is tried again
constexpr std::chrono::milliseconds look_period(100);

Clock::time_point in_seconds(double seconds) {
  constexpr double most = 1e9;  // about 30 years
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, most)));
}

std::shared_ptr<const chat::ChatFormat> format_of(const std::string& chat_template) {
  if (chat_template.empty()) return nullptr;
  try {
    const text::ChatTemplate parsed(chat_template);
    return std::make_shared<const chat::ChatFormat>(chat::detect_format(parsed, chat_template));
  } catch (const Error&) {  // loading it says why
    return nullptr;
  }
}

// "weft" and "weft:latest" are the same, as they are for Ollama.
std::string_view without_latest(std::string_view name) {
  constexpr std::string_view latest = ":latest";
  if (name.ends_with(latest)) name.remove_suffix(latest.size());
  return name;
}

}  // namespace

std::string_view name(ModelStatus status) {
  switch (status) {
    case ModelStatus::unloaded:
      return "unloaded";
    case ModelStatus::loading:
      return "loading";
    case ModelStatus::loaded:
      return "loaded";
    case ModelStatus::failed:
      return "failed";
  }
  return "";
}

// Everything is guarded by the mutex. Models are loaded and destroyed by one thread, without the mutex. Another one
// ends requests that wait no longer, which may be while a model is loaded.
class Models::State : public std::enable_shared_from_this<Models::State> {
 public:
  explicit State(ModelsOptions options) : options_(std::move(options)) {}

  void serve(Served served, std::vector<std::string> names);
  void serve(std::vector<Loadable> all);
  void stop();

  using Use = std::function<void(std::shared_ptr<const ServedModel>)>;
  struct Waiting {
    std::shared_ptr<Exchange> exchange;  // null: nothing waits, the model is only to be loaded
    Use use;
    Clock::time_point since, until;
  };
  struct Entry {
    Loadable loadable;  // without a way to load it the model stays in memory
    ModelCard card;
    std::shared_ptr<const chat::ChatFormat> chat_format;
    ModelStatus status = ModelStatus::unloaded;
    std::string error = {};
    Clock::time_point failed = {};
    std::unique_ptr<LoadedModel> loaded = {};
    std::shared_ptr<const ServedModel> model = {};
    size_t requests = 0, visitors = 0;  // that have the model; visitors: lists, for a moment
    Clock::time_point loaded_at = {}, used = {};
    double load_seconds = 0;
    std::optional<double> keep_alive = {};  // of this model
    bool leaves = false;                    // it gets no more requests, and is unloaded after those it has
    bool no_room = false;                   // was found when it was last loaded
    std::deque<Waiting> waiting = {};
    uint64_t loads = 0, failures = 0, unloads = 0;

    bool stays() const { return !loadable.load; }
    bool is_idle() const { return model && requests == 0 && visitors == 0; }
  };
  using EntryPtr = std::shared_ptr<Entry>;

  EntryPtr find(std::string_view name) const;
  EntryPtr get(std::string_view name) const {
    const EntryPtr found = find(name);
    check(found != nullptr, "the name of a model that is served");
    return found;
  }
  std::shared_ptr<const ServedModel> lend(const EntryPtr& entry, bool is_request);
  ListedModel listed(const EntryPtr& entry);
  double keep_alive(const Entry& entry) const { return entry.keep_alive.value_or(options_.keep_alive); }
  size_t waiting() const;
  void say(std::string line) const {
    if (options_.say) options_.say(std::move(line));
  }

  void run();    // of the thread that loads
  void watch();  // of the other
  using Lock = std::unique_lock<std::mutex>;
  bool drop_waiting(Lock& lock);
  bool unload_expired(Lock& lock);
  EntryPtr next_to_load() const;
  bool make_room(Lock& lock, const EntryPtr& wanted);
  bool needs_room(const Entry& wanted) const;
  EntryPtr longest_idle() const;
  void stay_all(Lock& lock);
  void load(Lock& lock, const EntryPtr& entry);
  void unload(Lock& lock, const EntryPtr& entry, const std::string& why);
  void give(Lock& lock, const EntryPtr& entry);
  void fail(Lock& lock, const EntryPtr& entry, std::string why);
  void look_again(Lock& lock);

  const ModelsOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EntryPtr> all_;
  bool stopping_ = false;
  std::thread loader_, watcher_;
};

void Models::State::serve(Served served, std::vector<std::string> names) {
  const EntryPtr entry = std::make_shared<Entry>();
  entry->loadable.names = std::move(names);
  entry->card = served.card;
  entry->model = std::make_shared<const ServedModel>(std::move(served));
  entry->chat_format = format_of(entry->card.chat_template);
  entry->status = ModelStatus::loaded;
  entry->loaded_at = entry->used = Clock::now();
  entry->loads = 1;
  const std::lock_guard lock(mutex_);
  all_ = {entry};
}

void Models::State::serve(std::vector<Loadable> all) {
  std::vector<EntryPtr> entries;
  for (Loadable& each : all) {
    const EntryPtr entry = std::make_shared<Entry>();
    entry->card = each.card;
    entry->chat_format = format_of(each.card.chat_template);
    if (!each.problem.empty()) entry->status = ModelStatus::failed;
    entry->error = each.problem;
    entry->loadable = std::move(each);
    entries.push_back(entry);
  }
  const std::lock_guard lock(mutex_);
  all_ = std::move(entries);
  if (loader_.joinable()) return;
  loader_ = std::thread([this] { run(); });
  watcher_ = std::thread([this] { watch(); });
}

void Models::State::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread* thread : {&loader_, &watcher_})
    if (thread->joinable()) thread->join();
}

Models::State::EntryPtr Models::State::find(std::string_view name) const {
  if (all_.empty()) return nullptr;
  if (name.empty()) return all_.front();
  for (const bool own : {true, false})
    for (const EntryPtr& entry : all_) {
      const auto matches = [&](const std::string& one) { return without_latest(one) == without_latest(name); };
      if (own ? matches(entry->card.name) : std::ranges::any_of(entry->loadable.names, matches)) return entry;
    }
  return nullptr;
}

// The deleter notes the end of the use. It may run on any thread, those of the model's engine included, so it destroys
// nothing of the model.
std::shared_ptr<const ServedModel> Models::State::lend(const EntryPtr& entry, bool is_request) {
  ++(is_request ? entry->requests : entry->visitors);
  if (is_request) entry->used = Clock::now();
  return {entry->model.get(), [self = shared_from_this(), entry, is_request](const ServedModel*) {
            {
              const std::lock_guard lock(self->mutex_);
              --(is_request ? entry->requests : entry->visitors);
              if (is_request) entry->used = Clock::now();
            }
            self->changed_.notify_all();
          }};
}

ListedModel Models::State::listed(const EntryPtr& entry) {
  ListedModel one{.card = entry->card,
                  .chat_format = entry->chat_format,
                  .status = entry->status,
                  .error = entry->error,
                  .model = entry->model ? lend(entry, false) : nullptr,
                  .created = entry->model ? entry->model->created() : 0,
                  .keep_alive = std::nullopt,
                  .requests = entry->requests,
                  .waiting = entry->waiting.size(),
                  .loads = entry->loads,
                  .failures = entry->failures,
                  .unloads = entry->unloads};
  if (const double seconds = keep_alive(*entry); entry->model && !entry->stays() && seconds < ModelsOptions::forever)
    one.keep_alive = entry->requests ? seconds : std::max(0.0, seconds - seconds_since(entry->used));
  return one;
}

size_t Models::State::waiting() const {
  size_t count = 0;
  for (const EntryPtr& entry : all_) count += entry->waiting.size();
  return count;
}

void Models::State::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (unload_expired(lock)) continue;
    const EntryPtr wanted = next_to_load();
    if (!wanted) stay_all(lock);
    if (wanted && (!needs_room(*wanted) || make_room(lock, wanted)))
      load(lock, wanted);
    else
      look_again(lock);
  }
  const std::vector<EntryPtr> all = all_;
  for (const EntryPtr& entry : all)
    if (entry->model && !entry->stays()) unload(lock, entry, "");
}

void Models::State::watch() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (drop_waiting(lock)) continue;
    if (waiting() > 0)
      changed_.wait_for(lock, look_period);
    else
      changed_.wait(lock);
  }
}

// Until something changes, or for a moment if something can happen without that.
void Models::State::look_again(Lock& lock) {
  const auto has_times = [&](const EntryPtr& entry) {
    return !entry->waiting.empty() || (entry->model && !entry->stays() && keep_alive(*entry) < ModelsOptions::forever);
  };
  if (std::ranges::any_of(all_, has_times))
    changed_.wait_for(lock, look_period);
  else
    changed_.wait(lock);
}

// Of one request that was cancelled or has waited too long; false if there is none.
bool Models::State::drop_waiting(Lock& lock) {
  const auto now = Clock::now();
  for (const EntryPtr& entry : all_) {
    const auto found = std::ranges::find_if(entry->waiting, [&](const Waiting& one) {
      return one.until <= now || (one.exchange && one.exchange->cancelled() != Cancelled::no);
    });
    if (found == entry->waiting.end()) continue;
    const Waiting dropped = std::move(*found);
    entry->waiting.erase(found);
    const double waited = std::chrono::duration<double>(now - dropped.since).count();
    const std::string name = entry->card.name;  // the loader may change the card
    lock.unlock();
    if (dropped.exchange) {
      const Cancelled why = dropped.exchange->cancelled();
      if (why == Cancelled::client_gone)
        dropped.exchange->end_cancelled();
      else if (why == Cancelled::asked)
        dropped.exchange->fail(cancelled_by_request());
      else if (why == Cancelled::shutdown)
        dropped.exchange->fail(unavailable("the request was cancelled because the server is shutting down"));
      else
        dropped.exchange->fail(
            unavailable(fmt::format("{} was not loaded within {:.0f} s", in_quotes(name, 200), waited)));
    }
    lock.lock();
    return true;
  }
  return false;
}

bool Models::State::unload_expired(Lock& lock) {
  for (const EntryPtr& entry : all_) {
    if (!entry->is_idle() || entry->stays() || !entry->waiting.empty()) continue;
    const double seconds = keep_alive(*entry), idle = seconds_since(entry->used);
    if (idle < seconds) continue;
    unload(lock, entry, fmt::format("no request for {:.0f} s", idle));
    return true;
  }
  return false;
}

// Of the models that requests wait for and that are not in memory, the one with the oldest request.
Models::State::EntryPtr Models::State::next_to_load() const {
  EntryPtr next;
  for (const EntryPtr& entry : all_)
    if (!entry->model && !entry->waiting.empty() &&
        (!next || entry->waiting.front().since < next->waiting.front().since))
      next = entry;
  return next;
}

bool Models::State::needs_room(const Entry& wanted) const {
  const auto loaded = size_t(std::ranges::count_if(all_, [](const EntryPtr& entry) { return bool(entry->model); }));
  return wanted.no_room || (options_.max_loaded && loaded >= options_.max_loaded);
}

Models::State::EntryPtr Models::State::longest_idle() const {
  EntryPtr longest;
  for (const EntryPtr& entry : all_)
    if (entry->is_idle() && !entry->stays() && (!longest || entry->used < longest->used)) longest = entry;
  return longest;
}

// Unloads one model, or lets one leave; true if there may be room now.
bool Models::State::make_room(Lock& lock, const EntryPtr& wanted) {
  if (const EntryPtr idle = longest_idle()) {
    unload(lock, idle, fmt::format("to make room for {}", wanted->card.name));
    for (const EntryPtr& entry : all_) entry->no_room = false;
    return !wanted->waiting.empty() && !needs_room(*wanted);
  }
  EntryPtr oldest;  // of those that were in memory for long enough
  for (const EntryPtr& entry : all_) {
    if (!entry->model || entry->stays()) continue;
    if (entry->leaves) return false;
    if (seconds_since(entry->loaded_at) >= entry->load_seconds && (!oldest || entry->loaded_at < oldest->loaded_at))
      oldest = entry;
  }
  if (oldest) oldest->leaves = true;
  return false;
}

// No model needs room any more.
void Models::State::stay_all(Lock& lock) {
  const std::vector<EntryPtr> all = all_;
  for (const EntryPtr& entry : all) {
    entry->leaves = false;
    give(lock, entry);
  }
}

void Models::State::load(Lock& lock, const EntryPtr& entry) {
  std::vector<ModelFacts> others;
  for (const EntryPtr& other : all_)
    if (other->model) others.push_back(other->model->card().facts);
  entry->status = ModelStatus::loading;
  entry->error.clear();
  lock.unlock();
  say(fmt::format("loading {}", entry->card.name));
  const auto start = Clock::now();
  std::unique_ptr<LoadedModel> loaded;
  std::shared_ptr<const ServedModel> model;
  std::string error;
  bool no_room = false;
  try {
    loaded = entry->loadable.load(others);
    model = std::make_shared<const ServedModel>(loaded->served());
  } catch (const NoRoom& none) {
    error = none.what();
    no_room = true;
  } catch (const std::bad_alloc&) {
    error = "out of memory: the system has not enough for the model, its KV cache and its workspace";
  } catch (const std::exception& other) {
    error = other.what();
  }
  if (!model) loaded.reset();
  lock.lock();
  if (no_room && !others.empty()) {
    entry->status = ModelStatus::unloaded;
    entry->no_room = true;
    return;
  }
  entry->no_room = false;
  if (!model) return fail(lock, entry, std::move(error));
  entry->status = ModelStatus::loaded;
  entry->loaded = std::move(loaded);
  entry->model = std::move(model);
  entry->card = entry->model->card();
  entry->chat_format = format_of(entry->card.chat_template);
  entry->loaded_at = entry->used = Clock::now();
  entry->load_seconds = seconds_since(start);
  entry->leaves = false;
  ++entry->loads;
  const double seconds = entry->load_seconds;
  const uint64_t memory = entry->card.facts.memory;
  lock.unlock();
  say(fmt::format("loaded {} after {:.2f} s, {}", entry->card.name, seconds, bytes_text(double(memory))));
  lock.lock();
  give(lock, entry);
}

// The model to the requests that wait for it.
void Models::State::give(Lock& lock, const EntryPtr& entry) {
  while (!entry->waiting.empty() && entry->model && !entry->leaves) {
    Waiting one = std::move(entry->waiting.front());
    entry->waiting.pop_front();
    if (!one.use) continue;
    std::shared_ptr<const ServedModel> model = lend(entry, true);
    lock.unlock();
    one.use(std::move(model));
    one = {};
    lock.lock();
  }
}

void Models::State::fail(Lock& lock, const EntryPtr& entry, std::string why) {
  entry->status = ModelStatus::failed;
  entry->error = why;
  entry->failed = Clock::now();
  ++entry->failures;
  const std::deque<Waiting> waiting = std::exchange(entry->waiting, {});
  lock.unlock();
  say(fmt::format("{} could not be loaded: {}", entry->card.name, why));
  for (const Waiting& one : waiting)
    if (one.exchange) one.exchange->fail(model_not_loaded(entry->card.name, why));
  lock.lock();
}

void Models::State::unload(Lock& lock, const EntryPtr& entry, const std::string& why) {
  std::shared_ptr<const ServedModel> model = std::move(entry->model);
  std::unique_ptr<LoadedModel> loaded = std::move(entry->loaded);
  entry->leaves = false;
  lock.unlock();
  model.reset();
  loaded.reset();
  if (!why.empty()) say(fmt::format("unloaded {}: {}", entry->card.name, why));
  lock.lock();
  entry->status = ModelStatus::unloaded;
  ++entry->unloads;
}

Models::Models(ModelsOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Models::~Models() { state_->stop(); }

void Models::serve(Served served, std::vector<std::string> names) {
  state_->serve(std::move(served), std::move(names));
}
void Models::serve(std::vector<Loadable> all) { state_->serve(std::move(all)); }

bool Models::empty() const { return size() == 0; }

size_t Models::size() const {
  const std::lock_guard lock(state_->mutex_);
  return state_->all_.size();
}

bool Models::unloads_models() const {
  const std::lock_guard lock(state_->mutex_);
  return !state_->all_.empty() && !state_->all_.front()->stays();
}

std::string Models::names() const {
  constexpr size_t most = 20;
  const std::lock_guard lock(state_->mutex_);
  std::vector<std::string> names;
  for (const auto& entry : state_->all_) {
    if (names.size() == most) {
      names.push_back(fmt::format("and {} more", state_->all_.size() - most));
      break;
    }
    names.push_back(in_quotes(entry->card.name, 200));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string> Models::find(std::string_view name) const {
  const std::lock_guard lock(state_->mutex_);
  const auto found = state_->find(name);
  return found ? std::optional(found->card.name) : std::nullopt;
}

std::vector<ListedModel> Models::list() const {
  const std::lock_guard lock(state_->mutex_);
  std::vector<ListedModel> all;
  for (const auto& entry : state_->all_) all.push_back(state_->listed(entry));
  return all;
}

ListedModel Models::describe(std::string_view name) const {
  const std::lock_guard lock(state_->mutex_);
  return state_->listed(state_->get(name));
}

void Models::request(const std::string& name, const std::shared_ptr<Exchange>& exchange, State::Use use) {
  std::shared_ptr<const ServedModel> model;
  {
    const std::lock_guard lock(state_->mutex_);
    const auto entry = state_->get(name);
    entry->keep_alive.reset();
    if (entry->model && !entry->leaves) {
      model = state_->lend(entry, true);
    } else {
      if (entry->status == ModelStatus::failed && seconds_since(entry->failed) < retry_seconds)
        throw model_not_loaded(entry->card.name, entry->error);
      if (state_->waiting() >= state_->options_.max_waiting)
        throw busy("too many requests wait for models to be loaded: try again later", engine::Metrics());
      // before it can get the model: the job that uses it sets a callback of its own
      exchange->on_cancel([state = state_] { state->changed_.notify_all(); });
      entry->waiting.push_back({exchange, std::move(use), Clock::now(), in_seconds(state_->options_.load_seconds)});
    }
  }
  if (model) return use(std::move(model));
  state_->changed_.notify_all();
}

void Models::set_keep_alive(std::string_view name, double seconds) {
  {
    const std::lock_guard lock(state_->mutex_);
    state_->get(name)->keep_alive = seconds;
  }
  state_->changed_.notify_all();
}

void Models::load(std::string_view name) {
  {
    const std::lock_guard lock(state_->mutex_);
    const auto entry = state_->get(name);
    entry->keep_alive.reset();
    if (entry->model || entry->status == ModelStatus::loading) return;
    entry->waiting.push_back({nullptr, nullptr, Clock::now(), in_seconds(state_->options_.load_seconds)});
  }
  state_->changed_.notify_all();
}

void Models::unload(std::string_view name) { set_keep_alive(name, 0); }

std::string Models::fault() const {
  const std::lock_guard lock(state_->mutex_);
  for (const auto& entry : state_->all_)
    if (std::string fault = entry->model ? entry->model->engine().stopped() : ""; !fault.empty()) return fault;
  return {};
}

}  // namespace heddle::server
