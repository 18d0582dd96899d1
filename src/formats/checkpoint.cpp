// Opens a path: the first bytes of the file decide what it is, not its name. Then what every checkpoint can be asked.
#include "formats/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/hf.h"
#include "formats/hf/config.h"
#include "formats/safetensors.h"
#include "formats/unsupported.h"

namespace heddle::formats {

uint64_t Tensor::values() const {
  uint64_t product = 1;
  for (const uint64_t n : shape) product *= n;
  return product;
}
uint64_t Tensor::rows() const { return values() / shape.at(0); }
uint64_t Tensor::bytes() const { return rows() * quant::row_bytes(format, shape.at(0)); }

std::span<const uint8_t> Tensor::data(std::vector<uint8_t>& scratch) const {
  if (!produce) {
    check(view.size() == bytes(), "a tensor has a view of its data, or produces them");
    return view;
  }
  scratch.resize(bytes());
  produce(scratch);
  return scratch;
}

std::string Checkpoint::name() const {
  if (!known_as.empty()) return known_as;
  std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  const std::string file = whole.filename().string();
  // every safetensors file is called model.safetensors, or model-00001-of-00002.safetensors: the folder has the name
  if (kind == Kind::safetensors) return file.ends_with(".safetensors") ? whole.parent_path().filename().string() : file;
  std::string_view name = gguf_model_name(file);
  if (name.ends_with(".gguf")) name.remove_suffix(5);
  return std::string(name);
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files) sum += file->bytes().size();
  return sum;
}

void Checkpoint::expect_known_class() const {
  if (unknown_class.empty()) return;
  const std::string_view missing = missing_for(unknown_class);
  throw Error("{}: config.json: heddle does not know the model class {}{}{}; it knows {}", path.string(),
              in_quotes(unknown_class), missing.empty() ? "" : ", which needs ", missing, hf_known_classes());
}

std::string_view Checkpoint::architecture() const {
  if (const auto name = metadata.find_string("general.architecture")) return *name;
  if (kind == Kind::gguf) throw Error("{}: expected the key general.architecture, found none", path.string());
  expect_known_class();
  throw Error("{}: expected a config.json beside the weights, found none", path.string());
}

void Checkpoint::index() {
  places_.clear();
  unreadable_places_.clear();
  const auto twice = [this](const std::string& name) {
    throw Error("{}: tensor {}: expected every name once, found it twice", path.string(), in_quotes(name));
  };
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!places_.emplace(tensors[i].name, i).second) twice(tensors[i].name);
  for (size_t i = 0; i < unreadable.size(); ++i)
    if (places_.contains(unreadable[i].name) || !unreadable_places_.emplace(unreadable[i].name, i).second)
      twice(unreadable[i].name);
}

const Tensor* Checkpoint::find(std::string_view name) const {
  if (const auto place = places_.find(name); place != places_.end()) return &tensors[place->second];
  if (const auto place = unreadable_places_.find(name); place != unreadable_places_.end())
    throw Error("{}: tensor {} {}, which heddle does not read", path.string(), name, unreadable[place->second].reason);
  return nullptr;
}

std::string Checkpoint::not_read() const {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(3, unreadable.size()); ++i)
    names += fmt::format("{} {} {}", i ? "," : "; not read:", unreadable[i].name, unreadable[i].reason);
  if (unreadable.size() > 3) names += fmt::format(" and {} more", unreadable.size() - 3);
  return names;
}

std::string Checkpoint::quantization_note() const {
  if (quantization.empty()) return {};
  std::vector<std::string_view> names;  // the format of the most values first
  std::map<quant::Format, uint64_t> sums;
  for (const Tensor& tensor : tensors)
    if (tensor.exact) sums[tensor.format] += tensor.values();
  std::vector<std::pair<uint64_t, quant::Format>> sorted;
  for (const auto& [format, values] : sums) sorted.emplace_back(values, format);
  std::ranges::sort(sorted, std::greater());
  for (const auto& [values, format] : sorted) names.push_back(quant::name(format));
  return fmt::format("weights: {}, converted to {}", quantization, fmt::join(names, " and "));
}

const Tensor& Checkpoint::tensor(std::string_view name) const {
  if (const Tensor* found = find(name)) return *found;
  throw Error("{}: tensor {}: expected, but not among the {} tensors of the file{}", path.string(), name,
              tensors.size(), not_read());
}

namespace {

// tokenizer_config.json's chat_template: a text, or a list of {"name": ..., "template": ...}.
std::string template_of_config(const Json& config, std::string_view name, std::string_view where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return name.empty() ? found->get<std::string>() : std::string();
  const auto text = [&](const Json& entry, const char* key) -> const std::string& {
    const auto value = entry.is_object() ? entry.find(key) : entry.end();
    if (value == entry.end() || !value->is_string())
      throw Error("{}: chat_template: expected a string, or a list of objects with a name and a template, found {}",
                  where, in_quotes(entry.dump()));
    return value->get_ref<const std::string&>();
  };
  if (!found->is_array()) text(*found, "name");
  for (const Json& entry : *found)
    if (text(entry, "name") == (name.empty() ? "default" : name)) return text(entry, "template");
  return {};
}

}  // namespace

std::string Checkpoint::chat_template(std::string_view name) const {
  if (name == "default") name = {};
  if (kind == Kind::gguf) {
    const std::string key = name.empty() ? "tokenizer.chat_template" : fmt::format("tokenizer.chat_template.{}", name);
    return std::string(metadata.find_string(key).value_or(""));
  }
  if (name.empty() && !text.chat_template.empty()) return text.chat_template;
  if (const auto given = metadata.find_string(fmt::format("tokenizer.chat_template.{}", name)))
    return std::string(*given);  // which the class of the model brings along
  if (text.tokenizer_config.empty()) return {};
  const std::string where = fmt::format("{}: tokenizer_config.json", path.string());
  const Json config = parse_json(text.tokenizer_config, where);
  if (!config.is_object()) throw Error("{}: expected an object, found {}", where, config.type_name());
  return template_of_config(config, name, where);
}

