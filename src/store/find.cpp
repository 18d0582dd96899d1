// Each store has its own layout, described where it is read.
#include "store/find.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "store/limits.h"
#include "store/manifest.h"
#include "store/names.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_depth = 4;  // folders below a repository

class Finder {
 public:
  explicit Finder(std::vector<std::string>* notes) : notes_(notes) {}

  void find(const Place& place) {
    store_ = place.store;
    switch (place.store) {
      case StoreKind::own:
        find_own(place.folder);
        break;
      case StoreKind::hugging_face:
        find_snapshots(place.folder);
        break;
      case StoreKind::ollama:
        find_ollama(place.folder);
        break;
      case StoreKind::lm_studio:
        find_repositories(place.folder);
        break;
      case StoreKind::llama_cpp:
        find_snapshots(place.folder);
        find_flat(place.folder);
        break;
    }
  }
  std::vector<FoundModel> take() { return std::move(models_); }

 private:
  void note(const fs::path& path, const std::string& why) {
    if (notes_) notes_->push_back(fmt::format("{}: {}", path.string(), why));
  }

  // The names in a folder, sorted; none if there is no such folder.
  std::vector<fs::path> list(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      entries.push_back(at->path());
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
      note(folder, "cannot be read: " + error.message());
    std::ranges::sort(entries);
    return entries;
  }
  std::vector<fs::path> folders(const fs::path& folder) {
    std::vector<fs::path> all = list(folder);
    std::erase_if(all, [](const fs::path& path) {
      std::error_code ignored;
      return path.filename().string().starts_with('.') || !fs::is_directory(path, ignored);
    });
    return all;
  }

  // Files below a folder, as paths from there. A link that leads nowhere is none.
  std::vector<std::string> files_below(const fs::path& folder) {
    std::vector<std::string> files;
    collect(folder, "", 0, files);
    return files;
  }
  void collect(const fs::path& folder, const std::string& prefix, size_t depth, std::vector<std::string>& files) {
    for (const fs::path& entry : list(folder)) {
      const std::string file = entry.filename().string();
      std::error_code ignored;
      if (file.starts_with('.') || files.size() >= max_files) continue;
      if (fs::is_regular_file(entry, ignored))
        files.push_back(prefix + file);
      else if (depth < max_depth && fs::is_directory(entry, ignored) && !fs::is_symlink(entry, ignored))
        collect(entry, prefix + file + "/", depth + 1, files);
    }
  }

  void add(std::string name, fs::path path, std::vector<fs::path> files, std::string problem = {}) {
    FoundModel model{std::move(name), store_, std::move(path), std::move(files), 0, std::move(problem)};
    for (const fs::path& file : model.files) {
      std::error_code error;
      const uint64_t size = fs::file_size(file, error);
      if (!error) model.bytes += size;
    }
    models_.push_back(std::move(model));
  }
  void add_gguf(const std::string& name, const fs::path& folder, const GgufModel& model,
                const std::vector<std::string>& files) {
    if (!model.complete) return;
    std::vector<fs::path> paths;
    for (const size_t file : model.files) paths.push_back(folder / files[file]);
    const fs::path first = paths.front();
    add(name, first, std::move(paths));
  }

  // A folder of GGUF files, of which each is a model, or of safetensors with their config.json.
  void add_repository(const std::string& name, const fs::path& folder) {
    const std::vector<std::string> files = files_below(folder);
    for (const GgufModel& model : gguf_models_among(files))
      add_gguf(fmt::format("{}:{}", name, model.label), folder, model, files);
    if (!std::ranges::count(files, "config.json") || !formats::has_safetensors(folder) || !is_whole(folder)) return;
    std::vector<fs::path> paths;
    for (const std::string& file : files)
      if (!lower_case(file).ends_with(".gguf")) paths.push_back(folder / file);  // those are models of their own
    add(name, folder, std::move(paths));
  }
  // Whether each file is there that the index names.
  bool is_whole(const fs::path& folder) {
    const fs::path path = folder / "model.safetensors.index.json";
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return true;
    try {
      const Json index = parse_json(MappedFile(path).text(), path.string());
      const auto map = index.is_object() ? index.find("weight_map") : index.end();
      if (!index.is_object() || map == index.end() || !map->is_object()) return true;  // opening it says what is wrong
      std::set<std::string> names;
      for (const Json& file : *map)
        if (file.is_string()) names.insert(file.get<std::string>());
      return std::ranges::all_of(
          names, [&](const std::string& file) { return !is_safe_path(file) || fs::exists(folder / file, ignored); });
    } catch (const Error& error) {
      note(path, error.what());
      return false;
    }
  }

