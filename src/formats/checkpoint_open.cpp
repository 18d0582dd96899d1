// Which format lies at a path. The first bytes decide, not the name.
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/gguf_part.h"
#include "formats/hf.h"
#include "formats/safetensors.h"

namespace heddle::formats {
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

// What people take for a model, and what to do about it.
std::string_view advice(std::string_view beginning) {
  if (beginning.starts_with("PK\x03\x04")) return " (a zip archive, as PyTorch saves: convert it to safetensors)";
  if (beginning.starts_with("\x80\x02")) return " (a pickle, as PyTorch once saved: convert it to safetensors)";
  if (beginning.starts_with("tjgg") || beginning.starts_with("lmgg") || beginning.starts_with("fmgg"))
    return " (a format before GGUF: convert it to GGUF)";
  if (beginning.starts_with("version https://git-lfs")) return " (a Git LFS pointer: the file itself was not fetched)";
  return "";
}

Checkpoint open_safetensors(const fs::path& path, const fs::path& folder) {
  Checkpoint checkpoint = read_safetensors_folder(path);
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) return checkpoint;
  const Json json = parse_json(MappedFile(config).text(), config.string());
  const std::string not_read = checkpoint.not_read();
  try {
    apply_hf_config(checkpoint, json);
    std::string pooled = "1_Pooling";
    if (const fs::path modules = folder / "modules.json"; fs::exists(modules))
      pooled = hf_pooling_folder(parse_json(MappedFile(modules).text(), modules.string()), modules.string());
    if (const fs::path pooling = folder / pooled / "config.json"; !pooled.empty() && fs::exists(pooling))
      apply_hf_pooling(checkpoint, parse_json(MappedFile(pooling).text(), pooling.string()), pooling.string());
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

// The GGUF models in a folder by name, each with one of its files; the parts of a split one count once.
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
