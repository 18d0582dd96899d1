#include "store/hub_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "store/limits.h"
#include "store/names.h"

namespace heddle::store {
namespace {

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

const Json* entry(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string hex_at(const Json& object, const char* key, size_t digits, std::string_view where) {
  const Json* value = entry(object, key);
  if (!value) return {};
  if (!value->is_string() || !is_hex(value->get_ref<const std::string&>(), digits))
    throw Error("{}: {}: expected {} hexadecimal digits, found {}", where, key, digits, shortened(*value));
  return value->get<std::string>();
}

HubFile read_hub_file(const Json& json, std::string_view where) {
  const Json* path = entry(json, "rfilename");
  if (!path || !path->is_string())
    throw Error("{}: siblings: expected objects with a string rfilename, found {}", where, shortened(json));
  HubFile file{.path = path->get<std::string>(), .digest = {}};
  if (!is_safe_path(file.path))
    throw Error("{}: rfilename: expected a path below the repository, found {}", where, in_quotes(file.path));
  if (const Json* size = entry(json, "size")) {
    if (!size->is_number_unsigned() || size->get<uint64_t>() > max_file_bytes)
      throw Error("{}: {}: size: expected a number of bytes up to {}, found {}", where, in_quotes(file.path),
                  max_file_bytes, shortened(*size));
    file.bytes = size->get<uint64_t>();
  }
  file.digest = {Digest::Kind::git_sha1, hex_at(json, "blobId", 40, where)};
  if (const Json* large = entry(json, "lfs")) file.digest = {Digest::Kind::sha256, hex_at(*large, "sha256", 64, where)};
  return file;
}

// What a folder of safetensors is opened with, beside the weights.
bool belongs_to_folder(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == path.npos)
    return path.ends_with(".json") || path.ends_with(".jinja") ||
           (path.starts_with("model") && path.ends_with(".safetensors"));
  // modules of sentence-transformers: 1_Pooling, 2_Dense
  const std::string_view folder = path.substr(0, slash), file = path.substr(slash + 1);
  return folder[0] >= '0' && folder[0] <= '9' && folder.find('_') != folder.npos &&
         (file == "config.json" || file == "model.safetensors");
}

void expect_digests(const std::vector<HubFile>& files, std::string_view where) {
  for (const HubFile& file : files)
    if (file.digest.hex.empty())
      throw Error("{}: {}: expected a hash, found none: what comes could not be verified", where, file.path);
}

}  // namespace

HubList read_hub_list(std::string_view text, std::string_view where) {
  const Json json = parse_json(text, where);
  const Json* siblings = entry(json, "siblings");
  if (!siblings || !siblings->is_array())
    throw Error("{}: expected an object with an array of siblings, found {}", where, shortened(json));
  if (siblings->size() > max_files)
    throw Error("{}: siblings: expected up to {}, found {}", where, max_files, siblings->size());
  HubList list;
  list.commit = hex_at(json, "sha", 40, where);
  if (list.commit.empty()) throw Error("{}: expected the key sha with a commit, found none", where);
  std::set<std::string> seen;
  for (const Json& each : *siblings) {
    HubFile file = read_hub_file(each, where);
    if (!seen.insert(file.path).second)
      throw Error("{}: siblings: expected every path once, found {} twice", where, in_quotes(file.path));
    if (!file.path.starts_with('.') && file.path.find("/.") == file.path.npos) list.files.push_back(std::move(file));
  }
  return list;
}

HubChoice choose_from_hub(const HubList& list, std::string_view tag, std::string_view where) {
  std::vector<std::string> paths;
  for (const HubFile& file : list.files) paths.push_back(file.path);
  std::vector<GgufModel> models = gguf_models_among(paths);
  std::vector<std::string> labels;
  for (const GgufModel& model : models) labels.push_back(model.label);
  HubChoice choice;
  if (!models.empty()) {
    std::vector<const GgufModel*> meant;
    // without a tag, what other programs take as well
    for (const std::string_view wanted :
         tag.empty() ? std::vector<std::string_view>{"Q4_K_M", "Q8_0"} : std::vector{tag})
      for (const GgufModel& model : models)
        if ((meant.empty() || !tag.empty()) && is_asked_for(model, wanted)) meant.push_back(&model);
    if (meant.empty() && tag.empty()) meant.push_back(&models[0]);
    if (meant.size() > 1)  // the whole label before a type that several have
      std::erase_if(meant, [&](const GgufModel* model) {
        return lower_case(model->label) != lower_case(tag) && lower_case(model->tag) != lower_case(tag);
      });
    if (meant.empty()) throw Error("{}: expected the type {} in it, found {}", where, tag, fmt::join(labels, ", "));
    if (meant.size() > 1) {
      std::vector<std::string> candidates;
      for (const GgufModel* model : meant) candidates.push_back(model->label);
      throw Error("{}: expected one model of the type {}, found {}: {}", where, tag, meant.size(),
                  fmt::join(candidates, ", "));
    }
    if (!meant[0]->complete)
      throw Error("{}: {}: expected all files of a split model, found {}", where, meant[0]->label,
                  meant[0]->files.size());
    for (const size_t file : meant[0]->files) choice.files.push_back(list.files[file]);
    choice.label = meant[0]->label;
    choice.opens = choice.files[0].path;
    expect_digests(choice.files, where);
    return choice;
  }
  if (!tag.empty()) throw Error("{}: expected GGUF files of which one has the type {}, found none", where, tag);
  for (const HubFile& file : list.files)
    if (belongs_to_folder(file.path)) choice.files.push_back(file);
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(choice.files, [&](const HubFile& file) { return file.path == name; });
  };
  if (!has("config.json") || !(has("model.safetensors") || has("model.safetensors.index.json")))
    throw Error("{}: expected GGUF files, or safetensors with a config.json, found neither", where);
  // weights first: a folder is a model once it has config.json
  std::ranges::stable_sort(choice.files, {}, [](const HubFile& file) {
    return file.path == "config.json" ? 2 : file.path.ends_with(".safetensors") ? 0 : 1;
  });
  expect_digests(choice.files, where);
  return choice;
}

}  // namespace heddle::store
