#include "cuda/module.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "cuda/context_state.h"

namespace heddle::cuda {

// A function lives inside its module, so that holding one holds the other.
struct LoadedFunction {
  ContextState* state = nullptr;
  void* handle = nullptr;
  const std::string* name = nullptr;  // kept by the context
  std::optional<size_t> args_bytes;   // unset: unknown
  uint32_t registers = 0, local_bytes = 0, shared_bytes = 0, max_threads = 0;
  std::atomic<uint32_t> max_dynamic_shared = 0;
};

struct LoadedModule {
  Owned module;
  std::string name, log;
  std::mutex mutex;
  std::map<std::string, LoadedFunction> functions;  // one per kernel, because attributes are the kernel's
};

namespace {

uint32_t attribute(const LoadedFunction& f, int which) {
  int value = 0;
  f.state->call_for_kernel(*f.name, f.state->api.function_get, &value, which, f.handle);
  return uint32_t(value);
}
void set_attribute(const LoadedFunction& f, int which, int value) {
  f.state->call_for_kernel(*f.name, f.state->api.function_set, f.handle, which, value);
}

// The size of the parameter: a kernel has one, or none. (The driver's tools report a query for a second one as an
// error.)
std::optional<size_t> parameter_bytes(ContextState& s, const LoadedFunction& f) {
  if (!s.api.parameter_info) return std::nullopt;
  size_t offset = 0, size = 0;
  const int result = s.result_of(s.api.parameter_info, f.handle, size_t(0), &offset, &size);
  if (result == code::invalid_value) return 0;  // there is none
  if (result != code::success) s.fail(result, s.api.parameter_info.name, *f.name);
  return size;  // offset: where the alignment puts it
}

void fill_in(LoadedFunction& f, ContextState& s, void* module, const std::string& name) {
  f.state = &s;
  f.name = s.keep(name);
  s.call_for_kernel(name, s.api.module_function, &f.handle, module, name.c_str());
  // Otherwise the driver may load it at the first launch: slow, and perhaps in the middle of capturing a graph.
  if (s.api.function_load) s.call_for_kernel(name, s.api.function_load, f.handle);
  namespace attr = function_attribute;
  f.args_bytes = parameter_bytes(s, f);
  f.registers = attribute(f, attr::registers);
  f.local_bytes = attribute(f, attr::local_bytes);
  f.shared_bytes = attribute(f, attr::shared_bytes);
  f.max_threads = attribute(f, attr::max_threads);
  f.max_dynamic_shared = attribute(f, attr::max_dynamic_shared);
}

}  // namespace

// --- functions ------------------------------------------------------------------------------------------------------
LoadedFunction& Function::get() const {
  check(function_ != nullptr, "a Function that names no kernel");
  return *function_;
}

const std::string& Function::name() const { return *get().name; }
size_t Function::args_bytes() const { return get().args_bytes.value_or(0); }
bool Function::args_known() const { return get().args_bytes.has_value(); }
uint32_t Function::registers() const { return get().registers; }
uint32_t Function::local_bytes() const { return get().local_bytes; }
uint32_t Function::shared_bytes() const { return get().shared_bytes; }
uint32_t Function::max_threads() const { return get().max_threads; }
uint32_t Function::max_dynamic_shared() const { return get().max_dynamic_shared; }
void* Function::handle() const { return get().handle; }
ContextState& Function::state() const { return *get().state; }

void Function::set_max_dynamic_shared(uint32_t bytes) {
  LoadedFunction& f = get();
  const uint32_t limit = f.state->info.shared_per_block_optin;
  if (uint64_t(bytes) + f.shared_bytes > limit)
    throw Error("kernel {}: {} bytes of dynamic and {} of static shared memory, a block of this GPU has at most {}",
                *f.name, bytes, f.shared_bytes, limit);
  set_attribute(f, function_attribute::max_dynamic_shared, int(bytes));
  f.max_dynamic_shared = bytes;
}

void Function::allow_large_clusters() { set_attribute(get(), function_attribute::large_clusters, 1); }

void Function::prefer_shared(uint32_t percent) {
  if (percent > 100) throw Error("kernel {}: {} percent of shared memory, expected 0 to 100", name(), percent);
  set_attribute(get(), function_attribute::shared_carveout, int(percent));
}

uint32_t Function::blocks_per_sm(uint32_t threads, uint32_t dynamic_shared) const {
  const LoadedFunction& f = get();
  int blocks = 0;
  f.state->call_for_kernel(*f.name, f.state->api.blocks_per_sm, &blocks, f.handle, int(threads),
                           size_t(dynamic_shared));
  return uint32_t(blocks);
}

// --- modules --------------------------------------------------------------------------------------------------------
Module::Module(const Context& context, std::span<const std::byte> cubin, const std::string& name, std::string log)
    : module_(std::make_shared<LoadedModule>()) {
  ContextState& s = *context.state();
  if (cubin.empty()) throw Error("kernel {}: an empty cubin", name);
  void* module = nullptr;
  s.call_for_kernel(name, s.api.module_load, &module, static_cast<const void*>(cubin.data()));
  module_->module =
      Owned(context.state(), reinterpret_cast<uint64_t>(module), [](ContextState& state, uint64_t h) noexcept {
        state.release(state.api.module_unload, reinterpret_cast<void*>(h));
      });
  module_->name = name;
  module_->log = std::move(log);
}

Function Module::function(const std::string& name, size_t args_bytes) const {
  check(module_ != nullptr, "a Module that was not loaded");
  std::lock_guard lock(module_->mutex);
  auto [found, is_new] = module_->functions.try_emplace(name);
  LoadedFunction& f = found->second;
  if (is_new) try {
      fill_in(f, module_->module.state(), module_->module.pointer(), name);
    } catch (...) {
      module_->functions.erase(found);
      throw;
    }
  if (args_bytes) {
    if (!f.args_bytes) f.args_bytes = args_bytes;
    if (*f.args_bytes != args_bytes)
      throw Error("kernel {}: expected arguments of {} bytes, it takes {}", name, args_bytes, *f.args_bytes);
  }
  return Function(std::shared_ptr<LoadedFunction>(module_, &f));  // holds the module
}

const std::string& Module::log() const {
  check(module_ != nullptr, "a Module that was not loaded");
  return module_->log;
}
const std::string& Module::name() const {
  check(module_ != nullptr, "a Module that was not loaded");
  return module_->name;
}

}  // namespace heddle::cuda
