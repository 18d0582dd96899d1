// The models that are on this machine already, and which of them a name means.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/places.h"

namespace heddle::store {

struct FoundModel {
  std::string name;  // "unsloth/Qwen3-8B-GGUF:Q4_K_M", "qwen3:0.6b"
  StoreKind store = StoreKind::own;
  std::filesystem::path path;                // for formats::open_checkpoint(): a file or a folder
  std::vector<std::filesystem::path> files;  // all of it
  uint64_t bytes = 0;                        // of the files
  std::string problem = {};                  // why it cannot be opened; empty: it can
};

// By store, then by name. Models that are not complete are left out. `notes` gets a line for each thing that could not
// be read.
std::vector<FoundModel> find_models(const std::vector<Place>& places, std::vector<std::string>* notes = nullptr);

// The models that `name` means, best understood first: only those whose whole name it is; else, those that it is the
// name of without the tag; else, those that it is the last part of, or the file name. More than one: it is ambiguous.
// Letter case does not matter. Of equal names only the first is returned.
std::vector<FoundModel> models_named(std::string_view name, const std::vector<FoundModel>& models);

// The names that mean a model, unless they mean others as well: its own, that without the tag, and its last part.
std::vector<std::string> names_of(const FoundModel& model);

// In heddle's own store: where models from the hub and from registries lie. All else there is the user's own.
inline constexpr const char *hub_folder = "hub", *registry_folder = "registry";

}  // namespace heddle::store
