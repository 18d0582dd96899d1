// A safetensors model: its one file, or the parts that an index names, and the texts beside them.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;
constexpr const char* one_file = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is not there; opening it says why
  return fs::exists(path, ignored);
}

std::string read_text(const fs::path& path) {
  if (!is_there(path)) return {};
  const MappedFile file(path);
  if (const size_t at = find_invalid_utf8(file.text()); at != std::string_view::npos)
    throw Error("{}: expected UTF-8, found the byte {:#04x} at byte {}", path.string(), file.bytes()[at], at);
  return std::string(file.text());
}

using Shards = std::map<std::string, std::vector<std::string>>;  // the names of the tensors by file

Shards read_index(const fs::path& path) {
  const Json index = parse_json(MappedFile(path).text(), path.string());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    throw Error("{}: weight_map: expected an object, found {}", path.string(),
                map == index.end() ? "none" : in_quotes(map->dump()));
  Shards shards;
  for (const auto& [tensor, file] : map->items()) {
    // a name in this folder, so that an index cannot reach for other files
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\\\0", 3)) != name.npos)
      throw Error("{}: weight_map: tensor {}: expected the name of a file beside it, found {}", path.string(),
                  in_quotes(tensor), in_quotes(file.is_string() ? name : file.dump()));
    shards[name].push_back(tensor);
  }
  if (shards.empty()) throw Error("{}: weight_map: expected tensors, found none", path.string());
  return shards;
}

void add_file(const fs::path& path, Checkpoint& checkpoint) {
  const auto file = std::make_shared<const MappedFile>(path);
  auto tensors = read_safetensors(file->bytes(), path.string(), &checkpoint.unreadable);
  std::ranges::move(tensors, std::back_inserter(checkpoint.tensors));
  checkpoint.files.push_back(file);
}

// Exactly the tensors that the index promises of a file are in it.
void add_shard(const fs::path& path, const std::vector<std::string>& promised, Checkpoint& checkpoint) {
  Checkpoint shard;
  shard.path = path;
  add_file(path, shard);
  shard.index();
  std::map<std::string_view, bool> wanted;
  for (const std::string& name : promised) wanted[name] = false;
  const auto met = [&](const std::string& name) {
    const auto found = wanted.find(name);
    if (found == wanted.end())
      throw Error("{}: tensor {}: expected only tensors that {} names, found one more", path.string(), name,
                  index_name);
    found->second = true;
  };
  for (const Tensor& tensor : shard.tensors) met(tensor.name);
  for (const Unreadable& tensor : shard.unreadable) met(tensor.name);
  for (const auto& [name, found] : wanted)
    if (!found)
      throw Error("{}: tensor {}: expected, as {} says, but not there", path.string(), in_quotes(name), index_name);
  std::ranges::move(shard.tensors, std::back_inserter(checkpoint.tensors));
  std::ranges::move(shard.unreadable, std::back_inserter(checkpoint.unreadable));
  std::ranges::move(shard.files, std::back_inserter(checkpoint.files));
}

void add_shards(const fs::path& folder, const Shards& shards, Checkpoint& checkpoint) {
  for (const auto& [file, promised] : shards) {
    if (!is_there(folder / file))
      throw Error("{}: expected the file {} with {} of its tensors, but it is not there",
                  (folder / index_name).string(), file, promised.size());
    add_shard(folder / file, promised, checkpoint);
  }
}

}  // namespace

bool has_safetensors(const fs::path& folder) { return is_there(folder / one_file) || is_there(folder / index_name); }

Checkpoint read_safetensors_folder(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.kind = Checkpoint::Kind::safetensors;
  checkpoint.metadata = Metadata(path.string());
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? path : path.parent_path();
  const fs::path one = is_folder ? path / one_file : path;
  const Shards shards = is_there(folder / index_name) ? read_index(folder / index_name) : Shards();
  if (is_folder && shards.empty() && !is_there(one))
    throw Error("{}: expected {} or {} in the folder, found neither", path.string(), one_file, index_name);
  if (is_folder && !shards.empty() && is_there(one) && !shards.contains(one_file))
    throw Error("{}: expected one model in the folder, found {} and {} of other files", path.string(), one_file,
                index_name);
  if (!shards.empty() && (is_folder || shards.contains(path.filename().string())))
    add_shards(folder, shards, checkpoint);
  else
    add_file(one, checkpoint);
  checkpoint.index();

  checkpoint.text.tokenizer = read_text(folder / "tokenizer.json");
  checkpoint.text.tokenizer_config = read_text(folder / "tokenizer_config.json");
  checkpoint.text.special_tokens = read_text(folder / "special_tokens_map.json");
  checkpoint.text.generation = read_text(folder / "generation_config.json");
  checkpoint.text.chat_template = read_text(folder / "chat_template.jinja");
  return checkpoint;
}

}  // namespace heddle::formats
