// Which models a server has, and by which names.
#pragma once
#include <string>
#include <vector>

#include "main/serve/serve_options.h"

namespace heddle {

// A model to serve.
struct ServedName {
  std::string model;                // for open_model()
  std::string name;                 // in the API; empty: that of the model
  std::vector<std::string> others;  // by which it is found besides
};

// The models that the command line names. A folder of models stands for all of them. Throws an Error if there is no
// such model, and for options that are for one model alone.
std::vector<ServedName> served_names(const ServeOptions& options);

}  // namespace heddle
