// What is asked for becomes a prompt and a request.
#include "main/commands/run_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <csignal>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "main/chat/conversation.h"
#include "main/chat/interrupt.h"
#include "main/commands/generate.h"
#include "main/commands/text_commands.h"
#include "main/device/kernel_trace.h"
#include "main/progress.h"

namespace heddle {
namespace {

using text::TokenId;

std::vector<TokenId> prompt_ids(const RunningModel& running, const RunOptions& options, std::string prompt) {
  if (!options.chat) return running.tokenizer().encode(prompt);
  std::vector<Message> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", std::move(prompt)});
  return chat_ids(running, messages, now_in_seconds());
}

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

}  // namespace

void describe_run(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status) {
  const auto run = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Continue a text, as a stream");
  describe_model(*command, run->model);
  command
      ->add_option_function<std::string>(
          "-p,--prompt", [run](const std::string& text) { run->prompt = text; }, "The text; without it, standard input")
      ->type_name("TEXT");
  command->add_option("-n,--tokens", run->tokens, "At most so many; 0: until the model ends or the context is full")
      ->type_name("N");
  command->add_flag("--chat", run->chat, "The text is a message to the model, put into its chat template");
  command->add_option("--system", run->system, "With --chat: the system message")->type_name("TEXT");
  command->add_option("--trace", run->trace, "On a GPU: write the time of every kernel here, a table to standard error")
      ->type_name("F.json");
  describe_device(*command, run->device);
  describe_sampling(*command, run->sampling);
  command
      ->add_option_function<uint32_t>(
          "--logprobs", [run](uint32_t count) { run->sampling.chain.logprobs = count; },
          "Print the log-probability of every token, and of so many likeliest ones, to standard error")
      ->type_name("N");
  command->callback([run, &in, &out, &err, &status] { status = run_model(*run, in, out, err); });
}

int run_model(const RunOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  const std::string prompt = options.prompt
                                 ? *options.prompt
                                 : std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  DeviceOptions device = options.device;
  std::optional<OutputFile> trace;  // made now: a path that cannot be written is said before the work
  if (!options.trace.empty()) device.trace = true, trace.emplace(options.trace);
  const auto running = open_running(options.model, device, &err);
  const text::Tokenizer& tokenizer = running->tokenizer();
  const std::vector<TokenId> ids = prompt_ids(*running, options, prompt);
  std::vector<engine::Pick> picks;
  GenerateRequest request{.sampling = sampling_of(options.sampling, tokenizer, running->model.vocabulary),
                          .stop_strings = options.sampling.stops,
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

void write_logits(const LogitsOptions& options, std::ostream& out, std::ostream& err) {
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
  Progress progress(&err, "logits of", "tokens");
  compute_logits(
      engine, ids, 0,
      [&](uint32_t, std::span<const float> row) {
        file.write({reinterpret_cast<const uint8_t*>(row.data()), row.size_bytes()});
      },
      [&](uint32_t computed) { progress.update(computed, ids.size()); });
  progress.clear();
  file.commit();
  out << fmt::format("{}: {} rows of {} logits\n", options.out, ids.size(), running->model.vocabulary);
}

}  // namespace heddle
