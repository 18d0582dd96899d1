#include "cuda/compile.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>

#include "base/parallel.h"
#include "cuda/context_state.h"

namespace heddle::cuda {

namespace {

std::string trimmed(const std::vector<char>& log) {
  std::string text(log.data(), strnlen(log.data(), log.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0')) text.pop_back();
  return text;
}

// The first lines of the text that the log names ("..., line 12; error : ..."), numbered.
std::string named_lines(const std::string& log, const std::string& text) {
  constexpr size_t max_lines = 5;
  constexpr std::string_view word = "line ";
  std::set<size_t> numbers;
  for (size_t at = log.find(word); at != std::string::npos && numbers.size() < max_lines; at = log.find(word, at + 1)) {
    size_t number = 0;
    for (size_t i = at + word.size(); i < log.size() && log[i] >= '0' && log[i] <= '9' && number < 1'000'000; ++i)
      number = 10 * number + size_t(log[i] - '0');
    if (number) numbers.insert(number);
  }
  std::string shown;
  size_t begin = 0;
  for (size_t line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (numbers.contains(line)) shown += fmt::format("\n{:6} | {}", line, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return shown;
}

// The driver's linker, used because only it hands out the cubin: loading a module does not.
class Linker {
 public:
  explicit Linker(ContextState& s) : s_(s) {
    s.call(s.api.link_create, unsigned(std::size(options_)), options_, values_, &link_);
  }
  ~Linker() { s_.release(s_.api.link_destroy, link_); }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  Cubin link(const Source& source) {
    const auto& api = s_.api;
    // the size includes the 0 at the end of the text
    int result = s_.result_of(api.link_add, link_, jit::input_ptx, const_cast<char*>(source.text.c_str()),
                              source.text.size() + 1, source.name.c_str(), 0u, static_cast<int*>(nullptr),
                              static_cast<void**>(nullptr));
    if (result) fail(result, api.link_add.name, source);
    void* cubin = nullptr;
    size_t bytes = 0;
    result = s_.result_of(api.link_complete, link_, &cubin, &bytes);
    if (result) fail(result, api.link_complete.name, source);
    const auto* begin = static_cast<const std::byte*>(cubin);  // belongs to the linker
    return {{begin, begin + bytes}, trimmed(info_)};
  }

 private:
  [[noreturn]] void fail(int result, const char* call, const Source& source) {
    if (loses_context(result)) s_.fail(result, call, source.name);
    const std::string log = trimmed(error_);
    throw CompileError(fmt::format("{}, kernel {} for {}: {}{}{}{}", call, source.name, source.target,
                                   s_.api.reason(result), log.empty() ? "" : "\n", log, named_lines(log, source.text)),
                       result, s_.api.code_name(result), source.name, log);
  }

  ContextState& s_;
  void* link_ = nullptr;
  // The driver writes to these until the linker is destroyed. The target is that of the context: the default.
  std::vector<char> info_ = std::vector<char>(64 << 10), error_ = std::vector<char>(64 << 10);
  int options_[5] = {jit::info_log, jit::info_log_bytes, jit::error_log, jit::error_log_bytes, jit::log_verbose};
  void* values_[5] = {info_.data(), reinterpret_cast<void*>(info_.size() - 1), error_.data(),
                      reinterpret_cast<void*>(error_.size() - 1), reinterpret_cast<void*>(1)};
};

// The linker compiles a text as one of several units, which must agree on registers: it ignores setmaxnreg, so that
// kernels that need it spill. Those are compiled as a whole, by loading the text: that hands out no cubin, but the
// driver has a cache of its own.
bool needs_whole(const Source& source) { return source.text.find("setmaxnreg") != std::string::npos; }

Module load_whole(const Context& context, const Source& source) {
  try {
    return {context, std::as_bytes(std::span(source.text.c_str(), source.text.size() + 1)), source.name};
  } catch (const DriverError& e) {
    if (e.context_lost) throw;
    assemble(context, source);  // throws with the log and the line, if the text is wrong
    throw;
  }
}

Module load(const Context& context, const Source& source, CubinCache* cache, std::atomic<bool>& wrote) {
  if (needs_whole(source)) return load_whole(context, source);
  if (!cache || !cache->is_on()) {
    Cubin cubin = assemble(context, source);
    return {context, cubin.bytes, source.name, std::move(cubin.log)};
  }
  const CubinKey key =
      CubinKey::of(source.text, source.target, fmt::format("sm_{}", context.info().own_sm), context.driver_version());
  if (auto kept = cache->get(key)) try {
      return {context, *kept, source.name};
    } catch (const DriverError& e) {
      if (e.context_lost) throw;
      cache->remove(key);  // intact, but this driver does not load it
    }
  Cubin cubin = assemble(context, source);
  Module module(context, cubin.bytes, source.name, std::move(cubin.log));
  cache->put(key, cubin.bytes);  // only what loads
  wrote = true;
  return module;
}

}  // namespace

Cubin assemble(const Context& context, const Source& source) { return Linker(*context.state()).link(source); }

std::vector<Module> compile(const Context& context, std::span<const Source> sources, CubinCache* cache,
                            uint32_t threads) {
  std::vector<Module> modules(sources.size());
  std::vector<std::exception_ptr> failures(sources.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false, wrote = false;
  auto work = [&] {
    for (size_t i; !failed && (i = next++) < sources.size();) try {
        modules[i] = load(context, sources[i], cache, wrote);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
  };

  if (!threads) threads = uint32_t(hardware_threads());
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < std::min<size_t>(threads, sources.size()); ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // the system has no more threads: the existing ones do the work
  }
  work();
  for (std::thread& other : others) other.join();
  if (wrote) cache->trim();
  // sources are taken in order, so the first bad one was tried in any case
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return modules;
}

}  // namespace heddle::cuda
