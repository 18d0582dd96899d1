#include "main/models/named_model.h"

#include <fmt/ranges.h>

#include "base/utf8.h"
#include "main/commands/nearest.h"
#include "store/places.h"

namespace heddle {
namespace {

bool is_path(const std::string& name) {
  std::error_code error;  // what cannot be looked at, opening reports
  return std::filesystem::exists(name, error) || (error && error != std::errc::no_such_file_or_directory);
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<store::FoundModel>& models) {
  const std::optional<store::RemoteName> remote = store::find_remote_name(name);
  if (!remote) throw Error("{}: there is no such file or folder", name);
  std::vector<std::string> names;
  for (const store::FoundModel& model : models)
    for (std::string& each : store::names_of(model)) names.push_back(std::move(each));
  const std::string suggestion = did_you_mean(name, names);
  throw NoSuchModel(
      *remote, fmt::format("{}: there is no such file or folder, and no model of that name on this machine{}{} heddle "
                           "pull {}",
                           name, suggestion, suggestion.empty() ? "; to get it:" : " Or, to get it:", name));
}

}  // namespace

NamedModel find_model(const std::string& name, const std::vector<store::FoundModel>& models) {
  const std::vector<store::FoundModel> found = store::models_named(name, models);
  if (found.empty()) refuse_unknown(name, models);
  if (found.size() > 1) {
    std::vector<std::string> candidates;
    for (const store::FoundModel& each : found)
      candidates.push_back(fmt::format("{} ({})", each.name, store::name(each.store)));
    throw Error("{}: expected the name of one model, found {}: {}", name, found.size(), fmt::join(candidates, ", "));
  }
  if (!found[0].problem.empty())
    throw Error("{}: cannot be run from the store of {}: {}", found[0].name, store::name(found[0].store),
                found[0].problem);
  return {found[0].path, found[0].name};
}

NamedModel find_model(const std::string& name) {
  if (is_path(name)) return {name, ""};
  return find_model(name, store::find_models(store::model_places()));
}

bool is_model(const std::string& name) {
  return is_path(name) || !store::models_named(name, store::find_models(store::model_places())).empty();
}

}  // namespace heddle
