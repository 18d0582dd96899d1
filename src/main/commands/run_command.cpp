// Options become a prompt and a request; heddle alone asks weft for a random story.
#include "main/commands/run_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "main/chat/conversation.h"
#include "main/commands/commands.h"
#include "main/commands/generate.h"
#include "main/device/open_model.h"
#include "main/process.h"
#include "main/progress.h"

namespace heddle {
namespace {

using text::TokenId;

std::vector<TokenId> prompt_ids(const RunningModel& running, const RunOptions& options, std::string prompt) {
  if (!options.chat) return running.tokenizer().encode(prompt);
  std::vector<Message> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", std::move(prompt)});
  return chat_ids(running, messages, now_in_seconds(), {}, options.parse_special);
}

double gigabytes_per_second(uint64_t bytes, double seconds) { return seconds > 0 ? double(bytes) / seconds / 1e9 : 0; }

// A line for every token: its log-probability, then the likeliest tokens there.
std::string logprob_lines(const std::vector<engine::Pick>& picks, const text::Tokenizer& tokenizer) {
  std::string lines;
  const auto shown = [&tokenizer](TokenId id) { return in_quotes(tokenizer.bytes(id)); };
  for (const engine::Pick& pick : picks) {
    lines += fmt::format("{:9.4f} {}", pick.log_probability, shown(pick.id));
    for (const engine::TokenLogprob& other : pick.top)
      lines += fmt::format("{}{:.4f} {}", &other == &pick.top.front() ? "  of " : ", ", other.log_probability,
                           shown(other.id));
    lines += '\n';
  }
  return lines;
}

constexpr std::array subjects = {"a boat",         "a little dog", "a red ball",  "a kind bear",   "a lost kitten",
                                 "the big garden", "a small bird", "two friends", "a magic stone", "a rainy day"};

constexpr const char* try_next =
    "\nTry next:\n"
    "  heddle chat                       talk to this model; it tells stories and knows what heddle is\n"
    "  heddle models                     the models on this machine, those of other programs too\n"
    "  heddle chat qwen3:0.6b            talk to one by name; heddle offers to pull what is not here\n"
    "  heddle chat MODEL                 talk to yours: a name, a GGUF file or a folder of safetensors\n"
    "  heddle run MODEL -p \"Once upon\"   continue a text\n"
    "  heddle bench MODEL                how fast it is on this machine\n"
    "  heddle plan MODEL --ctx 8192      the memory it will take\n"
    "  heddle --help                     everything else\n"
    "From a checkout, ./run takes the place of heddle.\n";

}  // namespace

void describe_run(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status) {
  const auto run = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Continue a text");
  describe_model(*command, run->model);
  command
      ->add_option_function<std::string>(
          "-p,--prompt", [run](const std::string& text) { run->prompt = text; },
          "Text to continue; default: standard input")
      ->type_name("TEXT");
  command
      ->add_option("-n,--tokens", run->tokens,
                   "Maximum tokens to generate; 0: until the model ends or the context is full")
      ->type_name("N");
  command->add_flag("--chat", run->chat, "Send the text as a message, in the model's chat template");
  command->add_option("--system", run->system, "System message; needs --chat")->type_name("TEXT");
  command->add_flag("--parse-special", run->parse_special,
                    "With --chat: control tokens may be written in the message; without it they always may");
  command->add_option("--trace", run->trace, "On a GPU: write the time of every kernel to this file")
      ->type_name("F.json");
  describe_device(*command, run->device);
  describe_draft(*command, run->device);
  describe_ranks(*command, run->device.ranks);
  describe_constraint(*command, run->constraint);
  describe_sampling(*command, run->sampling);
  command
      ->add_option_function<uint32_t>(
          "--logprobs", [run](uint32_t count) { run->sampling.chain.logprobs = count; },
          "Print log-probabilities of each token and of the N most likely to standard error")
      ->type_name("N");
  command->callback([run, &in, &out, &err, &status] { status = run_model(*run, in, out, err); });
}

int run_model(const RunOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  if (follows(options.device)) return follow_ranks(options.model, options.device, err);
  const std::string prompt = options.prompt ? *options.prompt : read_all(in, err, "a text to continue");
  const auto constraint = read_constraint(options.constraint);  // before the model is loaded: it may be refused
  DeviceOptions device = options.device;
  std::optional<OutputFile> trace;  // made now: a path that cannot be written is said before the work
  if (!options.trace.empty()) {
    device.trace = true;
    trace.emplace(options.trace);
  }
  const auto running = open_running(options.model, device, &err);
  const text::Tokenizer& tokenizer = running->tokenizer();
  const std::vector<TokenId> ids = prompt_ids(*running, options, prompt);
  std::vector<engine::Pick> picks;
  GenerateRequest request{.sampling = sampling_of(options.sampling, tokenizer, running->model.vocabulary),
                          .stop_strings = options.sampling.stops,
                          .constraint = constraint_for(*running, constraint),
                          .max_tokens = options.tokens ? options.tokens : engine::no_limit,
                          .show = [&out](std::string_view text) { out << text << std::flush; },
                          .progress = &err};
  if (options.sampling.chain.logprobs) request.picked = [&picks](const engine::Pick& pick) { picks.push_back(pick); };
  Generator generator(*running);
  const Interrupt interrupt;
  request.interrupted = &interrupt.flag();
  const Generated generated = generator.generate(ids, request);
  out << std::endl;
  err << logprob_lines(picks, tokenizer) << figures(generated) << '\n';
  if (trace) {
    const std::vector<model::KernelTime> times = running->backend->kernel_times();
    trace->write(trace_json(times));
    trace->commit();
    err << trace_table(times);
  }
  return generated.end == Generated::End::interrupted ? 128 + SIGINT : 0;
}

int write_logits(const LogitsOptions& options, std::ostream& out, std::ostream& err) {
  if (follows(options.device)) return follow_ranks(options.model, options.device, err);
  std::vector<TokenId> ids;
  read_ids(options.ids, ids);
  if (ids.empty()) throw Error("--ids: expected token ids such as 1,2,3, found \"{}\"", options.ids);
  const auto running = open_running(options.model, options.device, &err);
  const uint64_t bytes = uint64_t(ids.size()) * running->model.vocabulary * sizeof(float);
  const nlohmann::json header{
      {"logits", {{"dtype", "F32"}, {"shape", {ids.size(), running->model.vocabulary}}, {"data_offsets", {0, bytes}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little);
  OutputFile file(options.out);
  file.write({reinterpret_cast<const uint8_t*>(&length), sizeof length});
  file.write(text);
  engine::EngineOptions with = single_user(*running);
  with.max_prompt_logits = running->limits.rows;
  engine::Engine engine(running->model, *running->backend, running->limits, with);
  ProgressLine progress(&err);
  compute_logits(
      engine, ids, 0,
      [&](uint32_t, std::span<const float> row) {
        file.write({reinterpret_cast<const uint8_t*>(row.data()), row.size_bytes()});
      },
      [&](uint32_t computed) { progress.count("logits of", computed, ids.size(), "tokens"); });
  progress.clear();
  file.commit();
  out << fmt::format("{}: {} rows of {} logits\n", options.out, ids.size(), running->model.vocabulary);
  return 0;
}

void describe_logits(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto logits = std::make_shared<LogitsOptions>();
  CLI::App* command = program.add_subcommand("logits", "Write the logits after each given token to a file");
  describe_required_model(*command, logits->model);
  command->add_option("--ids", logits->ids, "Token ids, such as 1,2,3")->required()->type_name("IDS");
  command->add_option("--out", logits->out, "File to write: tensor `logits`, f32, one row per token id")
      ->required()
      ->type_name("F.safetensors");
  describe_device(*command, logits->device);
  describe_ranks(*command, logits->device.ranks);
  command->callback([logits, &out, &err, &status] { status = write_logits(*logits, out, err); });
}

int welcome(std::ostream& out, std::ostream& err) {
  RunOptions options;
  options.model = own_model_name;
  options.chat = true;
  options.prompt = fmt::format("Tell me a story about {}.", subjects[std::random_device{}() % subjects.size()]);
  options.tokens = 400;
  options.sampling.chain.temperature = 0.5f;
  out << "> " << *options.prompt << "\n\n" << std::flush;
  std::istringstream nothing;
  const int status = run_model(options, nothing, out, err);
  if (status == 0) out << try_next;
  return status;
}

// Kernels are timed one after the other, so that one row of the trace shows all.
std::string trace_json(std::span<const model::KernelTime> times) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const model::KernelTime& time : times)
    events.push_back({{"name", time.phase.empty() ? time.kernel : time.phase + " " + time.kernel},
                      {"cat", time.phase},
                      {"ph", "X"},
                      {"ts", time.start * 1e6},
                      {"dur", time.seconds * 1e6},
                      {"pid", 0},
                      {"tid", 0},
                      {"args",
                       {{"layer", time.layer},
                        {"phase", time.phase},
                        {"kernel", time.kernel},
                        {"bytes", time.bytes},
                        {"GB/s", gigabytes_per_second(time.bytes, time.seconds)}}}});
  const nlohmann::ordered_json file{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return file.dump(1) + "\n";
}

std::string trace_table(std::span<const model::KernelTime> times) {
  struct Phase {
    std::string name;
    uint64_t calls = 0, bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, Phase> by_name;
  Phase all{"all"};
  for (const model::KernelTime& time : times) {
    Phase& phase = by_name[time.phase];
    phase.name = time.phase;
    for (Phase* to : {&phase, &all}) {
      ++to->calls;
      to->bytes += time.bytes;
      to->seconds += time.seconds;
    }
  }
  std::vector<Phase> phases;
  for (auto& [name, phase] : by_name) phases.push_back(phase);
  std::sort(phases.begin(), phases.end(), [](const Phase& a, const Phase& b) { return a.seconds > b.seconds; });
  phases.push_back(all);
  size_t width = 5;
  for (const Phase& phase : phases) width = std::max(width, phase.name.size());
  std::string text = fmt::format("{:{}}  {:>9}  {:>12}  {:>7}  {:>9}  {:>15}  {:>7}\n", "phase", width, "calls", "us",
                                 "share", "us each", "bytes", "GB/s");
  for (const Phase& phase : phases)
    text += fmt::format("{:{}}  {:>9}  {:>12.1f}  {:>6.1f}%  {:>9.2f}  {:>15}  {:>7.0f}\n", phase.name, width,
                        phase.calls, phase.seconds * 1e6, all.seconds > 0 ? 100 * phase.seconds / all.seconds : 0,
                        phase.calls ? phase.seconds * 1e6 / double(phase.calls) : 0, phase.bytes,
                        gigabytes_per_second(phase.bytes, phase.seconds));
  return text;
}

}  // namespace heddle