  // hub/ORG/REPO/..., registry/HOST/NAMESPACE/NAME/TAG/model.gguf, and what users put there: FILE.gguf, FOLDER/...,
  // OWNER/FOLDER/... where the owner's folder has no files of its own.
  void find_own(const fs::path& store) {
    find_repositories(store / hub_folder);
    for (const fs::path& host : folders(store / registry_folder))
      for (const fs::path& owner : folders(host))
        for (const fs::path& model : folders(owner))
          for (const fs::path& tag : folders(model)) {
            const RemoteName name{RemoteName::Source::registry, host.filename(), owner.filename(), model.filename(),
                                  tag.filename()};
            const fs::path file = tag / "model.gguf";
            std::error_code ignored;
            if (fs::is_regular_file(file, ignored)) add(name.text(), file, {file});
          }
    for (const fs::path& folder : folders(store))
      if (folder.filename() != hub_folder && folder.filename() != registry_folder)
        has_files(folder) ? add_repository(folder.filename(), folder) : find_repositories_of(folder);
    find_flat(store);
  }

  bool has_files(const fs::path& folder) {
    return std::ranges::any_of(list(folder), [](const fs::path& path) {
      std::error_code ignored;
      return !path.filename().string().starts_with('.') && fs::is_regular_file(path, ignored);
    });
  }

  // ORG/REPO/...
  void find_repositories(const fs::path& store) {
    for (const fs::path& owner : folders(store)) find_repositories_of(owner);
  }
  void find_repositories_of(const fs::path& owner) {
    for (const fs::path& folder : folders(owner))
      add_repository(fmt::format("{}/{}", owner.filename().string(), folder.filename().string()), folder);
  }

  // models--ORG--REPO/snapshots/COMMIT/..., where refs/main names the commit. Files are links to ../../blobs.
  void find_snapshots(const fs::path& store) {
    constexpr std::string_view prefix = "models--";
    for (const fs::path& folder : folders(store)) {
      std::string repository = folder.filename().string();
      if (!repository.starts_with(prefix)) continue;
      repository.erase(0, prefix.size());
      if (const size_t at = repository.find("--"); at != repository.npos) repository.replace(at, 2, "/");
      if (const fs::path snapshot = snapshot_of(folder); !snapshot.empty()) add_repository(repository, snapshot);
    }
  }
  fs::path snapshot_of(const fs::path& folder) {
    std::ifstream file(folder / "refs" / "main");
    std::string commit;
    std::error_code ignored;
    if (file >> commit && is_plain_name(commit) && fs::is_directory(folder / "snapshots" / commit, ignored))
      return folder / "snapshots" / commit;
    // of another branch only: the newest
    fs::path newest;
    fs::file_time_type newest_time{};
    for (const fs::path& snapshot : folders(folder / "snapshots"))
      if (const auto time = fs::last_write_time(snapshot, ignored); newest.empty() || time > newest_time) {
        newest = snapshot;
        newest_time = time;
      }
    return newest;
  }

  // manifests/HOST/NAMESPACE/NAME/TAG, a JSON file that names blobs/sha256-DIGEST.
  void find_ollama(const fs::path& store) {
    for (const fs::path& host : folders(store / "manifests"))
      for (const fs::path& owner : folders(host))
        for (const fs::path& model : folders(owner))
          for (const fs::path& tag : list(model)) add_manifest(store, host, owner, model, tag);
  }
  void add_manifest(const fs::path& store, const fs::path& host, const fs::path& owner, const fs::path& model,
                    const fs::path& tag) {
    std::error_code ignored;
    if (tag.filename().string().starts_with('.') || !fs::is_regular_file(tag, ignored)) return;
    try {
      const MappedFile file(tag);
      if (file.bytes().size() > max_manifest_bytes)
        throw Error("expected a manifest, found {} bytes", file.bytes().size());
      const Manifest manifest = read_manifest(file.text(), "manifest");
      // as `ollama list` shows it
      std::string name;
      if (host.filename() != ollama_host) name += host.filename().string() + "/";
      if (!name.empty() || owner.filename() != ollama_library) name += owner.filename().string() + "/";
      name += model.filename().string() + ":" + tag.filename().string();
      const fs::path blob = store / "blobs" / ("sha256-" + manifest.sha256);
      if (!manifest.problem.empty()) return add(name, tag, {}, manifest.problem);
      const uint64_t size = fs::file_size(blob, ignored);
      if (!ignored && size == manifest.bytes) add(name, blob, {blob});  // otherwise it is still being pulled
    } catch (const Error& error) {
      note(tag, error.what());
    }
  }

