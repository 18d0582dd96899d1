// The text, the sizes of a sweep, and the backends that are compared.
#include "main/device/model_selftest.h"

#include <algorithm>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "cpu/cpu.h"
#include "cuda/context.h"
#include "engine/sampling/numbers.h"
#include "gpu/gpu.h"
#include "main/commands/vocabulary_keys.h"
#include "main/device/model_checks.h"
#include "main/device/open_model.h"
#include "model/load.h"

namespace heddle {
namespace {

constexpr const char* first_text =
    "The loom stood in the corner of the room, and every morning the old weaver sat down before it. She lifted the "
    "first thread, passed the shuttle from her right hand to her left, and counted: one, two, three. \"A cloth,\" she "
    "used to say, \"is 4096 threads that agree with each other.\" Outside it rained, but she did not look up.";
constexpr const char* second_text =
    "Once upon a time there was a small boat that nobody wanted. It had a blue sail and a hole as big as a coin. One "
    "day "
    "a girl named Mia found it on the beach. \"You only need a little wood and some glue,\" she said, and she worked "
    "all "
    "day long. When the sun went down, the boat was in the water again, and it did not sink at all.";

struct StepSweep {
  uint32_t tokens;
  std::vector<uint32_t> batches;
  bool plain;  // also without graphs
};
StepSweep steps_named(const std::string& name) {
  if (name == "quick") return {24, {1, 4}, false};
  if (name == "normal") return {60, {1, 2, 4, 8}, true};
  if (name == "full") return {300, {1, 2, 3, 4, 5, 6, 7, 8}, true};
  throw Error("--sweep {}: it may be quick, normal or full", name);
}

// Tokens that the checks feed: as many as the sweep has, or as the model can see.
uint32_t text_tokens(const model::Model& model, const StepSweep& sweep) {
  constexpr uint32_t after = ModelChecks::continued + 2;
  if (model.context < ModelChecks::least_text + after)
    throw Error("{}: expected a context of at least {} tokens, found {}", model.name, ModelChecks::least_text + after,
                model.context);
  return std::min(sweep.tokens, model.context - after);
}

// The first GPU, where none is named.
std::unique_ptr<model::Backend> make(const model::Model& model, const model::Limits& limits,
                                     const DeviceOptions& options, bool graphs) {
  const WantedDevice wanted = wanted_device(options);
  if (wanted.cpu)
    return cpu::make_cpu(model, limits, {.threads = options.threads, .isa = options.isa, .exact = options.exact});
  return gpu::make_gpu(model, limits,
                       {.device = wanted.gpu.value_or(0),
                        .exact = options.exact,
                        .deterministic = options.deterministic,
                        .graphs = graphs});
}

}  // namespace

bool selftest_model(const ModelSelftestOptions& options, std::ostream& out) {
  const auto start = Clock::now();
  const StepSweep sweep = steps_named(options.sweep);
  const WantedDevice wanted = wanted_device(options.device);
  if (options.device.backend == "reference") throw Error("--backend reference is what others are held to");
  if (!wanted.cpu) gpu::expect_capable(cuda::Context(wanted.gpu.value_or(0)).info());
  formats::Checkpoint checkpoint = open_model(options.model == "weft" ? "" : options.model);
  Tokens first, second;
  if (has_vocabulary(checkpoint)) {
    const text::Tokenizer tokenizer = open_tokenizer(checkpoint);
    first = tokenizer.encode(first_text), second = tokenizer.encode(second_text);
  }
  const model::Model model = model::load(std::move(checkpoint), {.context = options.device.context});
  const uint32_t count = text_tokens(model, sweep);
  for (Tokens* text : {&first, &second}) {
    const bool has_words = !text->empty();
    for (size_t i = 0; text->size() < count; ++i)  // a short text comes again
      text->push_back(has_words ? text->at(i) : uint32_t(engine::random_bits(text == &first, i) % model.vocabulary));
    text->resize(count);
  }
  ModelChecks checks(model, first, second, cosine_bar(options.device.exact), options.device.kv);
  out << fmt::format("{}: {} tokens, reference in {:.1f} s\n", model.name, first.size(), seconds_since(start))
      << std::flush;
  for (const bool graphs : {true, false}) {
    if (!graphs && (!sweep.plain || wanted.cpu)) continue;
    const auto backend = make(model, checks.limits(), options.device, graphs);
    if (graphs) out << backend->describe() << '\n' << std::flush;
    checks.all(*backend, sweep.batches, wanted.cpu ? "" : graphs ? "graphs: " : "plain: ");
  }
  const auto failed = std::count_if(checks.checks().begin(), checks.checks().end(),
                                    [](const ModelCheck& check) { return !check.passed; });
  out << table_of(checks.checks())
      << fmt::format("{} checks, cosine of at least {} expected, {} failed, {:.1f} s\n", checks.checks().size(),
                     cosine_bar(options.device.exact), failed, seconds_since(start));
  return failed == 0;
}

}  // namespace heddle
