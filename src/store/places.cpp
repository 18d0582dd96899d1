#include "store/places.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;

// An empty variable is an unset one.
fs::path folder_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value ? value : "";
}

fs::path below(const fs::path& folder, const char* name) { return folder.empty() ? folder : folder / name; }

fs::path home_folder(const Environment& environment, const char* variable, const char* below_home) {
  if (const fs::path set = folder_of(environment, variable); !set.empty()) return set;
  return below(folder_of(environment, "HOME"), below_home);
}

fs::path caches(const Environment& environment) { return home_folder(environment, "XDG_CACHE_HOME", ".cache"); }

// LM Studio's home is where this file says, if there is one.
fs::path lm_studio_home(const fs::path& home) {
  std::ifstream file(below(home, ".lmstudio-home-pointer"));
  std::string line;
  std::getline(file, line);
  line.erase(line.find_last_not_of(" \t\r") + 1);
  const fs::path folder = line;
  return folder.is_absolute() ? folder : fs::path();
}

// The folder for models, where the user has moved it.
fs::path lm_studio_downloads(const fs::path& home) {
  const fs::path path = below(home, "settings.json");
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored)) return {};
  try {
    const Json settings = parse_json(MappedFile(path).text(), path.string());
    const auto folder = settings.is_object() ? settings.find("downloadsFolder") : settings.end();
    if (!settings.is_object() || folder == settings.end() || !folder->is_string()) return {};
    const fs::path downloads = folder->get<std::string>();
    return downloads.is_absolute() ? downloads : fs::path();
  } catch (const Error&) {  // another program's file: without it, its usual folders are searched
    return {};
  }
}

const char* from_process(const char* name) { return std::getenv(name); }

}  // namespace

std::string_view name(StoreKind store) {
  switch (store) {
    case StoreKind::own:
      return "heddle";
    case StoreKind::hugging_face:
      return "Hugging Face";
    case StoreKind::ollama:
      return "Ollama";
    case StoreKind::lm_studio:
      return "LM Studio";
    case StoreKind::llama_cpp:
      return "llama.cpp";
  }
  return "";
}

fs::path hugging_face_home(const Environment& environment) {
  if (const fs::path set = folder_of(environment, "HF_HOME"); !set.empty()) return set;
  return below(caches(environment), "huggingface");
}

fs::path own_store(const Environment& environment) {
  const fs::path data = home_folder(environment, "XDG_DATA_HOME", ".local/share");
  if (data.empty()) throw Error("expected XDG_DATA_HOME or HOME to name a folder for models, found neither");
  return data / "heddle" / "models";
}
fs::path own_store() { return own_store(from_process); }

std::vector<Place> model_places(const Environment& environment) {
  std::vector<Place> places;
  std::set<fs::path> seen;
  const auto add = [&](StoreKind store, const fs::path& folder) {
    if (!folder.empty() && seen.insert(folder.lexically_normal()).second) places.push_back({store, folder});
  };
  const fs::path home = folder_of(environment, "HOME");
  add(StoreKind::own, below(below(home_folder(environment, "XDG_DATA_HOME", ".local/share"), "heddle"), "models"));

  fs::path hub = folder_of(environment, "HF_HUB_CACHE");
  if (hub.empty()) hub = folder_of(environment, "HUGGINGFACE_HUB_CACHE");
  add(StoreKind::hugging_face, hub.empty() ? below(hugging_face_home(environment), "hub") : hub);

  if (const fs::path set = folder_of(environment, "OLLAMA_MODELS"); !set.empty()) {
    add(StoreKind::ollama, set);
  } else {
    add(StoreKind::ollama, below(home, ".ollama/models"));
    add(StoreKind::ollama, "/usr/share/ollama/.ollama/models");  // of the service
  }

  // the last is that of older versions
  for (const fs::path& studio : {lm_studio_home(home), below(home, ".lmstudio"), below(home, ".cache/lm-studio")}) {
    add(StoreKind::lm_studio, lm_studio_downloads(studio));
    add(StoreKind::lm_studio, below(studio, "models"));
  }

  const fs::path llama = folder_of(environment, "LLAMA_CACHE");
  add(StoreKind::llama_cpp, llama.empty() ? below(caches(environment), "llama.cpp") : llama);
  return places;
}
std::vector<Place> model_places() { return model_places(from_process); }

}  // namespace heddle::store
