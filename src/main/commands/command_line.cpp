// The command line: options and subcommands are described here, done elsewhere.
#include "main/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <exception>
#include <filesystem>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"
#include "base/version.h"
#include "kernels/spec/catalog.h"
#include "main/bench/bench_command.h"
#include "main/bench/client.h"
#include "main/bench/serve_sim.h"
#include "main/commands/inspect_command.h"
#include "main/commands/model_commands.h"
#include "main/commands/model_file_commands.h"
#include "main/commands/plan_command.h"
#include "main/commands/ptx_command.h"
#include "main/commands/text_commands.h"
#include "main/commands/welcome.h"
#include "main/device/gpu_command.h"
#include "main/device/model_selftest.h"
#include "main/device/tune_command.h"
#include "main/serve/serve_command.h"

namespace heddle {
namespace {

constexpr const char* overview =
    "heddle: LLM inference that writes its own GPU code. Models run on a GPU where there is one, else on the CPU. "
    "Where\n"
    "MODEL is left out, it is weft, a small model that is part of the program.";

constexpr const char* examples =
    "Examples:\n"
    "  heddle                                 a story by weft, and what to try next\n"
    "  heddle chat MODEL                      a conversation\n"
    "  heddle run MODEL -p \"Once upon\"       a text continued\n"
    "  heddle serve MODEL                     an API on port 8080 that clients of OpenAI's can use\n"
    "  heddle bench MODEL                     how fast that is here, and how near to what memory can give\n"
    "  heddle bench serve-sim MODEL           many requests at once: how fast, and how evenly\n"
    "  heddle bench client URL                a server with OpenAI's API: how fast it is to many clients at once\n"
    "  heddle plan MODEL --ctx 8192           the memory it will take, and whether it fits\n"
    "  heddle perplexity MODEL FILE           how well it foretells a text\n"
    "  heddle inspect MODEL                   what a GGUF file or a folder of safetensors holds and needs\n"
    "  heddle tokenize MODEL \"Hello\"          the ids the model sees\n"
    "  heddle template MODEL --messages F.json\n"
    "                                         a conversation as the model's chat template writes it\n"
    "  heddle convert FOLDER OUT.gguf         a folder of safetensors as one GGUF file\n"
    "  heddle quantize IN OUT.gguf --type Q4_K_M\n"
    "                                         the same model with smaller weights\n"
    "  heddle synth --shape llama-3.1-8b OUT.gguf\n"
    "                                         random weights of a real shape, to time programs with\n"
    "  heddle ptx list | show NAME | check    the GPU kernels: what they do, their PTX, whether it assembles\n"
    "  heddle devices | selftest | bench kernels\n"
    "                                         on a GPU: what it is, every kernel against f64, every kernel timed\n"
    "  heddle selftest MODEL                  a whole model on the GPU against the reference\n"
    "  heddle tune MODEL                      the fastest shapes of its kernels on this GPU, found and kept\n"
    "\n"
    "The exit status is 0 when done, 1 when something was refused or failed, 2 when the command was not understood, "
    "130\n"
    "when Ctrl-C ended it.";

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
  std::string device, sweep, kv;  // of selftest; empty: the default
  bool exact = false, deterministic = false;
  BenchKernelsOptions kernels;
};

// "3" and "cuda:3" are the same GPU.
std::string number_of_gpu(const std::string& device) {
  const std::optional<uint32_t> number = cuda_number(device);
  return number ? std::to_string(*number) : device;
}

// A path, and not the name of a kernel.
bool is_model(const std::string& word) {
  for (const kernels::Entry& entry : kernels::catalog())
    if (entry.name == word) return false;
  return word == "weft" || word.ends_with(".gguf") || std::filesystem::exists(word);
}

bool run_selftest(const GpuOptions& options, std::ostream& out) {
  const std::string number = number_of_gpu(options.device);
  SelftestOptions kernels = options.selftest;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), kernels.device);
  const bool is_number = !number.empty() && read.ec == std::errc() && read.ptr == number.data() + number.size();
  if (kernels.kernels.size() == 1 && is_model(kernels.kernels[0])) {
    ModelSelftestOptions model{.model = kernels.kernels[0]};
    model.device.exact = options.exact;
    model.device.deterministic = options.deterministic;
    if (!options.kv.empty()) model.device.kv = kv_named(options.kv);
    model.device.threads = kernels.threads;
    if (!options.sweep.empty()) model.sweep = options.sweep;
    if (!number.empty()) model.device.device = is_number ? "cuda:" + number : number;
    return selftest_model(model, out);
  }
  if (!number.empty() && !is_number)
    throw Error("--device: expected the number of a GPU such as 0 or cuda:0, found {}", in_quotes(options.device));
  if (options.exact) throw Error("--exact: expected a MODEL with it, found none");
  if (options.deterministic) throw Error("--deterministic: expected a MODEL with it, found none");
  if (!options.kv.empty()) throw Error("--kv: expected a MODEL with it, found none");
  if (!options.sweep.empty()) kernels.sweep = options.sweep;
  return selftest(kernels, out);
}

