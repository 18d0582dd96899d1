// What is asked for is described here, done elsewhere.
#include "main/commands/model_commands.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "main/chat/chat_command.h"
#include "main/commands/perplexity_command.h"
#include "main/commands/run_command.h"

namespace heddle {

void describe_models(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status) {
  describe_chat(program, in, out, err, status);
  describe_run(program, in, out, err, status);

  const auto logits = std::make_shared<LogitsOptions>();
  CLI::App* command = program.add_subcommand("logits", "Write the logits after each of the given tokens");
  command->add_option("model", logits->model, "A GGUF file or a folder of safetensors")->required()->type_name("");
  command->add_option("--ids", logits->ids, "The tokens: 1,2,3")->required()->type_name("IDS");
  command->add_option("--out", logits->out, "The file to write: tensor `logits`, f32, one row per id")
      ->required()
      ->type_name("F.safetensors");
  describe_device(*command, logits->device);
  command->callback([logits, &out, &err] { write_logits(*logits, out, err); });

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
