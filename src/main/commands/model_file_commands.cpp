// heddle convert, quantize and synth: the commands that write model files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "formats/convert.h"
#include "formats/synth.h"
#include "main/commands/commands.h"
#include "main/device/open_model.h"
#include "main/progress.h"
#include "model/load.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

struct WriteModelOptions {
  std::string model, output, type;
  bool allow_requantize = false;
  size_t threads = 0;
  bool force = false;  // replace an existing file, but never one that the model is read from
};

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6); }

std::function<void(const formats::Progress&)> reporter(ProgressLine& line) {
  return [&line](const formats::Progress& progress) {
    line.transfer(fmt::format("tensor {} of {}", progress.tensor, progress.tensors), progress.written,
                  progress.to_write);
  };
}

std::string summary(const std::string& path, const formats::Written& written, double seconds) {
  return fmt::format("{}: {:.1f} M weights, {} in {:.1f} s ({:.0f} MB/s), {:.2f} bits per weight", path,
                     static_cast<double>(written.values) * 1e-6, megabytes(written.bytes_after), seconds,
                     static_cast<double>(written.bytes_after) * 1e-6 / seconds, written.bits_per_value());
}

// What is at `output` stays, unless `force` is set. Says so before hours of work, not after.
OutputFile::Existing expect_free(const std::string& output, bool force) {
  std::error_code ignored;
  if (!force && fs::exists(fs::symlink_status(output, ignored)))
    throw Error("{}: there is such a file already; --force replaces it", output);
  return force ? OutputFile::Existing::replace : OutputFile::Existing::refuse;
}

// Not even --force replaces a file that the model is read from, by whatever path or link.
void expect_no_input(const formats::Checkpoint& checkpoint, const std::string& output) {
  std::vector<fs::path> inputs;
  for (const auto& file : checkpoint.files) inputs.push_back(file->path());
  std::error_code ignored;
  if (checkpoint.kind == formats::Checkpoint::Kind::safetensors) {  // config.json, the tokenizer and so on
    const fs::path folder = fs::is_directory(checkpoint.path) ? checkpoint.path : checkpoint.path.parent_path();
    for (const auto& entry : fs::directory_iterator(folder.empty() ? fs::path(".") : folder))
      inputs.push_back(entry.path());
  }
  for (const fs::path& input : inputs)
    if (fs::equivalent(input, output, ignored))
      throw Error("{}: expected another file than those of the model, found {}", output, input.string());
}

// A folder's metadata has no vocabulary yet.
formats::Metadata folder_metadata(const formats::Checkpoint& checkpoint, std::ostream& err) {
  expect_known_architecture(checkpoint);
  for (const std::string& text : checkpoint.warnings) err << "warning: " << text << '\n';
  formats::Metadata metadata = formats::converted_metadata(checkpoint);
  if (has_vocabulary(checkpoint)) {
    const formats::Tensor& embedding = checkpoint.tensor("token_embd.weight");
    put_vocabulary(metadata, padded(vocabulary_of(checkpoint), embedding.rows()));
  } else {
    err << "heddle: " << checkpoint.path.string() << ": no tokenizer.json: the file will have no tokenizer\n";
    metadata.set("tokenizer.ggml.model", std::string("none"));
  }
  return metadata;
}

void write_model(const formats::Checkpoint& checkpoint, const formats::Metadata& metadata,
                 std::optional<formats::FileType> type, const WriteModelOptions& options, std::ostream& out,
                 std::ostream& err) {
  const OutputFile::Existing existing = expect_free(options.output, options.force);
  if (!checkpoint.quantization.empty())
    err << (type ? fmt::format("weights: {}, converted from their exact values", checkpoint.quantization)
                 : checkpoint.quantization_note())
        << '\n';
  OutputFile::remove_on_signals();
  const auto start = Clock::now();
  formats::Written written;
  {
    ProgressLine line(&err);
    written = formats::write_gguf(checkpoint, metadata, type, options.output,
                                  {options.allow_requantize, options.threads, reporter(line), existing});
  }
  if (type == formats::FileType::mxfp4 &&
      !metadata.find_integer(fmt::format("{}.expert_count", metadata.string("general.architecture"))).value_or(0))
    err << "heddle: a dense model: all its matrices are MXFP4, not the experts alone\n";
  out << summary(options.output, written, seconds_since(start)) << ", was " << megabytes(written.bytes_before) << '\n';
}

// What becomes of a folder is a file that heddle runs, or none.
void expect_runs(const std::string& path) try {
  formats::Checkpoint checkpoint = open_model(path);
  if (has_vocabulary(checkpoint)) open_tokenizer(checkpoint);
  model::load(std::move(checkpoint));
} catch (const Error& error) {
  std::error_code ignored;
  fs::remove(path, ignored);
  throw Error("heddle would not run the file that it wrote, which was removed: {}", error.what());
}

