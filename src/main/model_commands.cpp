// What is asked for is described here, done elsewhere.
#include "main/model_commands.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "main/perplexity_command.h"
#include "main/run_command.h"

namespace heddle {
namespace {

void describe_sampling(CLI::App& command, engine::Sampling& to) {
  const auto add = [&command](const char* name, auto& value, const char* text) {
    command.add_option(name, value, text)->type_name("N")->group("Sampling (docs/sampling.md)");
  };
  add("--temp", to.temperature, "Temperature; 0 takes the most likely token");
  add("--dynatemp-range", to.dynamic_range, "Temperature up and down by this, by entropy");
  add("--dynatemp-exp", to.dynamic_exponent, "Exponent of the entropy in that");
  add("--top-k", to.top_k, "The k most likely tokens; 0: all");
  add("--top-p", to.top_p, "The most likely tokens that come to p");
  add("--min-p", to.min_p, "Tokens at least this times as likely as the most likely");
  add("--typical", to.typical_p, "Tokens of typical surprise that come to p");
  add("--top-nsigma", to.top_n_sigma, "Logits within n standard deviations of the largest");
  add("--xtc-probability", to.xtc_probability, "How often the likely tokens but the least likely of them are left out");
  add("--xtc-threshold", to.xtc_threshold, "From what probability on they count as likely");
  add("--mirostat", to.mirostat, "2: mirostat 2 in place of the cuts");
  add("--mirostat-tau", to.mirostat_tau, "The surprise it aims at, in bits");
  add("--mirostat-eta", to.mirostat_eta, "How fast");
  add("--repeat-penalty", to.repetition_penalty, "On tokens seen lately; 1: none");
  add("--repeat-last-n", to.repetition_last_n, "How many tokens back that is; -1: all");
  add("--presence-penalty", to.presence_penalty, "On tokens generated before");
  add("--frequency-penalty", to.frequency_penalty, "For every time they were");
  add("--dry-multiplier", to.dry_multiplier, "Penalty on prolonging a repetition; 0: none");
  add("--dry-base", to.dry_base, "How it grows with the length");
  add("--dry-allowed-length", to.dry_allowed_length, "Repetitions up to this length are free");
  add("--dry-penalty-last-n", to.dry_penalty_last_n, "How many tokens back it looks; -1: all");
  command
      .add_option_function<uint64_t>(
          "--seed", [&to](uint64_t seed) { to.seed = seed; },
          "The same seed gives the same text; without it, a random one, printed at the end")
      ->type_name("N")
      ->group("Sampling (docs/sampling.md)");
  command.add_option("--samplers", to.order, "The steps, in order, separated by commas")
      ->delimiter(',')
      ->type_name("NAMES")
      ->group("Sampling (docs/sampling.md)");
}

}  // namespace

void describe_models(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto run = std::make_shared<RunOptions>();
  run->sampling.temperature = 0.8f;  // what people expect of a chat; the chain itself does nothing by default
  run->sampling.top_k = 40;
  run->sampling.top_p = 0.95f;
  run->sampling.min_p = 0.05f;
  CLI::App* command = program.add_subcommand("run", "Continue a text, as a stream");
  command->add_option("model", run->model, "A GGUF file or a folder of safetensors")->required()->type_name("");
  command
      ->add_option_function<std::string>(
          "-p,--prompt", [run](const std::string& text) { run->prompt = text; }, "The text; without it, standard input")
      ->type_name("TEXT");
  command->add_option("-n,--tokens", run->tokens, "At most so many; 0: until the model ends or the context is full")
      ->type_name("N");
  command->add_flag("--chat", run->chat, "The text is a message to the model, put into its chat template");
  command->add_option("--system", run->system, "With --chat: the system message")->type_name("TEXT");
  describe_device(*command, run->device);
  describe_sampling(*command, run->sampling);
  command->callback([run, &in, &out, &err] { run_model(*run, in, out, err); });

  const auto logits = std::make_shared<LogitsOptions>();
  command = program.add_subcommand("logits", "Write the logits after each of the given tokens");
  command->add_option("model", logits->model, "A GGUF file or a folder of safetensors")->required()->type_name("");
  command->add_option("--ids", logits->ids, "The tokens: 1,2,3")->required()->type_name("IDS");
  command->add_option("--out", logits->out, "The file to write: tensor `logits`, f32, one row per id")
      ->required()
      ->type_name("F.safetensors");
  describe_device(*command, logits->device);
  command->callback([logits, &out] { write_logits(*logits, out); });

  const auto perplexity_options = std::make_shared<PerplexityOptions>();
  command = program.add_subcommand("perplexity", "How well a model foretells a text");
  command->add_option("model", perplexity_options->model, "A GGUF file or a folder of safetensors")
      ->required()
      ->type_name("");
  command->add_option("file", perplexity_options->file, "The text")->required()->type_name("");
  command->add_option("--method", perplexity_options->method, "windows (the default; llama.cpp's) or sliding")
      ->type_name("NAME");
  command->add_option("--window", perplexity_options->window, "Tokens of a window")->type_name("N");
  command->add_option("--stride", perplexity_options->stride, "Of sliding windows; 0: half a window")->type_name("N");
  command->add_option("--windows", perplexity_options->limit, "No more than so many; 0: all")->type_name("N");
  command->add_option("--kl", perplexity_options->other, "Also how far the model is from this one")->type_name("MODEL");
  describe_device(*command, perplexity_options->device);
  command->callback([perplexity_options, &out, &err] { perplexity(*perplexity_options, out, err); });
}

}  // namespace heddle
