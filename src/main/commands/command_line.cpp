// Every command adds itself to the parser; what goes wrong anywhere ends here, as one line and an exit status.
#include "main/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <memory>
#include <new>
#include <ostream>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "main/bench/bench_command.h"
#include "main/bench/client.h"
#include "main/bench/serve_sim.h"
#include "main/commands/command_description.h"
#include "main/commands/commands.h"
#include "main/commands/suggestions.h"
#include "main/commands/version_text.h"
#include "main/models/pull_command.h"
#include "main/process.h"
#include "main/progress.h"

namespace heddle {
namespace {

constexpr const char* overview =
    "heddle: LLM inference and serving that writes its own GPU code. Models run on a GPU if there is one, else on the\n"
    "CPU. MODEL is a GGUF file, a folder of safetensors, the name of a model that `heddle models` lists, or weft, a\n"
    "small model inside the program; commands that show [MODEL] use weft when none is given.";

constexpr const char* examples =
    "Examples:\n"
    "  heddle                                 a story by weft, and what to try next\n"
    "  heddle pull qwen3:0.6b                 get a model: from Ollama's registry, or org/repo from Hugging Face\n"
    "  heddle models                          the models on this machine, those of other programs too\n"
    "  heddle chat MODEL                      a conversation\n"
    "  heddle run MODEL -p \"Once upon\"       continue a text\n"
    "  heddle serve MODEL                     an OpenAI-compatible API on port 8080\n"
    "  heddle bench MODEL                     speed on this machine, and the share of memory bandwidth reached\n"
    "  heddle bench serve-sim MODEL           throughput and latency of many requests at once\n"
    "  heddle bench client URL                the same for any server with OpenAI's API\n"
    "  heddle plan MODEL --ctx 8192           the memory a model needs, and whether it fits\n"
    "  heddle perplexity MODEL FILE           perplexity on a text\n"
    "  heddle inspect MODEL                   contents and size of a model file\n"
    "  heddle show MODEL                      the same by name, with its place and its chat template\n"
    "  heddle rm MODEL                        remove a pulled model\n"
    "  heddle tokenize MODEL \"Hello\"          token ids of a text\n"
    "  heddle template MODEL --messages F.json\n"
    "                                         a conversation rendered by the model's chat template\n"
    "  heddle grammar check F.json            whether a schema or a grammar can be kept, and why not\n"
    "  heddle convert FOLDER OUT.gguf         a folder of safetensors as one GGUF file\n"
    "  heddle quantize IN OUT.gguf --type Q4_K_M\n"
    "                                         a smaller model from a larger one\n"
    "  heddle synth --shape llama-3.1-8b OUT.gguf\n"
    "                                         random weights in the shape of a real model, for benchmarks\n"
    "  heddle ptx list | show NAME | check    list the GPU kernels, print one as PTX, assemble all\n"
    "  heddle devices                         the GPUs and their measured bandwidth\n"
    "  heddle selftest                        every kernel on the GPU, compared with f64\n"
    "  heddle selftest MODEL                  a whole model on the GPU, compared with the reference backend\n"
    "  heddle bench kernels                   every kernel timed on the GPU\n"
    "  heddle tune MODEL                      find and keep the fastest kernel shapes for this GPU\n"
    "\n"
    "Exit status: 0 success, 1 an error, 2 a command line that was not understood, 130 interrupted by Ctrl-C.";

// Descriptions are wrapped, with defaults at their end: "Port to listen on; 0: any free one [8080]".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string value = value_name(*option);
    return (value.empty() ? "" : " " + value) +
           (option->get_required() && !option->get_positional() ? " (required)" : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override { return wrapped(text_with_default(*option)); }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), wrapped(command->get_description()), get_column_width());
    return out.str();
  }

 private:
  static std::string wrapped(const std::string& text) {
    constexpr size_t width = 80;
    std::string result;
    size_t column = 0;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const bool fits = column == 0 || column + 1 + word.size() <= width;
      if (column) result += fits ? ' ' : '\n';
      result += word;
      column = (fits && column ? column + 1 : 0) + word.size();
    }
    return result;
  }
};

// "help run" and "version" as other programs have them.
std::vector<std::string> with_flags(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments[0] == "version") arguments[0] = "--version";
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  return arguments;
}

