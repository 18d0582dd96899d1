// The command line: options and subcommands are described here, done elsewhere.
#include "main/command_line.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <ostream>

#include "base/error.h"
#include "base/version.h"
#include "kernels/catalog.h"
#include "main/gpu_command.h"
#include "main/inspect_command.h"
#include "main/model_commands.h"
#include "main/model_file_commands.h"
#include "main/ptx_command.h"
#include "main/text_commands.h"

namespace heddle {
namespace {

constexpr const char* overview =
    "heddle: LLM inference that writes its own GPU code.\n"
    "This version reads and writes model files, speaks their tokenizers and chat templates, and holds the kernels. "
    "Models\n"
    "are not run yet.";

constexpr const char* examples =
    "Examples:\n"
    "  heddle inspect MODEL                   what a GGUF file or a folder of safetensors holds and needs\n"
    "  heddle tokenize MODEL \"Hello\"          the ids the model sees\n"
    "  heddle template MODEL --messages F.json\n"
    "                                         a conversation as the model's chat template writes it\n"
    "  heddle convert FOLDER OUT.gguf         a folder of safetensors as one GGUF file\n"
    "  heddle quantize IN OUT.gguf --type Q4_K_M\n"
    "                                         the same model with smaller weights\n"
    "  heddle synth --shape llama-3.1-8b OUT.gguf\n"
    "                                         random weights of a real shape, to time programs with\n"
    "  heddle ptx list                        every kernel, what it does and what can be set\n"
    "  heddle ptx show NAME                   one kernel as PTX text, for the lowest target it is for\n"
    "  heddle ptx show NAME --target sm_90a --set FIELD=VALUE\n"
    "                                         the same for another target and another shape\n"
    "  heddle ptx check                       verify every kernel and assemble it for every target\n"
    "  heddle ptx check NAME --target sm_80   the same for one kernel and one target\n"
    "  heddle devices                         the GPUs, with the bandwidth measured\n"
    "  heddle selftest                        every kernel on the GPU, compared by value with f64\n"
    "  heddle bench kernels --json            every kernel timed against the streaming limit\n"
    "\n"
    "The exit status is 0 when done, 1 when something was refused or failed, 2 when the command was not understood.";

// What the options of `ptx` are read into.
struct PtxOptions {
  std::string name, target;
  std::vector<std::string> names, targets, settings;
};

void describe_ptx(CLI::App& program, PtxOptions& options, std::ostream& out, int& status) {
  CLI::App* ptx = program.add_subcommand("ptx", "The GPU kernels: list, show and check them. Needs no GPU.");
  ptx->require_subcommand(0, 1);
  ptx->callback([ptx] {
    if (ptx->get_subcommands().empty()) throw CLI::CallForHelp();
  });

  CLI::App* list =
      ptx->add_subcommand("list", "Every kernel: its lowest target, what it does, its fields and defaults");
  list->callback([&out] { list_kernels(kernels::catalog(), out); });

  CLI::App* show = ptx->add_subcommand("show", "Verify one kernel and print its PTX text");
  show->add_option("name", options.name, "A name from `heddle ptx list`")->required()->type_name("");
  show->add_option("--target", options.target, "The GPU it is for, such as sm_90a; without it the lowest it is for")
      ->type_name("TARGET");
  show->add_option("--set", options.settings, "A field from `heddle ptx list`; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  show->callback([&options, &out] {
    show_kernel(kernels::catalog(), options.name, options.target, parse_settings(options.settings), out);
  });

