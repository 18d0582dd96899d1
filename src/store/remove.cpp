#include "store/remove.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"
#include "store/lock.h"
#include "store/part_file.h"
#include "store/pull.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;

std::string how_to_remove(const FoundModel& model) {
  switch (model.store) {
    case StoreKind::ollama:
      return fmt::format("ollama rm {} removes it", model.name);
    case StoreKind::hugging_face: {
      const std::string repository = model.name.substr(0, model.name.find(':'));
      return fmt::format("hf cache rm model/{} removes it", repository);
    }
    case StoreKind::lm_studio:
      return fmt::format("remove it in LM Studio, or delete {}", model.path.string());
    case StoreKind::llama_cpp:
      return fmt::format("delete {}", model.path.string());
    case StoreKind::own:
      break;
  }
  return {};
}

// On the disk: a sparse file takes less than its size.
uint64_t taken_by(const fs::path& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? uint64_t(about.st_blocks) * 512 : 0;
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error("{}: cannot be removed: {}", path.string(), error.message());
}

// The folder that is locked while it changes: of a repository, or of a tag.
fs::path folder_to_lock(const fs::path& file, const fs::path& store) {
  const fs::path below = file.lexically_relative(store);
  const size_t depth = *below.begin() == hub_folder ? 3 : *below.begin() == registry_folder ? 5 : 0;
  fs::path folder = store;
  size_t parts = 0;
  for (const fs::path& part : below)
    if (parts++ < depth) folder /= part;
  return folder;
}

// Empty folders from `folder` up to the store, which stays.
void remove_empty(fs::path folder, const fs::path& store) {
  while (folder != store && folder.string().starts_with(store.string() + "/") && ::rmdir(folder.c_str()) == 0)
    folder = folder.parent_path();
}

}  // namespace

uint64_t remove_model(const FoundModel& model, const fs::path& store) {
  if (model.store != StoreKind::own)
    throw Error("{}: is in the store of {}, which heddle does not change; {}", model.name, name(model.store),
                how_to_remove(model));
  check(!model.files.empty(), "a model has files");
  const fs::path folder = folder_to_lock(model.files[0], store);
  uint64_t bytes = 0;
  {
    FolderLock lock(folder, {}, nullptr);
    std::map<std::string, std::string> pulled = read_pulled(folder);
    for (const fs::path& file : model.files) {
      bytes += taken_by(file) + taken_by(PartFile::path_of(file));
      remove_file(file);
      PartFile::remove(file);
      pulled.erase(file.lexically_relative(folder).string());
      remove_empty(file.parent_path(), folder);
    }
    write_pulled(folder, pulled);
    if (folder != store) lock.remove_empty_folder();
  }
  remove_empty(folder.parent_path(), store);
  return bytes;
}

uint64_t remove_unfinished(const RemoteName& name, const fs::path& store) {
  const fs::path folder = name.source == RemoteName::Source::hub
                              ? store / hub_folder / name.owner / name.name
                              : store / registry_folder / name.host / name.owner / name.name / name.tag;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return 0;
  uint64_t bytes = 0;
  {
    FolderLock lock(folder, {}, nullptr);
    std::vector<fs::path> parts;
    for (fs::recursive_directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
      const std::string path = at->path().lexically_relative(folder).string();
      if (path.ends_with(".part")) parts.push_back(folder / path.substr(0, path.size() - 5));
    }
    for (const fs::path& file : parts) {
      const auto models = gguf_models_among({file.lexically_relative(folder).string()});
      const bool meant = name.tag.empty() || name.source == RemoteName::Source::registry ||
                         (!models.empty() && is_asked_for(models[0], name.tag));
      if (!meant) continue;
      bytes += taken_by(PartFile::path_of(file));
      PartFile::remove(file);
      remove_empty(file.parent_path(), folder);
    }
    lock.remove_empty_folder();
  }
  remove_empty(folder.parent_path(), store);
  return bytes;
}

}  // namespace heddle::store
