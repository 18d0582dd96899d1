// Every case on a GPU against the interpreter: bit for bit where the case is exact, else within its bound.
// Not part of ctest, because it needs a GPU. Exits 0 if all agree, 1 if not, 2 if there is no GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <sstream>
#include <thread>

#include "cuda/memory.h"
#include "gpu/library.h"
#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::gpu_test {
namespace {

using ptx::cases::Case;

struct Options {
  std::string filter = ".*";
  uint32_t items = 0;  // 0: what each case asks for
  uint64_t seed = 1;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool list = false, verbose = false;
};

constexpr uint32_t usual_items = 10000;
constexpr double patience = 30;  // seconds for one kernel; the slowest takes milliseconds

struct Result {
  enum class State { pending, done, failed, skipped } state = State::pending;
  uint32_t items = 0, mismatches = 0;
  std::string why;              // the first mismatch, the failure, or why it was skipped
  std::optional<double> error;  // largest relative one, where a case is not exact
  uint64_t differing = 0;       // values that are not the same, where a case is not exact
};

// --- how far apart ------------------------------------------------------------------------------------------------
double value_at(ptx::Type type, const uint8_t* p) {
  auto bits = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (type) {
    case ptx::Type::f64:
      return bits(double{});
    case ptx::Type::f32:
      return double(bits(float{}));
    case ptx::Type::f16:
    case ptx::Type::f16x2:
      return double(to_f32(f16{bits(uint16_t{})}));
    default:
      return double(to_f32(bf16{bits(uint16_t{})}));
  }
}
// Where a case is not exact: relative to the largest value of the item.
void measure(const Case& c, const std::vector<uint8_t>& got, const std::vector<uint8_t>& want, Result& r) {
  if (!is_float(c.result) || c.bound.starts_with("exact")) return;
  const size_t step = is_packed(c.result) ? 2 : size_of(c.result);
  r.error = 0;
  for (size_t item = 0; item < got.size(); item += c.out_bytes) {
    double apart = 0, largest = 0;
    for (size_t i = item; i < item + c.out_bytes; i += step) {
      const double g = value_at(c.result, &got[i]), w = value_at(c.result, &want[i]);
      r.differing += std::memcmp(&got[i], &want[i], step) != 0;
      if (!std::isfinite(g) || !std::isfinite(w)) continue;
      apart = std::max(apart, std::abs(g - w));
      largest = std::max(largest, std::abs(w));
    }
    if (largest > 0) r.error = std::max(*r.error, apart / largest);
  }
}

// --- one case -----------------------------------------------------------------------------------------------------
// A kernel that does not end: nothing can be run beside it, nor can it be ended.
struct Hung : Error {
  using Error::Error;
};

ptx::TensorMap encode(const cuda::Context& context, const ptx::TensorMapSpec& spec) {
  using cuda::TensorType;
  using ptx::Type;
  static const std::map<Type, TensorType> types{{Type::u8, TensorType::u8},   {Type::u16, TensorType::u16},
                                                {Type::u32, TensorType::u32}, {Type::s32, TensorType::s32},
                                                {Type::u64, TensorType::u64}, {Type::s64, TensorType::s64},
                                                {Type::f16, TensorType::f16}, {Type::f32, TensorType::f32},
                                                {Type::f64, TensorType::f64}, {Type::bf16, TensorType::bf16}};
  const auto type = types.find(spec.type);
  if (type == types.end()) throw Error("no tensor map of {}", ptx::name(spec.type));
  const cuda::EncodedTensorMap map = cuda::encode_tensor_map(context, {.type = type->second,
                                                                       .rank = spec.rank,
                                                                       .address = spec.address,
                                                                       .size = spec.size,
                                                                       .stride = spec.stride,
                                                                       .box = spec.box,
                                                                       .swizzle = cuda::TensorSwizzle(spec.swizzle)});
  return {map.words};
}

// Runs the case on the GPU. One kernel at a time, so that a fault is blamed on the right one.
std::vector<uint8_t> run_on_gpu(const cuda::Context& context, const gpu::Loaded& loaded, const Case& c,
                                const std::vector<uint8_t>& in, uint32_t items) {
  constexpr size_t guard = 4096;  // bytes behind the output that must stay as they are
  const size_t out_bytes = size_t(items) * c.out_bytes;
  cuda::Stream stream(context);
  const cuda::Buffer from = cuda::Buffer::of(context, std::span<const uint8_t>(in));
  cuda::Buffer to(context, out_bytes + guard);
  to.fill(ptx::cases::untouched);
  ptx::cases::Args args{.in = {from.address()}, .out = {to.address()}, .items = items, .map_in = {}, .map_out = {}};
  if (c.map_in) args.map_in = encode(context, c.map_in(args.in.address, items));
  if (c.map_out) args.map_out = encode(context, c.map_out(args.out.address, items));
  cuda::launch(stream, loaded.launch(ptx::cases::grid(c, items), c.dynamic_shared_bytes, &args, sizeof args));
  if (!stream.done_within(patience)) throw Hung("the kernel did not end within {} s", patience);
  stream.synchronize();
  std::vector<uint8_t> out = to.get<uint8_t>(out_bytes + guard);
  if (std::any_of(out.begin() + std::ptrdiff_t(out_bytes), out.end(),
                  [](uint8_t b) { return b != ptx::cases::untouched; }))
    throw Error("wrote behind its output");
  out.resize(out_bytes);
  return out;
}

// The kernel of a case, as a spec.
struct KernelOf {
  const Case* of;
  auto operator<=>(const KernelOf&) const = default;
  ptx::Kernel build() const { return of->build(); }
};

Result run_case(gpu::Library& library, const Case& c, const Options& options, std::mutex& gpu,
                std::atomic<bool>& lost) {
  Result r;
  r.state = Result::State::failed;
  bool launched = false;
  try {
    const ptx::Kernel kernel = c.build();
    ptx::verify(kernel);
    try {
      ptx::verify(kernel, library.target());
    } catch (const Error& e) {  // only what depends on the target is left to fail
      r.state = Result::State::skipped;
      r.why = e.what();
      return r;
    }
    const gpu::Loaded& loaded = library.get(KernelOf{&c});
    r.items = options.items ? options.items : c.fewest_items ? c.fewest_items : usual_items;
    const auto in = ptx::cases::make_inputs(c, r.items, options.seed);
    // no search for races here: the unit tests do it, and it costs the interpreter more than all else
    const auto want = ptx::cases::interpret_case(c, kernel, in, r.items, {.races = false});
    std::vector<uint8_t> got;
    {
      std::lock_guard hold(gpu);
      if (lost) return Result{};
      launched = true;
      try {
        got = run_on_gpu(library.context(), loaded, c, in, r.items);
      } catch (const cuda::DriverError& e) {
        if (e.context_lost) lost = true;  // before another takes the lock
        throw;
      }
    }
    const auto difference = ptx::cases::compare(c, in, got, want, r.items);
    r.mismatches = difference.mismatches;
    r.why = difference.first;
    measure(c, got, want, r);
    r.state = r.mismatches ? Result::State::failed : Result::State::done;
  } catch (const cuda::DriverError& e) {
    if (e.context_lost && !launched) return Result{};  // another case's fault: again in a new context
    r.why = e.what();
  } catch (const Hung& e) {
    fmt::print("{} {}: {}\n", c.family, c.name, e.what());
    std::fflush(stdout);
    _exit(1);
  } catch (const std::exception& e) {
    r.why = e.what();
  }
  return r;
}

// The pending cases, several at a time, until all have their result or a fault ends the process's use of the GPU.
void run_pending(gpu::Library& library, const std::vector<Case>& cases, const Options& options,
                 std::vector<Result>& results) {
  std::vector<size_t> pending;
  for (size_t i = 0; i < cases.size(); ++i)
    if (results[i].state == Result::State::pending) pending.push_back(i);
  std::mutex gpu;
  std::atomic<bool> lost = false;
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (uint32_t t = 0; t < options.threads; ++t)
    workers.emplace_back([&] {
      for (size_t n; !lost && (n = next++) < pending.size();) {
        const Case& c = cases[pending[n]];
        Result r = run_case(library, c, options, gpu, lost);
        if (options.verbose && r.state != Result::State::pending) {
          fmt::print("{} {}: {} items, {} mismatches {}\n", c.family, c.name, r.items, r.mismatches, r.why);
          std::fflush(stdout);
        }
        results[pending[n]] = std::move(r);
      }
    });
  for (auto& w : workers) w.join();
}

// --- a fault leaves a process without a GPU, so the work is done by children ----------------------------------------
void write_results(std::FILE* f, const std::vector<Result>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    if (r.state == Result::State::pending) continue;
    std::string why = r.why;
    std::replace(why.begin(), why.end(), '\n', ' ');
    fmt::print(f, "{} {} {} {} {} {} {}\n", i, int(r.state), r.items, r.mismatches, r.differing, r.error.value_or(-1),
               why);
  }
}
size_t read_results(std::FILE* f, std::vector<Result>& results) {
  size_t news = 0;
  std::string line;
  for (int c; (c = std::fgetc(f)) != EOF;) {
    if (c != '\n') {
      line += char(c);
      continue;
    }
    std::istringstream in(line);
    size_t i;
    int state;
    double error;
    Result r;
    in >> i >> state >> r.items >> r.mismatches >> r.differing >> error;
    std::getline(in >> std::ws, r.why);
    r.state = Result::State(state);
    if (error >= 0) r.error = error;
    if (i < results.size() && results[i].state == Result::State::pending) {
      results[i] = r;
      ++news;
    }
    line.clear();
  }
  return news;
}

