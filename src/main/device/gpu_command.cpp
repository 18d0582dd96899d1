// Runs the cases and benchmarks of src/proof on a GPU and prints tables; the search for shapes is in src/gpu.
#include "main/device/gpu_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "cuda/device.h"
#include "gpu/gpu.h"
#include "kernels/spec/catalog.h"
#include "main/bench/html_report.h"
#include "main/commands/commands.h"
#include "main/commands/suggestions.h"
#include "main/device/device_options.h"
#include "main/device/open_model.h"
#include "main/progress.h"
#include "model/load.h"
#include "proof/bench.h"

namespace heddle {
namespace {

std::string gibibytes(uint64_t bytes) { return fmt::format("{:.1f} GiB", double(bytes) / double(1ull << 30)); }

// Throws an Error for a name that no case or benchmark has.
void check_names(const std::vector<std::string>& asked, const std::set<std::string>& known) {
  for (const std::string& name : asked)
    if (!known.count(name)) throw Error("{}", unknown_kernel(name, {known.begin(), known.end()}));
}
bool chosen(const std::vector<std::string>& asked, const std::string& name) {
  return asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end();
}

// The results of one kernel's cases.
struct Tally {
  uint32_t cases = 0, failed = 0, skipped = 0;
  uint64_t compared = 0;
  double worst = 0, seconds = 0;  // seconds: of host threads, references included
  std::string failure;            // the first
};

struct Outcome {
  std::vector<std::string> order;  // of the kernels
  std::map<std::string, Tally> by_kernel;
  std::vector<std::string> failures;
};

// Host threads share the GPU: each has a stream and buffers of its own, and computes its references.
Outcome run_cases(gpu::Library& library, const std::vector<proof::Case>& cases, const SelftestOptions& options,
                  std::ostream& err) {
  Outcome outcome;
  for (const proof::Case& c : cases)
    if (chosen(options.kernels, c.kernel) && !outcome.by_kernel.count(c.kernel)) {
      outcome.order.push_back(c.kernel);
      outcome.by_kernel[c.kernel];
    }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  ProgressLine line(&err);
  std::exception_ptr broken;  // an exception that no case caught: the GPU cannot be used
  auto work = [&] {
    proof::GpuMachine machine(library);
    for (size_t i; (i = next++) < cases.size();) {
      const proof::Case& c = cases[i];
      if (!chosen(options.kernels, c.kernel)) continue;
      line.count(c.kernel + ":", i, cases.size(), "cases");
      const bool runs = machine.runs(c.lowest_target);
      const auto start = Clock::now();
      const proof::Check check = runs ? run_case(c, machine, options.seed) : proof::Check();
      const double seconds = seconds_since(start);
      std::lock_guard lock(mutex);
      Tally& tally = outcome.by_kernel[c.kernel];
      ++(runs && check.fits() ? tally.cases : tally.skipped);
      tally.compared += check.compared();
      tally.seconds += seconds;
      tally.worst = std::max(tally.worst, check.worst());
      if (check.failure().empty()) continue;
      if (!tally.failed++) tally.failure = check.failure();
      outcome.failures.push_back(fmt::format("{} {}: {}", c.kernel, c.shape, check.failure()));
    }
  };
  const uint32_t count = options.threads ? options.threads : uint32_t(hardware_threads());
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      try {
        work();
      } catch (...) {
        std::lock_guard lock(mutex);
        broken = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  if (broken) std::rethrow_exception(broken);
  return outcome;
}

void print_outcome(const Outcome& outcome, std::ostream& out) {
  size_t width = 6;
  for (const std::string& name : outcome.order) width = std::max(width, name.size());
  out << fmt::format("{:{}}  {:>6}  {:>7}  {:>11}  {:>11}  {:>9}\n", "kernel", width, "cases", "failed", "values",
                     "error/bound", "thread s");
  for (const std::string& name : outcome.order) {
    const Tally& t = outcome.by_kernel.at(name);
    out << fmt::format("{:{}}  {:>6}  {:>7}  {:>11}  {:>11.2f}  {:>9.1f}{}\n", name, width, t.cases, t.failed,
                       t.compared, t.worst, t.seconds,
                       t.skipped ? fmt::format("  ({} not for this GPU)", t.skipped) : "");
  }
  for (size_t i = 0; i < outcome.failures.size(); ++i) {
    if (i == 20) {
      out << fmt::format("... and {} more\n", outcome.failures.size() - i);
      break;
    }
    out << "FAILED " << outcome.failures[i] << '\n';
  }
}

void print_device(const cuda::Context& context, std::ostream& out) {
  out << fmt::format("{}, compute capability {}.{}, driver {}\n", context.info().name, context.info().sm / 10,
                     context.info().sm % 10, context.driver_version());
}

struct TimeRow {
  proof::Bench bench;
  proof::Timing timing;
  std::string failure;
};

// A kernel of the catalog with its defaults, as a spec.
struct DefaultOf {
  const kernels::Entry* entry;
  auto operator<=>(const DefaultOf&) const = default;
  ptx::Kernel build() const { return entry->build({}); }
};

// Seconds to load every kernel of the catalog that is for this GPU, with its defaults.
double cold_start(const cuda::Context& context, cuda::CubinCache* cache, size_t& count) {
  gpu::Library library(context, cache);
  std::vector<kernels::AnySpec> all;
  for (const kernels::Entry& entry : kernels::catalog()) {
    if (!kernels::runs_on(entry.lowest_target, library.target())) continue;
    all.emplace_back(DefaultOf{&entry});
  }
  count = all.size();
  const auto start = Clock::now();
  library.load(all);
  return seconds_since(start);
}

}  // namespace

void describe_devices(CLI::App& program, std::ostream& out) {
  CLI::App* devices = program.add_subcommand("devices", "List the GPUs and measure their memory bandwidth");
  describe_gpu_as(*devices);
  devices->callback([&out] { list_devices(out); });
}

void describe_bench_kernels(CLI::App& bench, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<BenchKernelsOptions>();
  CLI::App* command = bench.add_subcommand("kernels", "Time the GPU kernels against the streaming limit");
  command->add_option("KERNEL", options->kernels, "Kernels to time; default: all kernels")->type_name("");
  command->add_option("--device", options->device, "GPU to use, by its name in `heddle devices`")
      ->type_name("cuda:N")
      ->transform([](const std::string& name) {
        const std::optional<uint32_t> number = cuda_number(name);
        return number ? std::to_string(*number) : name;  // "3" and "cuda:3" are the same GPU
      });
  describe_gpu_as(*command);
  command->add_option("--shape", options->shape, "Time only shapes that contain this text")->type_name("TEXT");
  describe_json(*command, options->json);
  describe_html(*command, options->html);
  command->callback([options, &out, &err, &status] { status = bench_kernels(*options, out, err) ? 0 : 1; });
}

void list_devices(std::ostream& out) {
  for (const cuda::DeviceInfo& info : cuda::devices()) {
    out << fmt::format("cuda:{}  {}\n", info.ordinal, info.name);
    auto line = [&](const char* what, const std::string& value) { out << fmt::format("  {:22}{}\n", what, value); };
    line("compute capability", fmt::format("{}.{}", info.sm / 10, info.sm % 10));
    line("driver", "CUDA " + cuda::driver_version());
    line("multiprocessors", fmt::format("{}", info.sms));
    line("L2 cache", fmt::format("{:.0f} MiB", double(info.l2_bytes) / double(1 << 20)));
    line("path", gpu::path_text(info));
    line("shared memory", fmt::format("{} KiB per block", info.shared_per_block_optin / 1024));
    line("bus, id", info.pci + ", " + info.uuid);
    try {
      cuda::Context context(info.ordinal);
      const auto memory = context.memory();
      line("memory", fmt::format("{} ({} free)", gibibytes(memory.total), gibibytes(memory.free)));
      cuda::CubinCache cache = cuda::CubinCache::from_environment();
      gpu::Library library(context, &cache);
      line("kernels for", library.target().name);
      proof::GpuMachine machine(library);
      line("streaming bandwidth", fmt::format("{:.0f} GB/s, measured", proof::streaming_limit(machine) / 1e9));
    } catch (const Error& error) {
      line("cannot be used", error.what());
    }
  }
}

bool selftest(const SelftestOptions& options, std::ostream& out, std::ostream& err) {
  const std::vector<proof::Case> cases = all_cases(options.sweep);
  std::set<std::string> known;
  for (const proof::Case& c : cases) known.insert(c.kernel);
  check_names(options.kernels, known);

  const auto start = Clock::now();
  cuda::Context context(options.device);
  cuda::CubinCache cache = cuda::CubinCache::from_environment();
  gpu::Library library(context, &cache);
  print_device(context, out);
  const Outcome outcome = run_cases(library, cases, options, err);
  print_outcome(outcome, out);
  uint64_t run = 0, failed = 0, compared = 0;
  for (auto& [name, tally] : outcome.by_kernel) {
    run += tally.cases;
    failed += tally.failed;
    compared += tally.compared;
  }
  out << fmt::format("{} kernels, {} cases, {} values compared with f64, {} failed, {:.1f} s\n", outcome.order.size(),
                     run, compared, failed, seconds_since(start));
  return failed == 0 && run > 0;
}

bool bench_kernels(const BenchKernelsOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<proof::Bench> benches = proof::all_benches();
  std::set<std::string> known;
  for (const proof::Bench& b : benches) known.insert(b.kernel);
  check_names(options.kernels, known);
  std::erase_if(benches, [&](const proof::Bench& b) {
    return !chosen(options.kernels, b.kernel) || b.shape.find(options.shape) == b.shape.npos;
  });
  if (benches.empty()) throw Error("no shape contains \"{}\"", options.shape);
  HtmlReport report(options.html);

  setenv("CUDA_CACHE_DISABLE", "1", 1);  // the driver's own cache would hide what assembling costs
  cuda::Context context(options.device);
  cuda::CubinCache cache = cuda::CubinCache::from_environment();
  gpu::Library library(context, &cache);
  proof::GpuMachine machine(library);

  // time only kernels that compute right results
  SelftestOptions check{.device = options.device, .kernels = {}, .sweep = proof::Sweep::quick, .seed = options.seed};
  std::set<std::string> timed;
  for (const proof::Bench& b : benches) timed.insert(b.kernel);
  check.kernels.assign(timed.begin(), timed.end());
  const Outcome proved = run_cases(library, all_cases(proof::Sweep::quick), check, err);

  const double limit = proof::streaming_limit(machine);
  size_t kernels = 0;
  cold_start(context, &cache, kernels);  // fills the cache
  const double cold = cold_start(context, nullptr, kernels), cached = cold_start(context, &cache, kernels);

  std::vector<TimeRow> rows;
  bool right = proved.failures.empty();
  ProgressLine line(&err);
  for (proof::Bench& b : benches) {
    if (!machine.runs(b.lowest_target)) continue;
    line.count(fmt::format("timing {} {}:", b.kernel, b.shape), rows.size(), benches.size(), "shapes");
    TimeRow row{std::move(b), {}, {}};
    const auto tally = proved.by_kernel.find(row.bench.kernel);
    try {
      if (tally != proved.by_kernel.end() && tally->second.failed) throw Error("{}", tally->second.failure);
      row.timing = time(row.bench, machine, options.seed);
    } catch (const Error& error) {
      row.failure = error.what();
      right = false;
    }
    rows.push_back(std::move(row));
  }
  machine.clear();
  line.clear();

  auto per_second = [](double amount, const TimeRow& row) { return amount / (row.timing.microseconds * 1e-6); };
  nlohmann::ordered_json all;
  all["device"] = context.info().name;
  all["compute_capability"] = context.info().sm / 10.0;
  all["driver"] = context.driver_version();
  all["streaming_limit_gb_s"] = limit / 1e9;
  all["kernels_loaded"] = kernels;
  all["cold_start_s"] = cold;
  all["cached_start_s"] = cached;
  all["kernels"] = nlohmann::ordered_json::array();
  for (const TimeRow& row : rows) {
    nlohmann::ordered_json one{{"kernel", row.bench.kernel}, {"shape", row.bench.shape}};
    if (!row.failure.empty()) {
      one["failure"] = row.failure;
    } else {
      one["microseconds"] = row.timing.microseconds;
      one["fastest"] = row.timing.low;
      one["slowest"] = row.timing.high;
      one["bytes"] = row.bench.bytes;
      one["flops"] = row.bench.flops;
      one["gb_s"] = per_second(row.bench.bytes, row) / 1e9;
      one["tflop_s"] = per_second(row.bench.flops, row) / 1e12;
      one["of_limit"] = per_second(row.bench.bytes, row) / limit;
    }
    all["kernels"].push_back(std::move(one));
  }
  report.write(fmt::format("heddle bench kernels on {}", context.info().name), all);
  if (options.json) {
    out << all.dump(2) << '\n';
    return right;
  }
  print_device(context, out);
  out << fmt::format("streaming limit {:.0f} GB/s; {} kernels start in {:.2f} s, from the cache in {:.3f} s\n",
                     limit / 1e9, kernels, cold, cached);
  size_t name_width = 6, shape_width = 5;
  for (const TimeRow& row : rows) {
    name_width = std::max(name_width, row.bench.kernel.size());
    shape_width = std::max(shape_width, row.bench.shape.size());
  }
  out << fmt::format("{:{}}  {:{}}  {:>9}  {:>15}  {:>8}  {:>8}  {:>8}\n", "kernel", name_width, "shape", shape_width,
                     "us", "fastest-slowest", "GB/s", "TFLOP/s", "of limit");
  for (const TimeRow& row : rows) {
    out << fmt::format("{:{}}  {:{}}  ", row.bench.kernel, name_width, row.bench.shape, shape_width);
    if (!row.failure.empty()) {
      out << "FAILED " << row.failure << '\n';
      continue;
    }
    const double gb = per_second(row.bench.bytes, row) / 1e9, tf = per_second(row.bench.flops, row) / 1e12;
    out << fmt::format("{:>9.2f}  {:>7.2f}-{:<7.2f}  {:>8.0f}  {:>8.2f}  {:>7.1f}%\n", row.timing.microseconds,
                       row.timing.low, row.timing.high, gb, tf, 100e9 * gb / limit);
  }
  for (const std::string& failure : proved.failures) out << "FAILED " << failure << '\n';
  return right;
}

void describe_tune(CLI::App& program, std::ostream& out, std::ostream& err) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = program.add_subcommand(
      "tune", "Find the fastest kernel shapes for a model on this GPU and keep them for later runs");
  describe_model(*command, options->model);
  command->add_option("--batch", options->batches, "Sequences decoded together, 1 to 256, such as 1,8,64")
      ->delimiter(',')
      ->type_name("N,N,...");
  command->add_option("--device", options->device.device, "auto: the first capable GPU; or cuda:N")->type_name("NAME");
  describe_gpu_as(*command);
  command->add_flag("--exact", options->device.exact, "Tune for --exact: activations that are not quantised");
  command->callback([options, &out, &err] { tune(*options, out, err); });
}

void tune(const TuneOptions& options, std::ostream& out, std::ostream& err) {
  const WantedDevice wanted = wanted_device(options.device);
  if (wanted.cpu) throw Error("tune is for GPUs: expected --device cuda:N, found \"{}\"", options.device.device);
  std::optional<uint32_t> device = wanted.gpu;
  for (const cuda::DeviceInfo& info : device ? std::vector<cuda::DeviceInfo>() : cuda::devices()) {
    try {
      gpu::expect_capable(info);
      device = info.ordinal;
      break;
    } catch (const Error& error) {
      out << error.what() << "\n";
    }
  }
  if (!device) throw Error("no GPU that can run models");
  const auto start = Clock::now();
  const model::Model model = model::load(open_model(options.model), {});
  ProgressLine line(&err);
  const gpu::Options on_gpu{
      .device = *device, .exact = options.device.exact, .progress = [&](uint64_t done, uint64_t all) {
        line.transfer("loading " + model.name, done, all);
      }};
  const gpu::Tuned tuned = gpu::tune(
      model, on_gpu, options.batches, [&](const std::string& text) { line.message(out, text); },
      [&](uint64_t tried, uint64_t all) { line.count("timing shapes:", tried, all, "shapes"); });
  line.clear();
  out << fmt::format("{} kernels, {} shapes tried in {:.1f} s: {:.1f} -> {:.1f} us for one step of each kind\n",
                     tuned.kernels, tuned.tried, seconds_since(start), tuned.before * 1e6, tuned.after * 1e6);
  if (tuned.file.empty())
    out << "not kept: the cache is off, or its folder cannot be written\n";
  else
    out << fmt::format("kept in {}\n", tuned.file);
}

}  // namespace heddle