// A folder of safetensors with its config.json -> a GGUF file. The type "auto" keeps the 16 or 32 bits of the weights.
void convert_model(const WriteModelOptions& options, std::ostream& out, std::ostream& err) {
  std::optional<formats::FileType> type;
  if (options.type != "auto") type = formats::file_type_named(options.type);
  const formats::Checkpoint checkpoint = open_model(options.model);
  if (checkpoint.kind == formats::Checkpoint::Kind::gguf)
    throw Error("{}: is a GGUF file already; heddle quantize changes its type", options.model);
  expect_no_input(checkpoint, options.output);
  write_model(checkpoint, folder_metadata(checkpoint, err), type, options, out, err);
  expect_runs(options.output);
}

// A GGUF file or such a folder -> a GGUF file of another type.
void quantize_model(const WriteModelOptions& options, std::ostream& out, std::ostream& err) {
  const formats::FileType type = formats::file_type_named(options.type);
  const formats::Checkpoint checkpoint = open_model(options.model);
  expect_no_input(checkpoint, options.output);
  const bool is_gguf = checkpoint.kind == formats::Checkpoint::Kind::gguf;
  write_model(checkpoint, is_gguf ? checkpoint.metadata : folder_metadata(checkpoint, err), type, options, out, err);
  if (!is_gguf) expect_runs(options.output);
}

struct SynthModelOptions {
  std::string shape, type = "Q4_K_M", output;
  uint64_t seed = 1, layers = 0;
  bool list = false;
  bool force = false;  // replace an existing file
};

void synthesize_model(const SynthModelOptions& options, std::ostream& out, std::ostream& err) {
  if (options.list) {
    for (const formats::SynthShape& shape : formats::synth_shapes()) out << shape.name << '\n';
    return;
  }
  if (options.shape.empty() || options.output.empty()) throw Error("synth needs --shape NAME and the file to write");
  const formats::FileType type = formats::file_type_named(options.type);
  const OutputFile::Existing existing = expect_free(options.output, options.force);
  OutputFile::remove_on_signals();
  const auto start = Clock::now();
  formats::Written written;
  {
    ProgressLine line(&err);
    written = formats::write_synthetic({options.shape, type, options.seed, reporter(line), existing, options.layers},
                                       options.output);
  }
  out << summary(options.output, written, seconds_since(start)) << '\n';
}

}  // namespace

void describe_model_files(CLI::App& program, std::ostream& out, std::ostream& err) {
  std::string types;
  for (formats::FileType type : formats::all_file_types())
    types += (types.empty() ? "" : ", ") + std::string(name(type));
  const std::string replaces = "Replace a file that is there already";

  const auto converted = std::make_shared<WriteModelOptions>();
  converted->type = "auto";
  CLI::App* convert = program.add_subcommand("convert", "Write a folder of safetensors as one GGUF file");
  convert->add_option("model", converted->model, "The folder, with config.json")->required()->type_name("FOLDER");
  convert->add_option("output", converted->output, "The file to write")->required()->type_name("OUT.gguf");
  convert->add_option("--type", converted->type, "auto (as the weights are), or one of " + types)->type_name("TYPE");
  convert->add_option("--threads", converted->threads, "0: all cores")->type_name("N");
  convert->add_flag("--force", converted->force, replaces);
  convert->callback([converted, &out, &err] { convert_model(*converted, out, err); });

  const auto quantized = std::make_shared<WriteModelOptions>();
  CLI::App* quantize = program.add_subcommand("quantize", "Write a model in another type");
  quantize->add_option("model", quantized->model, "A GGUF file, a folder with config.json, or the name of a model")
      ->required()
      ->type_name("MODEL");
  quantize->add_option("output", quantized->output, "The file to write")->required()->type_name("OUT.gguf");
  quantize->add_option("--type", quantized->type, "One of " + types)->required()->type_name("TYPE");
  quantize->add_flag("--allow-requantize", quantized->allow_requantize, "Also from weights that are quantised already");
  quantize->add_option("--threads", quantized->threads, "0: all cores")->type_name("N");
  quantize->add_flag("--force", quantized->force, replaces);
  quantize->callback([quantized, &out, &err] { quantize_model(*quantized, out, err); });

  const auto synthetic = std::make_shared<SynthModelOptions>();
  CLI::App* synth = program.add_subcommand("synth", "Write a model of a real shape with random weights");
  synth->add_option("output", synthetic->output, "The file to write")->type_name("OUT.gguf");
  synth->add_option("--shape", synthetic->shape, "One of --list")->type_name("NAME");
  synth->add_option("--type", synthetic->type, "One of " + types)->type_name("TYPE");
  synth->add_option("--seed", synthetic->seed, "Of the random weights")->type_name("N");
  synth->add_option("--layers", synthetic->layers, "The first N layers alone; 0: all")->type_name("N");
  synth->add_flag("--list", synthetic->list, "The shapes");
  synth->add_flag("--force", synthetic->force, replaces);
  synth->callback([synthetic, &out, &err] { synthesize_model(*synthetic, out, err); });
}

}  // namespace heddle