// Runs all cases; returns 0, or 2 if there is no GPU.
int run_all(const std::vector<Case>& cases, const Options& options, std::vector<Result>& results) {
  for (bool first = true;; first = false) {
    if (std::none_of(results.begin(), results.end(), [](const Result& r) { return r.state == Result::State::pending; }))
      return 0;
    std::FILE* file = std::tmpfile();
    if (!file) throw Error("no temporary file for the results");
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) throw Error("cannot start a child process");
    if (child == 0) {
      int status = 0;
      try {
        cuda::Context context;
        gpu::Library library(context, nullptr);
        if (first)
          fmt::print("{}, driver {}, target {}, {} cases, {} threads, seed {}\n", context.info().name,
                     context.driver_version(), library.target().name, cases.size(), options.threads, options.seed);
        run_pending(library, cases, options, results);
        write_results(file, results);
        std::fflush(file);
      } catch (const cuda::NoDriver& e) {
        fmt::print(stderr, "isa_on_gpu: {}\n", e.what());
        status = 2;
      } catch (const cuda::NoDevice& e) {
        fmt::print(stderr, "isa_on_gpu: {}\n", e.what());
        status = 2;
      } catch (const std::exception& e) {
        fmt::print(stderr, "isa_on_gpu: {}\n", e.what());
        status = 1;
      }
      std::fflush(stdout);
      _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return 2;
    std::rewind(file);
    const size_t news = read_results(file, results);
    std::fclose(file);
    if (!news) throw Error("a child process ended without a result");
  }
}