  // FILE.gguf. llama.cpp once called them ORG_REPO_FILE.gguf; manifest=ORG=REPO=TAG.json beside it tells these apart.
  void find_flat(const fs::path& store) {
    std::vector<std::string> files;
    std::map<std::string, std::string> repositories;  // "ORG_REPO_" -> "ORG/REPO"
    for (const fs::path& entry : list(store)) {
      const std::string file = entry.filename().string();
      std::error_code ignored;
      if (file.starts_with('.') || !fs::is_regular_file(entry, ignored)) continue;
      files.push_back(file);
      const std::string_view manifest = "manifest=";
      const size_t owner_end = file.find('=', manifest.size()), end = file.rfind('=');
      if (!file.starts_with(manifest) || owner_end == file.npos || end <= owner_end) continue;
      const std::string owner = file.substr(manifest.size(), owner_end - manifest.size()),
                        repository = file.substr(owner_end + 1, end - owner_end - 1);
      repositories[fmt::format("{}_{}_", owner, repository)] = fmt::format("{}/{}", owner, repository);
    }
    for (const GgufModel& model : gguf_models_among(files)) {
      std::string name = model.stem;
      for (const auto& [prefix, repository] : repositories)
        if (model.stem.starts_with(prefix))
          name = fmt::format("{}:{}", repository, model.tag.empty() ? model.stem.substr(prefix.size()) : model.tag);
      add_gguf(name, store, model, files);
    }
  }

  std::vector<std::string>* notes_;
  StoreKind store_ = StoreKind::own;
  std::vector<FoundModel> models_;
};

// "hf.co/Org/Repo:TAG" and "Org/Repo:TAG" are one name.
std::string normal_name(std::string_view text) {
  std::string name = lower_case(text);
  for (const std::string_view prefix :
       {"https://", "huggingface.co/", "hf.co/", "ollama.com/", "registry.ollama.ai/", "library/"})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

// What stands before the tag: "org/repo".
std::string without_tag(const std::string& name) {
  const size_t slash = name.find('/'), colon = name.find(':', slash == name.npos ? 0 : slash);
  return name.substr(0, colon);
}

std::string last_part(const std::string& name) {
  const size_t slash = name.rfind('/', without_tag(name).size());
  return slash == name.npos ? name : name.substr(slash + 1);
}

// The file without ".gguf" and the number of a part, in lower case.
std::string file_stem(const FoundModel& model) {
  const std::vector<GgufModel> found = gguf_models_among({model.path.filename().string()});
  return found.empty() ? "" : lower_case(found[0].stem);
}

}  // namespace

std::vector<FoundModel> find_models(const std::vector<Place>& places, std::vector<std::string>* notes) {
  Finder finder(notes);
  for (const Place& place : places) finder.find(place);
  std::vector<FoundModel> models = finder.take();
  std::ranges::stable_sort(models, [](const FoundModel& a, const FoundModel& b) {
    return a.store != b.store ? a.store < b.store : lower_case(a.name) < lower_case(b.name);
  });
  return models;
}

std::vector<std::string> names_of(const FoundModel& model) {
  const std::string repository = without_tag(model.name);
  return {model.name, repository, last_part(model.name), last_part(repository)};
}

std::vector<FoundModel> models_named(std::string_view text, const std::vector<FoundModel>& models) {
  if (text.empty()) return {};
  const std::string wanted = normal_name(text);
  std::string file = wanted;
  if (file.ends_with(".gguf")) file.resize(file.size() - 5);
  const std::vector<std::function<bool(const FoundModel&, const std::string&)>> tiers{
      [&](const FoundModel&, const std::string& name) { return name == wanted; },
      [&](const FoundModel&, const std::string& name) { return name == wanted + ":latest"; },
      [&](const FoundModel&, const std::string& name) { return without_tag(name) == wanted; },
      [&](const FoundModel& model, const std::string& name) {
        const std::string last = last_part(name);
        return last == wanted || without_tag(last) == wanted || file_stem(model) == file;
      }};
  std::vector<FoundModel> found;
  for (const auto& means : tiers) {
    std::set<std::string> seen;
    for (const FoundModel& model : models)
      if (const std::string name = normal_name(model.name); means(model, name) && seen.insert(name).second)
        found.push_back(model);
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace heddle::store