  CLI::App* check = ptx->add_subcommand(
      "check", "Verify kernels and, where ptxas is on PATH, assemble them; a register spill is a failure");
  check->add_option("names", options.names, "Kernels to check; without any, all")->type_name("");
  check->add_option("--target", options.targets, "A target to check for; may be repeated; without it, all")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  check->callback([&options, &out, &status] {
    status = check_kernels(kernels::catalog(), options.names, options.targets, out) ? 0 : 1;
  });
}

// What the options of `selftest` and `bench` are read into.
struct GpuOptions {
  SelftestOptions selftest;
  BenchKernelsOptions kernels;
};

void describe_gpu(CLI::App& program, GpuOptions& options, std::ostream& out, int& status) {
  CLI::App* devices = program.add_subcommand("devices", "The GPUs: what they are, and how fast their memory reads");
  devices->callback([&out] { list_devices(out); });

  CLI::App* test = program.add_subcommand("selftest", "Run every kernel on the GPU over a sweep of shapes against f64");
  test->add_option("kernels", options.selftest.kernels, "Kernels to test; without any, all")->type_name("");
  test->add_option("--device", options.selftest.device, "Which GPU, by its number in `heddle devices`")->type_name("N");
  test->add_option("--sweep", options.selftest.sweep, "How many shapes: quick, normal or full (the default)")
      ->type_name("SWEEP");
  test->add_option("--seed", options.selftest.seed, "Of the random inputs")->type_name("N");
  test->add_option("--threads", options.selftest.threads, "On the host, for the references; 0: all")->type_name("N");
  test->callback([&options, &out, &status] { status = selftest(options.selftest, out) ? 0 : 1; });

  CLI::App* bench = program.add_subcommand("bench", "Time what heddle does on this machine");
  bench->require_subcommand(0, 1);
  bench->callback([bench] {
    if (bench->get_subcommands().empty()) throw CLI::CallForHelp();
  });
  CLI::App* kernels = bench->add_subcommand("kernels", "Time the GPU kernels against the streaming limit");
  kernels->add_option("kernels", options.kernels.kernels, "Kernels to time; without any, all")->type_name("");
  kernels->add_option("--device", options.kernels.device, "Which GPU, by its number in `heddle devices`")
      ->type_name("N");
  kernels->add_option("--shape", options.kernels.shape, "Only shapes that contain this text")->type_name("TEXT");
  kernels->add_flag("--json", options.kernels.json, "Print JSON");
  kernels->callback([&options, &out, &status] { status = bench_kernels(options.kernels, out) ? 0 : 1; });
}

void describe_inspect(CLI::App& program, InspectOptions& options, std::ostream& out) {
  CLI::App* command = program.add_subcommand("inspect", "What a model file holds, and the memory it needs");
  command->add_option("model", options.path, "A GGUF file, a safetensors file, or a folder with either")
      ->required()
      ->type_name("");
  command->add_option("--ctx", options.context, "Tokens to plan the KV cache for; without it, the model's context")
      ->type_name("N");
  command->add_flag("--tensors", options.tensors, "List every tensor");
  command->add_flag("--full", options.full, "Print long values whole");
  command->add_flag("--json", options.json, "Print JSON");
  command->callback([&options, &out] { inspect(options, out); });
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out,
                     std::ostream& err) {
  CLI::App program(overview, "heddle");
  program.set_version_flag("--version", std::string("heddle ") + version);
  program.set_help_flag("-h,--help", "What can be done, here or after any command");
  program.require_subcommand(0, 1);

  int status = 0;
  describe_models(program, in, out, err);
  InspectOptions inspect_options;
  describe_inspect(program, inspect_options, out);
  describe_text(program, in, out);
  describe_model_files(program, out, err);
  PtxOptions ptx;
  describe_ptx(program, ptx, out, status);
  GpuOptions gpu;
  describe_gpu(program, gpu, out, status);
  program.footer(examples);  // after the subcommands, which would inherit it

  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes words from the end
    if (arguments.empty()) throw CLI::CallForHelp();
    return status;
  } catch (const CLI::ParseError& error) {
    return program.exit(error, out, err) == 0 ? 0 : 2;  // 0: --help and --version come this way too
  } catch (const Error& error) {
    err << "heddle: " << error.what() << '\n';
  } catch (const std::exception& error) {
    err << "heddle: this is a bug: " << error.what() << '\n';
  }
  return 1;
}

}  // namespace heddle
