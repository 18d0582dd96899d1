#include "cuda/context.h"

#include <algorithm>

#include "cuda/context_state.h"

namespace heddle::cuda {

namespace {

std::atomic<uint64_t> next_id = 1;
// Which context is current in this thread. Nothing but this room sets it, so that most calls need not.
thread_local uint64_t current_id = 0;

DeviceInfo describe_checked(const Driver& api, uint32_t ordinal) {
  const int count = device_count(api);
  if (ordinal >= uint32_t(count))
    throw NoDevice(fmt::format("there is no GPU {}: the driver has {}, numbered from 0", ordinal, count));
  return describe(api, int(ordinal));
}

}  // namespace

// --- state ----------------------------------------------------------------------------------------------------------
ContextState::ContextState(uint32_t ordinal)
    : api(initialised_driver()),
      info(describe_checked(api, ordinal)),
      driver_version(api.version_text()),
      id_(next_id.fetch_add(1)) {
  auto refuse = [&](const char* call, int result) {
    throw NoDevice(fmt::format("GPU {} ({}) cannot be used: {}: {}", ordinal, info.name, call, api.reason(result)));
  };
  if (const int result = api.device_get(&device_, int(ordinal))) refuse(api.device_get.name, result);
  if (const int result = api.context_retain(&context_, device_)) refuse(api.context_retain.name, result);
  if (const int result = api.context_set(context_)) {
    api.context_release(device_);
    refuse(api.context_set.name, result);
  }
  current_id = id_;
}

ContextState::~ContextState() {
  if (current_id == id_) {
    api.context_set(nullptr);  // a thread must not be left with a context that is gone
    current_id = 0;
  }
  api.context_release(device_);
}

void ContextState::use() {
  if (lost()) enter();
  if (const int result = api.context_set(context_)) fail(result, api.context_set.name);
  current_id = id_;
}

void ContextState::enter() {
  if (lost()) [[unlikely]] {
    std::lock_guard lock(mutex_);
    throw DriverError(fmt::format("the GPU context was lost: {}", why_lost_), lost_code_, api.code_name(lost_code_),
                      true);
  }
  if (current_id != id_) use();
}

void ContextState::make_current_quietly() noexcept {
  if (current_id != id_ && api.context_set(context_) == code::success) current_id = id_;
}

std::string ContextState::why_lost() const {
  std::lock_guard lock(mutex_);
  return why_lost_;
}

void ContextState::fail(int result, const char* call, const std::string& kernel, const std::string& detail) {
  std::string message = call;
  if (!kernel.empty()) message += fmt::format(", kernel {}", kernel);
  message += fmt::format("{}: {}", detail, api.reason(result));
  const bool loses = loses_context(result);
  if (loses) {
    const std::string* last = last_launched_.load(std::memory_order_relaxed);
    if (last && *last != kernel) message += fmt::format("; launched last: {}", *last);
    std::lock_guard lock(mutex_);
    if (why_lost_.empty()) {
      why_lost_ = message;
      lost_code_ = result;
      lost_.store(true, std::memory_order_release);
    }
    message += "; the GPU context is lost, and what was in its memory";
  }
  throw DriverError(message, result, api.code_name(result), loses, kernel);
}

const std::string* ContextState::keep(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found != names_.end() ? &*found : &names_.emplace_back(name);
}

// --- context --------------------------------------------------------------------------------------------------------
Context::Context(uint32_t ordinal) : state_(std::make_shared<ContextState>(ordinal)) {}

const DeviceInfo& Context::info() const { return state_->info; }
const std::string& Context::driver_version() const { return state_->driver_version; }
void Context::use() const { state_->use(); }
void Context::synchronize() const { state_->call(state_->api.context_synchronize); }
bool Context::lost() const { return state_->lost(); }
std::string Context::why_lost() const { return state_->why_lost(); }

Context::Memory Context::memory() const {
  size_t free = 0, total = 0;
  state_->call(state_->api.memory_info, &free, &total);
  return {free, total};
}

}  // namespace heddle::cuda
