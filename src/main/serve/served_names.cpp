#include "main/serve/served_names.h"

#include <filesystem>

#include "base/error.h"
#include "main/device/open_model.h"
#include "main/models/named_model.h"
#include "store/find.h"

namespace heddle {
namespace {

// A folder that is no model itself is all the models in it.
std::vector<ServedName> models_in(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || fs::exists(fs::path(path) / "config.json", ignored)) return {};
  std::vector<ServedName> all;
  for (const store::FoundModel& found : store::find_models({{store::StoreKind::own, path}}))
    if (found.problem.empty()) all.push_back({found.path.string(), found.name, store::names_of(found)});
  return all;
}

}  // namespace

std::vector<ServedName> served_names(const ServeOptions& options) {
  std::vector<ServedName> all;
  for (const std::string& model : options.models) {
    if (model.empty()) open_model(model);  // refuses
    if (std::vector<ServedName> some = models_in(model); some.size() > 1) {
      for (ServedName& one : some) all.push_back(std::move(one));
      continue;
    }
    // by its name in a store, if that is how it was given
    const NamedModel named = model == own_model_name ? NamedModel{model, model} : find_model(model);
    all.push_back({model, named.name, {}});
    if (!named.name.empty()) all.back().others = {model, named.path.stem().string()};
  }
  if (all.size() > 1 && !options.alias.empty())
    throw Error("--alias: expected one model with it, found {}", all.size());
  if (all.size() > 1 && !options.device.draft.empty())
    throw Error("--draft: expected one model with it, found {}", all.size());
  if (!options.alias.empty()) all.front().name = options.alias;
  return all;
}

}  // namespace heddle