// `offers`: how often a missing model may still be pulled, for the model and its draft.
int parse_and_run(const std::vector<std::string>& given, std::istream& in, std::ostream& out, std::ostream& err,
                  int offers = 2) {
  CLI::App program(overview, "heddle");
  bool verbose = false;
  program.set_version_flag(
      "-V,--version", [&] { return version_text(program.count("--verbose") > 0); }, "Show the version");
  program
      .add_flag("--verbose", verbose,
                "With --version: the commit, the compiler, the instruction sets and the driver too")
      ->needs("--version");
  program.set_help_flag("-h,--help", "Show help");
  program.require_subcommand(0, 1);
  program.option_defaults()->always_capture_default();
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("SUBCOMMAND", "COMMAND");
  formatter->label("Positionals", "Arguments");
  program.formatter(formatter);

  int status = 0;
  describe_chat(program, in, out, err, status);
  describe_run(program, in, out, err, status);
  describe_logits(program, out, err, status);
  describe_follow(program, err, status);
  describe_embed(program, in, out, err);
  describe_perplexity(program, out, err);
  describe_serve(program, out, err, status);
  describe_health(program, out);
  describe_models(program, out, err);
  describe_pull(program, out, err, status);
  describe_rm(program, out);
  describe_show(program, out);
  describe_inspect(program, out);
  describe_plan(program, out, status);
  describe_text(program, in, out, err);
  describe_grammar(program, in, out, err);
  describe_model_files(program, out, err);
  describe_ptx(program, out, err, status);
  describe_devices(program, out);
  describe_selftest(program, out, err, status);
  CLI::App& bench = *program.add_subcommand("bench", "Measure the speed of a model, a server or the GPU kernels");
  bench.require_subcommand(0, 1);
  describe_bench(bench, out, err, status);
  describe_bench_serve(bench, out, err);
  describe_bench_client(bench, out);
  describe_bench_kernels(bench, out, err, status);
  describe_tune(program, out, err);
  describe_completion(program, out);
  describe_manual(program);
  program.footer(examples);  // after the subcommands, which would inherit it

  const std::vector<std::string> arguments = with_flags(given);
  const auto not_understood = [&](const CLI::ParseError& error) {
    err << fmt::format("heddle: {}\n{} --help shows what can be given\n", explain_mistake(error, program, arguments),
                       command_named(program));
    return 2;
  };
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes words from the end
    return arguments.empty() ? welcome(out, err) : status;
  } catch (const CLI::Success& asked) {  // --help and --version
    const std::vector<std::string> left = program.remaining(true);
    return left.empty() ? program.exit(asked, out, err) : not_understood(CLI::ExtrasError(left));
  } catch (const CLI::ParseError& error) {
    return not_understood(error);
  } catch (const NoSuchModel& missing) {
    if (offers == 0) throw;
    const std::optional<int> refused = offer_to_pull(missing, command_named(program), in, err);
    if (refused) return *refused;
  }
  return parse_and_run(given, in, out, err, offers - 1);
}

}  // namespace

void describe_json(CLI::App& command, bool& json, const char* text) {
  command.add_flag_function(
      "--json",
      [&json](int64_t) {
        json = true;
        ProgressLine::disable();
      },
      text);
}

int run_command_line(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out,
                     std::ostream& err) {
  int status = 1;
  try {
    status = parse_and_run(arguments, in, out, err);
  } catch (const Error& error) {
    err << "heddle: " << error.what() << '\n';
  } catch (const std::bad_alloc&) {
    err << "heddle: out of memory: the system has none left for this program\n";
  } catch (const std::length_error& error) {  // a size that no container can have
    err << "heddle: out of memory: " << error.what() << '\n';
  } catch (const std::system_error& error) {  // threads, files: what the system refused
    if (error.code() == std::errc::resource_unavailable_try_again)
      err << "heddle: a thread could not be started: the system has no memory for it (ulimit -v), or too many "
             "processes "
             "(ulimit -u)\n";
    else
      err << "heddle: " << error.what() << '\n';
  } catch (const std::exception& error) {
    err << "heddle: this is a bug: " << error.what() << '\n';
  }
  return status_after_output(status, out, err);
}

}  // namespace heddle
