// The stores of other programs, written as they write them.
#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/folder.h"

namespace heddle::test {

inline std::filesystem::path put(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// In Hugging Face's cache: a blob, and a link to it in the snapshot of refs/main.
inline void put_hugging_face(const std::filesystem::path& cache, const std::string& repository, const std::string& file,
                             std::string_view bytes, const std::string& commit = "0123abcd") {
  std::string folder = "models--" + repository;
  folder.replace(folder.find('/'), 1, "--");
  const std::string blob = fmt::format("blob-{}", std::hash<std::string>{}(repository + file));
  put(cache / folder / "blobs" / blob, bytes);
  put(cache / folder / "refs" / "main", commit);
  const std::filesystem::path link = cache / folder / "snapshots" / commit / file;
  std::filesystem::create_directories(link.parent_path());
  std::filesystem::path up = "../..";
  for (const char c : file)
    if (c == '/') up /= "..";
  std::filesystem::create_symlink(up / "blobs" / blob, link);
}

// In Ollama's store: `name` such as "registry.ollama.ai/library/qwen3/0.6b". The digest is not that of the bytes: to
// find a model, none is computed.
inline void put_ollama(const std::filesystem::path& store, const std::string& name, std::string_view bytes,
                       const std::string& extra_layers = "") {
  const std::string digest = fmt::format("{:064x}", std::hash<std::string>{}(name));
  put(store / "blobs" / ("sha256-" + digest), bytes);
  put(store / "manifests" / name,
      fmt::format(R"({{"schemaVersion":2,"config":{{"digest":"sha256:{0}","size":1}},"layers":[)"
                  R"({{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{0}","size":{1}}},)"
                  R"({{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:{0}","size":12}}{2}]}})",
                  digest, bytes.size(), extra_layers));
}

}  // namespace heddle::test
