// Stores of a test's own: while one lives, the environment of this process names them and no other.
#pragma once
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/main/heddle_command.h"
#include "tests/store/store_folder.h"

namespace heddle::test {

class OwnStores {
 public:
  OwnStores() {
    set("HOME", home.path().string());
    for (const char* name : {"XDG_DATA_HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                             "LLAMA_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT",
                             "HF_HUB_OFFLINE", "HEDDLE_OLLAMA_REGISTRY"})
      set(name, "");
    set("OLLAMA_MODELS", ollama().string());
  }
  ~OwnStores() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  OwnStores(const OwnStores&) = delete;
  OwnStores& operator=(const OwnStores&) = delete;

  void set(const std::string& name, const std::string& value) {
    const char* old = std::getenv(name.c_str());
    before_.emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::filesystem::path own() const { return home.path() / ".local/share/heddle/models"; }
  std::filesystem::path hugging_face() const { return home.path() / ".cache/huggingface/hub"; }
  std::filesystem::path ollama() const { return home.path() / ".ollama/models"; }

  Folder home;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace heddle::test