// --- the report ---------------------------------------------------------------------------------------------------
bool report(const std::vector<Case>& cases, const std::vector<Result>& results, bool verbose) {
  struct Sum {
    uint32_t cases = 0, failed = 0, skipped = 0;
    uint64_t items = 0, mismatches = 0;
    double error = 0;
  };
  std::map<std::string, Sum> families;
  Sum total;
  for (size_t i = 0; i < cases.size(); ++i)
    for (Sum* s : {&families[cases[i].family], &total}) {
      const Result& r = results[i];
      ++s->cases;
      s->failed += r.state == Result::State::failed;
      s->skipped += r.state == Result::State::skipped;
      if (r.state == Result::State::skipped) continue;
      s->items += r.items;
      s->mismatches += r.mismatches;
      s->error = std::max(s->error, r.error.value_or(0));
    }
  for (size_t i = 0; i < cases.size(); ++i)
    if (results[i].state == Result::State::skipped)
      fmt::print("skipped {} {}: {}\n", cases[i].family, cases[i].name, results[i].why);
  for (size_t i = 0; i < cases.size(); ++i)
    if (results[i].state == Result::State::failed)
      fmt::print("FAILED {} {} ({}): {} of {} items: {}\n", cases[i].family, cases[i].name, cases[i].bound,
                 results[i].mismatches, results[i].items, results[i].why);

  if (verbose) {
    fmt::print("\n{:<44} {:>24} {:>10} {:>16} {:>14}\n", "not exact", "bound", "items", "values differing",
               "largest error");
    for (size_t i = 0; i < cases.size(); ++i)
      if (results[i].error)
        fmt::print("{:<44} {:>24} {:>10} {:>16} {:>14.3g}\n", cases[i].name, cases[i].bound, results[i].items,
                   results[i].differing, *results[i].error);
  }
  fmt::print("\n{:<12} {:>6} {:>7} {:>8} {:>12} {:>11} {:>14}\n", "family", "cases", "failed", "skipped", "items",
             "mismatches", "largest error");
  auto line = [](const std::string& name, const Sum& s) {
    fmt::print("{:<12} {:>6} {:>7} {:>8} {:>12} {:>11} {:>14.3g}\n", name, s.cases, s.failed, s.skipped, s.items,
               s.mismatches, s.error);
  };
  for (auto& [name, s] : families) line(name, s);
  line("all", total);
  return total.failed == 0;
}