void describe_gpu(CLI::App& program, GpuOptions& options, std::ostream& out, std::ostream& err, int& status) {
  CLI::App* devices = program.add_subcommand("devices", "The GPUs: what they are, and how fast their memory reads");
  devices->callback([&out] { list_devices(out); });

  CLI::App* test = program.add_subcommand(
      "selftest", "Run every kernel on the GPU over a sweep of shapes against f64; or a model against the reference");
  test->add_option("kernels", options.selftest.kernels, "Kernels to test, or one MODEL; without any, all kernels")
      ->type_name("");
  test->add_option("--device", options.device, "Which GPU, by its name in `heddle devices`; cpu, with a MODEL")
      ->type_name("cuda:N");
  test->add_option("--sweep", options.sweep,
                   "How many shapes or tokens: quick, normal or full; without it, kernels full and a MODEL normal")
      ->type_name("SWEEP");
  test->add_flag("--exact", options.exact, "With a MODEL: do not quantise activations");
  test->add_flag("--deterministic", options.deterministic,
                 "With a MODEL: a row's result does not depend on what is computed beside it");
  test->add_option("--kv", options.kv, "With a MODEL: what the KV cache keeps, f16 or q8")->type_name("FORMAT");
  test->add_option("--seed", options.selftest.seed, "Of the random inputs")->type_name("N");
  test->add_option("--threads", options.selftest.threads, "On the host, for the references; 0: all")->type_name("N");
  test->callback([&options, &out, &status] { status = run_selftest(options, out) ? 0 : 1; });

  CLI::App* bench =
      program.add_subcommand("bench", "Time a model on this machine, for one user or many, or the GPU kernels");
  bench->require_subcommand(0, 1);
  describe_bench(*bench, out, err);
  describe_bench_serve(*bench, out, err);
  describe_bench_client(*bench, out);
  CLI::App* kernels = bench->add_subcommand("kernels", "Time the GPU kernels against the streaming limit");
  kernels->add_option("kernels", options.kernels.kernels, "Kernels to time; without any, all")->type_name("");
  kernels->add_option("--device", options.kernels.device, "Which GPU, by its name in `heddle devices`")
      ->type_name("cuda:N")
      ->transform(number_of_gpu);
  kernels->add_option("--shape", options.kernels.shape, "Only shapes that contain this text")->type_name("TEXT");
  kernels->add_flag("--json", options.kernels.json, "Print JSON");
  kernels->callback([&options, &out, &status] { status = bench_kernels(options.kernels, out) ? 0 : 1; });
}

void describe_inspect(CLI::App& program, InspectOptions& options, std::ostream& out) {
  CLI::App* command = program.add_subcommand("inspect", "What a model file holds, and the memory it needs");
  describe_model(*command, options.path);
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
  describe_models(program, in, out, err, status);
  describe_serve(program, out, err, status);
  InspectOptions inspect_options;
  describe_inspect(program, inspect_options, out);
  describe_plan(program, out, status);
  describe_text(program, in, out);
  describe_model_files(program, out, err);
  PtxOptions ptx;
  describe_ptx(program, ptx, out, status);
  GpuOptions gpu;
  describe_gpu(program, gpu, out, err, status);
  describe_tune(program, out);
  program.footer(examples);  // after the subcommands, which would inherit it

  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes words from the end
    if (arguments.empty()) return welcome(out, err);
    return status;
  } catch (const CLI::ParseError& error) {
    return program.exit(error, out, err) == 0 ? 0 : 2;  // 0: --help and --version come this way too
  } catch (const Error& error) {
    err << "heddle: " << error.what() << '\n';
  } catch (const std::bad_alloc&) {
    err << "heddle: out of memory: the system has none left for this program\n";
  } catch (const std::length_error& error) {  // a size that no container can have
    err << "heddle: out of memory: " << error.what() << '\n';
  } catch (const std::exception& error) {
    err << "heddle: this is a bug: " << error.what() << '\n';
  }
  return 1;
}

}  // namespace heddle