namespace {

namespace fs = std::filesystem;

bool is_gguf(std::string_view beginning) { return beginning.starts_with("GGUF"); }

// Nothing marks a safetensors file but the length of its header and the object that begins there.
bool is_safetensors(std::string_view beginning, uint64_t file_bytes) {
  uint64_t header;
  if (beginning.size() < sizeof header + 1) return false;
  std::memcpy(&header, beginning.data(), sizeof header);
  return header <= file_bytes - sizeof header && beginning[sizeof header] == '{';
}

// Files that are often taken for a model, and what to do about them.
std::string_view advice(std::string_view beginning) {
  if (beginning.starts_with("PK\x03\x04")) return " (a zip archive, as PyTorch saves: convert it to safetensors)";
  if (beginning.starts_with("\x80\x02")) return " (a pickle, as PyTorch once saved: convert it to safetensors)";
  if (beginning.starts_with("tjgg") || beginning.starts_with("lmgg") || beginning.starts_with("fmgg"))
    return " (a format before GGUF: convert it to GGUF)";
  if (beginning.starts_with("version https://git-lfs")) return " (a Git LFS pointer: the file itself was not fetched)";
  return "";
}

// The folder of a module: in the folder of the model, so that a list of modules cannot reach for other files.
fs::path module_folder(const fs::path& folder, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\\\0", 3)) != name.npos)
    throw Error("{}: path: expected the name of a folder beside it, found {}", (folder / "modules.json").string(),
                in_quotes(name));
  return folder / name;
}

// What sentence-transformers does with the states of the model.
void open_modules(Checkpoint& checkpoint, const fs::path& folder) {
  const auto json_of = [](const fs::path& path) { return parse_json(MappedFile(path).text(), path.string()); };
  HfModules modules;
  if (const fs::path path = folder / "modules.json"; fs::exists(path))
    modules = read_hf_modules(json_of(path), path.string());
  if (!modules.pooling.empty())
    if (const fs::path path = module_folder(folder, modules.pooling) / "config.json"; fs::exists(path))
      apply_hf_pooling(checkpoint, json_of(path), path.string());
  for (const std::string& name : modules.dense) {
    const fs::path dense = module_folder(folder, name), config = dense / "config.json";
    if (!has_safetensors(dense))
      throw Error("{}: expected model.safetensors in the folder of the Dense module, found none", dense.string());
    Checkpoint weights = read_safetensors_folder(dense);
    apply_hf_dense(checkpoint, json_of(config), std::move(weights.tensors), config.string());
    std::ranges::move(weights.files, std::back_inserter(checkpoint.files));
  }
}

Checkpoint open_safetensors(const fs::path& path, const fs::path& folder) {
  Checkpoint checkpoint = read_safetensors_folder(path);
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) return checkpoint;
  const Json json = hf::parse_config(MappedFile(config).text(), config.string());
  const std::string not_read = checkpoint.not_read();
  try {
    apply_hf_config(checkpoint, json);
    apply_hf_reranker(checkpoint, json);
    open_modules(checkpoint, folder);
  } catch (const Error& error) {
    throw Error("{}{}", error.what(), not_read);
  }
  return checkpoint;
}

Checkpoint open_file(const fs::path& path) {
  std::string beginning;
  uint64_t size;
  {
    const MappedFile file(path);
    size = file.bytes().size();
    beginning = file.text().substr(0, 200);
  }
  if (is_gguf(beginning)) return read_gguf(path);
  if (is_safetensors(beginning, size)) return open_safetensors(path, path.parent_path());
  if (beginning.empty()) throw Error("{}: expected a GGUF or safetensors file, found an empty one", path.string());
  throw Error("{}: expected a GGUF or safetensors file, found one that begins with {}{}", path.string(),
              in_quotes(beginning, 20), advice(beginning));
}

// The GGUF models in a folder by name, each with one of its files: a split model counts once.
std::map<std::string, fs::path> gguf_models(const fs::path& folder) {
  std::map<std::string, fs::path> models;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code ignored;  // a link that leads nowhere is no model
    if (!entry.is_regular_file(ignored)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string magic(4, ' ');
    if (!file.read(magic.data(), 4) || !is_gguf(magic)) continue;
    const std::string name = entry.path().filename().string();
    models.emplace(gguf_model_name(name), entry.path());
  }
  return models;
}

Checkpoint open_folder(const fs::path& folder) {
  const auto ggufs = gguf_models(folder);
  const bool safetensors = has_safetensors(folder);
  if (ggufs.size() + safetensors == 0)
    throw Error("{}: expected a GGUF file or model.safetensors (or its index) in the folder, found neither",
                folder.string());
  if (ggufs.size() + safetensors > 1) {
    std::vector<std::string> names;
    if (safetensors) names.push_back("safetensors");
    for (const auto& [name, path] : ggufs) names.push_back(name);
    throw Error("{}: expected one model in the folder, found {}: {}", folder.string(), names.size(),
                fmt::join(names, ", "));
  }
  return safetensors ? open_safetensors(folder, folder) : read_gguf(ggufs.begin()->second);
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& path) try {
  const fs::file_status status = fs::status(path);
  if (!fs::exists(status)) throw Error("{}: there is no such file or folder", path.string());
  return fs::is_directory(status) ? open_folder(path) : open_file(path);
} catch (const fs::filesystem_error& error) {
  throw Error("{}: cannot be read: {}", path.string(), error.code().message());
}

}  // namespace heddle::formats
