// A GGUF model in one file or several: NAME-00001-of-00003.gguf and so on, each with its own table of tensors. The
// first part has the metadata of the model.
#include <algorithm>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_part.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;

std::string part_ending(uint64_t number, uint64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", number, count); }

// The name of another part, made from the name of one: the numbers count from 1.
fs::path other_part(const fs::path& path, uint64_t own_number, uint64_t number, uint64_t count) {
  const std::string name = path.filename().string(), ending = part_ending(own_number, count);
  if (!name.ends_with(ending))
    throw Error("{}: name: expected one that ends in {}, as split.no and split.count say", path.string(), ending);
  return path.parent_path() / (name.substr(0, name.size() - ending.size()) + part_ending(number, count));
}

GgufPart open_part(const fs::path& path, Checkpoint& checkpoint) {
  const auto file = std::make_shared<const MappedFile>(path);
  GgufPart part = read_gguf_part(file->bytes(), path.string(), file);
  checkpoint.files.push_back(file);
  return part;
}

void expect(const fs::path& path, std::string_view key, uint64_t expected, uint64_t found) {
  if (expected != found) throw Error("{}: {}: expected {}, found {}", path.string(), key, expected, found);
}

// What is whole says no longer that it is a part.
Metadata without_split_keys(const Metadata& metadata) {
  Metadata rest(metadata.source());
  for (const auto& [key, value] : metadata.all())
    if (!key.starts_with("split.")) rest.set(key, value);
  return rest;
}

}  // namespace

std::string_view gguf_model_name(std::string_view file_name) {
  static const std::string pattern = part_ending(0, 0);
  if (file_name.size() < pattern.size()) return file_name;
  const size_t begin = file_name.size() - pattern.size();
  const auto same = [](char letter, char expected) {
    return expected == '0' ? letter >= '0' && letter <= '9' : letter == expected;
  };
  return std::ranges::equal(file_name.substr(begin), pattern, same) ? file_name.substr(0, begin) : file_name;
}

Checkpoint read_gguf(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  GgufPart opened = open_part(path, checkpoint);
  const uint64_t count = opened.metadata.find_integer("split.count").value_or(1);
  if (count <= 1) {
    checkpoint.metadata =
        opened.metadata.find("split.count") ? without_split_keys(opened.metadata) : std::move(opened.metadata);
    checkpoint.tensors = std::move(opened.tensors);
    checkpoint.index();
    return checkpoint;
  }

  const uint64_t own = opened.metadata.integer("split.no");
  if (own >= count) throw Error("{}: split.no: expected a number below {}, found {}", path.string(), count, own);
  const uint64_t tensors = opened.metadata.integer("split.tensors.count");
  checkpoint.files.clear();
  for (uint64_t number = 0; number < count; ++number) {
    const fs::path other = other_part(path, own + 1, number + 1, count);
    GgufPart part = open_part(other, checkpoint);
    expect(other, "split.no", number, part.metadata.integer("split.no"));
    expect(other, "split.count", count, part.metadata.integer("split.count"));
    expect(other, "split.tensors.count", tensors, part.metadata.integer("split.tensors.count"));
    if (number == 0) checkpoint.metadata = without_split_keys(part.metadata);
    std::ranges::move(part.tensors, std::back_inserter(checkpoint.tensors));
  }
  if (checkpoint.tensors.size() != tensors)
    throw Error("{}: split.tensors.count: expected {} tensors in {} parts, found {}", path.string(), tensors, count,
                checkpoint.tensors.size());
  checkpoint.index();
  return checkpoint;
}

}  // namespace heddle::formats