Options parse(int argc, char** argv) {
  Options o;
  auto number = [](const std::string& text) {
    size_t used = 0;
    const auto v = std::stoull(text, &used);
    if (used != text.size()) throw std::invalid_argument(text);
    return v;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    auto value = [&]() -> std::string {
      if (++i >= argc) throw std::invalid_argument(a + " without a value");
      return argv[i];
    };
    if (a == "--filter")
      o.filter = value();
    else if (a == "--items")
      o.items = uint32_t(number(value()));
    else if (a == "--seed")
      o.seed = number(value());
    else if (a == "--threads")
      o.threads = uint32_t(std::max<unsigned long long>(1, number(value())));
    else if (a == "--list")
      o.list = true;
    else if (a == "--verbose")
      o.verbose = true;
    else
      throw std::invalid_argument(a);
  }
  return o;
}

int run(int argc, char** argv) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr,
               "isa_on_gpu: {}\nusage: isa_on_gpu [--filter REGEX] [--items N] [--seed N] [--threads N] [--list] "
               "[--verbose]\n",
               e.what());
    return 2;
  }
  const std::regex filter(options.filter);
  std::vector<Case> cases;
  for (auto& c : ptx::cases::all_cases())
    if (std::regex_search(c.family + " " + c.name, filter)) cases.push_back(c);
  if (options.list) {
    for (auto& c : cases) fmt::print("{} {} ({})\n", c.family, c.name, c.bound);
    return 0;
  }
  if (cases.empty()) {
    fmt::print(stderr, "isa_on_gpu: no case matches {}\n", options.filter);
    return 2;
  }

  const auto start = std::chrono::steady_clock::now();
  std::vector<Result> results(cases.size());
  if (int status = run_all(cases, options, results)) return status;
  const bool good = report(cases, results, options.verbose);
  fmt::print("{:.1f} s; {}\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             good ? "all agree" : "NOT all agree");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace heddle::gpu_test

int main(int argc, char** argv) {
  try {
    return heddle::gpu_test::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "isa_on_gpu: {}\n", e.what());
    return 1;
  }
}
