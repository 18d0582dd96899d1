// heddle rm: a model out of heddle's own store.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "main/commands/commands.h"
#include "main/device/open_model.h"
#include "main/models/named_model.h"
#include "store/places.h"
#include "store/remove.h"

namespace heddle {
namespace {

void remove_named(const std::string& name, std::ostream& out) {
  if (name == own_model_name) throw Error("{} is a part of the program, and cannot be removed", name);
  const std::filesystem::path store = store::own_store();
  const std::vector<store::FoundModel> models = store::find_models(store::model_places());
  const std::vector<store::FoundModel> found = store::models_named(name, models);
  if (found.size() == 1) {
    const uint64_t bytes = store::remove_model(found[0], store);
    out << fmt::format("removed {}: {}\n", found[0].name, bytes_text(double(bytes)));
    return;
  }
  if (found.empty())
    if (const auto remote = store::find_remote_name(name))
      if (const uint64_t bytes = store::remove_unfinished(*remote, store)) {
        out << fmt::format("removed what was pulled of {}: {}\n", name, bytes_text(double(bytes)));
        return;
      }
  find_model(name, models);  // says why not
}

}  // namespace

void describe_rm(CLI::App& program, std::ostream& out) {
  const auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command = program.add_subcommand("rm", "Remove a pulled model");
  command->add_option("MODEL", *names, "Models of heddle's own store, by their names in `heddle models`")
      ->type_name("")
      ->required();
  command->footer("Models of other programs stay: the message says what removes them.");
  command->callback([names, &out] {
    for (const std::string& name : *names) remove_named(name, out);
  });
}

}  // namespace heddle
