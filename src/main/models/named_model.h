// What MODEL on a command line means: the one place where names become paths.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/find.h"
#include "store/names.h"

namespace heddle {

struct NamedModel {
  std::filesystem::path path;  // for formats::open_checkpoint()
  std::string name;            // that it has in its store; empty: a path was given, which says it
};

// A path if there is such a file or folder; otherwise the model of that name in one of the stores. An Error names the
// candidates where several have it, and the nearest name where none has.
NamedModel find_model(const std::string& name);
// The same among models that were found already.
NamedModel find_model(const std::string& name, const std::vector<store::FoundModel>& models);

// What find_model() throws for a model that is not on this machine and might be pulled.
struct NoSuchModel : Error {
  NoSuchModel(store::RemoteName name, const std::string& message) : Error("{}", message), remote(std::move(name)) {}
  store::RemoteName remote;
};

// Whether it is a path that exists, or the name of a model in a store.
bool is_model(const std::string& name);

}  // namespace heddle
