// heddle show: a model by name: where it lies, what it is, and its chat template.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "base/memory.h"
#include "base/utf8.h"
#include "main/commands/commands.h"
#include "main/commands/inspect_command.h"
#include "main/device/device_options.h"
#include "main/device/open_model.h"
#include "main/models/named_model.h"

namespace heddle {
namespace {

using FileSizes = std::vector<std::pair<std::string, uint64_t>>;

// Where it is from; a model by path has only its files.
struct Whereabouts {
  std::string name, store, path;
  FileSizes files;
};

Whereabouts whereabouts_of(const std::string& name, const formats::Checkpoint& checkpoint) {
  Whereabouts where{.name = checkpoint.name(), .store = "none: a path", .path = checkpoint.path.string(), .files = {}};
  if (name == own_model_name) where.store = "none: in the program";
  for (const auto& file : checkpoint.files) where.files.emplace_back(file->path().string(), file->bytes().size());
  if (checkpoint.known_as.empty()) return where;
  for (const store::FoundModel& model : store::find_models(store::model_places()))
    if (model.path == checkpoint.path) where.store = store::name(model.store);
  return where;
}

void show(const std::string& name, bool json, std::ostream& out) {
  const formats::Checkpoint checkpoint = open_model(name);
  const Whereabouts where = whereabouts_of(name, checkpoint);
  const std::string chat = replace_invalid_utf8(checkpoint.chat_template());
  InspectOptions options;
  options.path = name;
  options.json = json;
  std::ostringstream inspected;
  inspect(options, inspected);
  if (!json) {
    out << fmt::format("{:<14} {}\n{:<14} {}\n", "model", replace_invalid_utf8(where.name), "store", where.store);
    for (const auto& [file, bytes] : where.files.size() > 1 ? where.files : FileSizes())  // of one, inspect has it
      out << fmt::format("{:<14} {} ({})\n", "path", file, bytes_text(double(bytes)));
    out << inspected.str();
    if (!chat.empty()) out << "\nchat template\n" << chat << (chat.ends_with('\n') ? "" : "\n");
    return;
  }
  auto all = nlohmann::ordered_json::parse(inspected.str());
  all.erase("tensors");
  nlohmann::ordered_json result{{"name", replace_invalid_utf8(where.name)}, {"store", where.store}};
  result["paths"] = nlohmann::ordered_json::array();
  for (const auto& [file, bytes] : where.files)
    result["paths"].push_back({{"path", replace_invalid_utf8(file)}, {"bytes", bytes}});
  result.update(all);
  result["chat_template"] = chat;
  out << result.dump(2) << '\n';
}

}  // namespace

void describe_show(CLI::App& program, std::ostream& out) {
  struct Given {
    std::string name;
    bool json = false;
  };
  const auto given = std::make_shared<Given>();
  CLI::App* command = program.add_subcommand("show", "Show where a model lies, its metadata and its chat template");
  describe_required_model(*command, given->name);
  describe_json(*command, given->json);
  command->callback([given, &out] { show(given->name, given->json, out); });
}

}  // namespace heddle
