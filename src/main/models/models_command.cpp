#include "main/models/models_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cuda/context.h"
#include "gpu/gpu.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "main/device/running_model.h"
#include "main/progress.h"
#include "model/load.h"
#include "store/find.h"

namespace heddle {
namespace {

struct ListedModel {
  const store::FoundModel* found;
  std::string type, architecture;
  uint64_t context = 0;  // trained for; 0: the file does not say
  std::string problem;   // why it does not run here; empty: it does
};

ListedModel look_at(const store::FoundModel& found, const MachineMemory& memory) {
  ListedModel listed{.found = &found, .type = {}, .architecture = {}, .problem = found.problem};
  if (!found.problem.empty()) return listed;
  try {
    formats::Checkpoint checkpoint = formats::open_checkpoint(found.path);
    listed.type = checkpoint.quantization.empty() ? files_of(checkpoint).type : checkpoint.quantization;
    listed.context = trained_context(checkpoint);
    if (!checkpoint.unknown_class.empty())
      listed.architecture = checkpoint.unknown_class;
    else if (const auto name = checkpoint.metadata.find_string("general.architecture"))
      listed.architecture = replace_invalid_utf8(*name);
    expect_known_architecture(checkpoint);
    listed.problem = memory_problem(model::load(std::move(checkpoint)), memory);
  } catch (const Error& error) {
    listed.problem = error.what();
    const std::string path = found.path.string() + ": ";
    if (listed.problem.starts_with(path)) listed.problem.erase(0, path.size());
  }
  return listed;
}

void print_models_json(const std::vector<ListedModel>& models, std::ostream& out) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ListedModel& model : models) {
    list.push_back({{"name", model.found->name},
                    {"bytes", model.found->bytes},
                    {"type", model.type},
                    {"architecture", model.architecture},
                    {"context", model.context},
                    {"store", store::name(model.found->store)},
                    {"path", model.found->path.string()},
                    {"runs", model.problem.empty()}});
    if (!model.problem.empty()) list.back()["problem"] = replace_invalid_utf8(model.problem);
  }
  out << list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

std::string context_text(uint64_t tokens) {
  if (tokens == 0) return "-";
  return tokens % 1024 == 0 ? fmt::format("{}K", tokens / 1024) : fmt::format("{}", tokens);
}

void print_models_table(const std::vector<ListedModel>& models, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"NAME", "SIZE", "TYPE", "ARCHITECTURE", "CONTEXT", "STORE", "RUNS"}};
  const auto known = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const ListedModel& model : models) {
    // one line each: what is wrong with the file stands in --json and in `heddle inspect`
    std::string problem = model.problem.substr(0, model.problem.find(';'));
    if (problem.size() > 70) problem = problem.substr(0, 67) + "...";
    rows.push_back({model.found->name, bytes_text(double(model.found->bytes)), known(model.type),
                    known(model.architecture), context_text(model.context),
                    std::string(store::name(model.found->store)), model.problem.empty() ? "yes" : "no: " + problem});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    out << replace_invalid_utf8(line + row.back()) << '\n';
  }
}

// For completions: nothing is opened, so that many models take no longer than a key press.
void list_names(std::ostream& out) {
  out << own_model_name << '\n';
  for (const store::FoundModel& each : store::find_models(store::model_places()))
    if (is_utf8(each.name) && std::ranges::none_of(each.name, [](unsigned char c) { return c < ' ' || c == 127; }))
      out << each.name << '\n';
}

void list_models(bool json, std::ostream& out, std::ostream& err) {
  std::vector<std::string> notes;
  const std::vector<store::Place> places = store::model_places();
  const std::vector<store::FoundModel> found = store::find_models(places, &notes);
  std::vector<ListedModel> models;
  {
    ProgressLine progress(&err);
    const MachineMemory memory = found.empty() ? MachineMemory() : machine_memory();
    for (const store::FoundModel& each : found) {
      progress.count("looking at models:", models.size(), found.size(), "files");
      models.push_back(look_at(each, memory));
    }
  }
  if (json)
    print_models_json(models, out);
  else if (!models.empty())
    print_models_table(models, out);
  else
    out << "no models in these folders; heddle pull NAME gets one:\n";
  if (!json && models.empty())
    for (const store::Place& place : places)
      out << fmt::format("  {:<12}  {}\n", store::name(place.store), place.folder.string());
  for (const std::string& note : notes) err << "heddle: " << replace_invalid_utf8(note) << '\n';
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory memory{.cpu = available_memory(), .gpus = {}};
  try {
    for (const cuda::DeviceInfo& info : cuda::devices()) {
      gpu::expect_capable(info);
      memory.gpus.emplace_back(info, usable_memory(cuda::Context(info.ordinal).memory().free));
    }
  } catch (const Error&) {  // no GPU: `heddle devices` says why
  }
  return memory;
}

std::string memory_problem(const model::Model& model, const MachineMemory& memory) {
  const DeviceOptions options;
  const Fit on_cpu = fit(model, options, cpu_rows(options), memory.cpu);
  if (on_cpu.context) return {};
  uint64_t largest = 0;  // of the GPUs
  for (const auto& [info, free] : memory.gpus) {
    if (fit(model, options, gpu_rows, free, &info).context) return {};
    largest = std::max(largest, free);
  }
  const uint64_t needed = on_cpu.needed.weights + on_cpu.needed.workspace;
  if (largest && needed <= memory.cpu + largest) return {};  // layers on both
  return fmt::format("too large: it needs {}, {} are free", bytes_text(double(needed)),
                     bytes_text(double(memory.cpu + largest)));
}

void describe_models(CLI::App& program, std::ostream& out, std::ostream& err) {
  const auto json = std::make_shared<bool>(false), names = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("models", "List the models on this machine");
  describe_json(*command, *json);
  command->add_flag("--names", *names, "Print the names alone, weft among them, without opening the files")
      ->excludes(command->get_option("--json"));
  command->footer(
      "Looked for are GGUF files and folders of safetensors in heddle's own store ($XDG_DATA_HOME/heddle/models), "
      "Hugging\n"
      "Face's cache, the stores of Ollama and LM Studio, and llama.cpp's cache. Each name can be given as MODEL.");
  command->callback([json, names, &out, &err] { *names ? list_names(out) : list_models(*json, out, err); });
}

}  // namespace heddle
