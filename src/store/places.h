// Where models lie on this machine: heddle's own store and those of other programs.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::store {

// In the order in which they are searched: of models with the same name, the first is taken.
enum class StoreKind { own, hugging_face, ollama, lm_studio, llama_cpp };
std::string_view name(StoreKind store);  // "heddle", "Ollama"

struct Place {
  StoreKind store;
  std::filesystem::path folder;
};

using Environment = std::function<const char*(const char*)>;  // as getenv()

// The folders that the environment names, and the usual ones where it names none; of LM Studio also those that its own
// files name. They need not exist.
std::vector<Place> model_places(const Environment& environment);
std::vector<Place> model_places();  // of this process

// $XDG_DATA_HOME/heddle/models. An Error if neither that variable nor HOME is set.
std::filesystem::path own_store(const Environment& environment);
std::filesystem::path own_store();

// Of HF_HOME: $HF_HOME, or huggingface in the folder for caches; empty if there is no home.
std::filesystem::path hugging_face_home(const Environment& environment);

}  // namespace heddle::store
