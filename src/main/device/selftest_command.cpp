// heddle selftest: every kernel against f64, or a whole model on a device against the reference backend.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cpu/cpu.h"
#include "cuda/context.h"
#include "engine/sampling/numbers.h"
#include "gpu/gpu.h"
#include "kernels/spec/catalog.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/gpu_command.h"
#include "main/device/model_checks.h"
#include "main/device/open_model.h"
#include "main/device/split_choice.h"
#include "main/models/named_model.h"
#include "main/progress.h"
#include "model/load.h"

namespace heddle {
namespace {

constexpr const char* first_text =
    "The loom stood in the corner of the room, and every morning the old weaver sat down before it. She lifted the "
    "first thread, passed the shuttle from her right hand to her left, and counted: one, two, three. \"A cloth,\" she "
    "used to say, \"is 4096 threads that agree with each other.\" Outside it rained, but she did not look up.";
constexpr const char* second_text =
    "Once upon a time there was a small boat that no one wanted. It had a blue sail and a hole as big as a coin. One "
    "day "
    "a girl named Mia found it on the beach. \"You only need a little wood and some glue,\" she said, and she worked "
    "all "
    "day long. When the sun went down, the boat was in the water again, and it did not sink at all.";

struct StepSweep {
  uint32_t tokens;
  std::vector<uint32_t> batches;
  bool plain;  // also without graphs
};
StepSweep steps_of(proof::Sweep sweep) {
  switch (sweep) {
    case proof::Sweep::quick:
      return {24, {1, 4}, false};
    case proof::Sweep::normal:
      return {60, {1, 2, 4, 8, 20}, true};
    case proof::Sweep::full:
      return {300, {1, 2, 3, 4, 5, 6, 7, 8, 20, 72}, true};
  }
  return {};
}

// Tokens of each text: as many as the sweep has, or as fit into the context.
uint32_t text_tokens(const model::Model& model, const StepSweep& sweep) {
  constexpr uint32_t after = ModelChecks::continued + 2;
  if (model.context < ModelChecks::min_text + after)
    throw Error("{}: expected a context of at least {} tokens, found {}", model.name, ModelChecks::min_text + after,
                model.context);
  return std::min(sweep.tokens, model.context - after);
}

// The first GPU, where none is named.
std::unique_ptr<model::Backend> make(const model::Model& model, const model::Limits& limits,
                                     const DeviceOptions& options, bool graphs, ProgressLine& line) {
  const WantedDevice wanted = wanted_device(options);
  const auto loading = [&](uint64_t done, uint64_t all) { line.transfer("loading " + model.name, done, all); };
  const cpu::Options on_cpu{.threads = options.threads,
                            .isa = options.isa,
                            .exact = options.exact,
                            .repack = !options.no_repack,
                            .progress = loading};
  if (wanted.cpu) return cpu::make_cpu(model, limits, on_cpu);
  const gpu::Options on_gpu{.device = wanted.gpu.value_or(0),
                            .exact = options.exact,
                            .deterministic = options.deterministic,
                            .graphs = graphs,
                            .progress = loading};
  if (!asks_for_split(options) && options.gpu_memory == 0) return gpu::make_gpu(model, limits, on_gpu);
  const cuda::Context context(on_gpu.device);
  const SplitRoom room{.gpu = context.info(),
                       .gpu_bytes = usable_on_gpu(options, context.memory().free),
                       .cpu_bytes = usable_on_cpu(options),
                       .rows = limits.rows};
  const SplitChoice choice = choose_split(model, options, room, measure_rates(model, options, context));
  return make_split_backend(model, choice.placement, limits, on_gpu, on_cpu);
}

proof::Sweep sweep_named(const std::string& name) {
  if (name == "quick") return proof::Sweep::quick;
  if (name == "normal") return proof::Sweep::normal;
  if (name == "full") return proof::Sweep::full;
  throw Error("--sweep: expected quick, normal or full, found {}", in_quotes(name));
}

struct ModelSelftestOptions {
  std::string model;
  proof::Sweep sweep = proof::Sweep::normal;
  DeviceOptions device;
};

// Prints a table of checks. False if one failed.
bool selftest_model(const ModelSelftestOptions& options, std::ostream& out, std::ostream& err) {
  const auto start = Clock::now();
  StepSweep sweep = steps_of(options.sweep);
  const WantedDevice wanted = wanted_device(options.device);
  // a CPU has one path for any number of sequences
  if (wanted.cpu) std::erase_if(sweep.batches, [](uint32_t count) { return count > 8; });
  if (options.device.backend == "reference")
    throw Error("--backend reference: expected another backend to compare with the reference");
  if (!wanted.cpu) gpu::expect_capable(cuda::Context(wanted.gpu.value_or(0)).info());
  formats::Checkpoint checkpoint = open_model(options.model);
  expect_known_architecture(checkpoint);
  Tokens first, second;
  if (has_vocabulary(checkpoint)) {
    const text::Tokenizer tokenizer = open_tokenizer(checkpoint);
    first = tokenizer.encode(first_text);
    second = tokenizer.encode(second_text);
  }
  const model::Model model = model::load(std::move(checkpoint), {.context = options.device.context});
  ProgressLine line(&err);
  if (!model.output) {
    std::string backend;
    line.show("states of " + model.name);
    const auto make_plain = [&](const model::Model& each, const model::Limits& limits) {
      return make(each, limits, options.device, true, line);
    };
    const std::vector<ModelCheck> states =
        check_states(model, make_plain, std::min(64u, model.context), cosine_bar(options.device.exact), backend);
    line.clear();
    out << fmt::format("{}: states, as it has no logits\n{}\n{}", model.name, backend, table_of(states));
    return std::all_of(states.begin(), states.end(),
                       [](const ModelCheck& check) { return check.outcome == ModelCheck::Outcome::passed; });
  }
  const uint32_t count = text_tokens(model, sweep);
  for (Tokens* text : {&first, &second}) {
    const bool has_words = !text->empty();
    for (size_t i = 0; text->size() < count; ++i)  // a short text comes again
      text->push_back(has_words ? text->at(i) : uint32_t(engine::random_bits(text == &first, i) % model.vocabulary));
    text->resize(count);
  }
  ModelChecks checks(model, first, second, cosine_bar(options.device.exact), options.device.kv, &line);
  line.clear();
  out << fmt::format("{}: {} tokens, reference in {:.1f} s\n", model.name, count, seconds_since(start)) << std::flush;
  for (const bool graphs : {true, false}) {
    if (!graphs && (!sweep.plain || wanted.cpu)) continue;
    const auto backend = make(model, checks.limits(), options.device, graphs, line);
    line.clear();
    if (graphs) out << backend->describe() << '\n' << std::flush;
    checks.all(*backend, sweep.batches, wanted.cpu ? "" : graphs ? "graphs: " : "plain: ");
  }
  line.clear();
  using Outcome = ModelCheck::Outcome;
  out << table_of(checks.checks())
      << fmt::format("{} passed, {} failed, {} skipped; cosine of at least {} expected; {:.1f} s\n",
                     checks.count(Outcome::passed), checks.count(Outcome::failed), checks.count(Outcome::skipped),
                     cosine_bar(options.device.exact), seconds_since(start));
  return checks.passed();
}

// What was asked for: whether it is about kernels or a model is known when all arguments are.
struct SelftestArguments {
  std::vector<std::string> names;
  std::string device;  // empty: the first GPU
  std::optional<proof::Sweep> sweep;
  std::optional<model::KvFormat> kv;
  bool exact = false, deterministic = false;
  DeviceOptions split;  // what describe_split() describes
  uint64_t seed = 1;
  uint32_t threads = 0;
};

bool means_model(const std::string& name) {
  for (const kernels::Entry& entry : kernels::catalog())
    if (entry.name == name) return false;
  return name == own_model_name || name.ends_with(".gguf") || is_model(name);
}

bool run_selftest(const SelftestArguments& given, std::ostream& out, std::ostream& err) {
  // "3" and "cuda:3" are the same GPU
  const std::optional<uint32_t> gpu = cuda_number(cuda_number(given.device) ? given.device : "cuda:" + given.device);
  if (given.names.size() == 1 && means_model(given.names[0])) {
    ModelSelftestOptions options{
        .model = given.names[0], .sweep = given.sweep.value_or(proof::Sweep::normal), .device = given.split};
    options.device.exact = given.exact;
    options.device.deterministic = given.deterministic;
    options.device.kv = given.kv.value_or(options.device.kv);
    options.device.threads = given.threads;
    if (!given.device.empty()) options.device.device = gpu ? fmt::format("cuda:{}", *gpu) : given.device;
    return selftest_model(options, out, err);
  }
  if (!given.device.empty() && !gpu)
    throw Error("--device: expected the number of a GPU such as 0 or cuda:0, found {}", in_quotes(given.device));
  const char* of_models = given.exact               ? "--exact"
                          : given.deterministic     ? "--deterministic"
                          : given.kv                ? "--kv"
                          : given.split.gpu_layers  ? "--gpu-layers"
                          : given.split.cpu_experts ? "--cpu-experts"
                          : given.split.gpu_memory  ? "--gpu-memory"
                                                    : "";
  if (*of_models) throw Error("{}: expected a MODEL with it, found none", of_models);
  return selftest({.device = gpu.value_or(0),
                   .kernels = given.names,
                   .sweep = given.sweep.value_or(proof::Sweep::full),
                   .seed = given.seed,
                   .threads = given.threads},
                  out, err);
}

}  // namespace

void describe_selftest(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto given = std::make_shared<SelftestArguments>();
  CLI::App* command = program.add_subcommand(
      "selftest", "Compare the GPU kernels with f64, or a model on a device with the reference backend");
  command->add_option("NAME", given->names, "Kernels to test, or one MODEL; default: all kernels")->type_name("");
  command->add_option("--device", given->device, "GPU to test, by its name in `heddle devices`; for a MODEL also cpu")
      ->type_name("cuda:N");
  describe_gpu_as(*command);
  command
      ->add_option_function<std::string>(
          "--sweep", [given](const std::string& name) { given->sweep = sweep_named(name); },
          "Number of shapes or tokens: quick, normal or full; default: full for kernels, normal for a MODEL")
      ->type_name("SWEEP");
  command->add_flag("--exact", given->exact, "For a MODEL: do not quantise activations");
  command->add_flag("--deterministic", given->deterministic,
                    "For a MODEL: results of a row do not depend on the rest of its batch");
  command
      ->add_option_function<std::string>(
          "--kv", [given](const std::string& name) { given->kv = kv_named(name); },
          "For a MODEL: format of the KV cache, f16 or q8; default: f16")
      ->type_name("FORMAT");
  describe_split(*command, given->split);
  command->add_option("--seed", given->seed, "Seed of the random inputs")->type_name("N");
  command->add_option("--threads", given->threads, "Threads that compute references on the CPU; 0: one per core")
      ->type_name("N");
  command->callback([given, &out, &err, &status] { status = run_selftest(*given, out, err) ? 0 : 1; });
}

}  // namespace heddle
