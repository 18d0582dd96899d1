// A safetensors file: 8 bytes for the length of the header, a JSON object with an entry per tensor, and the data, which
// the tensors fill without gap or overlap. A model: one such file, or several that an index names, and texts beside
// them.
#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace heddle::formats {
namespace {

constexpr uint64_t max_header = 100'000'000;  // the bound of the format's own library

struct Type {
  std::string_view name;
  uint32_t bits;
  std::optional<quant::Format> format;
};
using quant::Format;
constexpr Type file_types[] = {{"F64", 64, Format::f64},
                               {"F32", 32, Format::f32},
                               {"F16", 16, Format::f16},
                               {"BF16", 16, Format::bf16},
                               {"I64", 64, Format::i64},
                               {"I32", 32, Format::i32},
                               {"I16", 16, Format::i16},
                               {"I8", 8, Format::i8},
                               {"BOOL", 8, {}},
                               {"U8", 8, {}},
                               {"U16", 16, {}},
                               {"U32", 32, {}},
                               {"U64", 64, {}},
                               {"F8_E4M3", 8, {}},
                               {"F8_E5M2", 8, {}},
                               {"F8_E8M0", 8, {}},
                               {"F6_E2M3", 6, {}},
                               {"F6_E3M2", 6, {}},
                               {"F4", 4, {}},
                               {"C64", 64, {}}};

struct FileEntry {
  Tensor tensor;
  std::string type;
  std::string reason;           // why it is not read; empty for all others
  uint64_t begin = 0, end = 0;  // in the data
};

class Header {
 public:
  Header(std::span<const uint8_t> bytes, const std::string& file) : file_(file) {
    uint64_t length = 0;
    if (bytes.size() < sizeof length)
      refuse("header length", "expected 8 bytes, found the end of the file after {}", bytes.size());
    std::memcpy(&length, bytes.data(), sizeof length);
    const uint64_t left = bytes.size() - sizeof length;
    if (length > max_header || length > left)
      refuse("header length", "expected at most {}, found {}", std::min(left, max_header), length);
    json_ = parse_json({reinterpret_cast<const char*>(bytes.data()) + sizeof length, length}, file);
    if (!json_.is_object()) refuse("header", "expected an object, found {}", in_quotes(json_.dump()));
    data_ = bytes.subspan(sizeof length + length);
  }

  std::vector<FileEntry> entries() const {
    std::vector<FileEntry> all;
    for (const auto& [name, value] : json_.items()) {
      if (name == "__metadata__")
        check_metadata(value);
      else
        all.push_back(entry(name, value));
    }
    std::ranges::sort(all, {}, [](const FileEntry& e) { return std::pair(e.begin, e.end); });
    uint64_t next = 0;
    for (const FileEntry& e : all) {
      if (e.begin != next)
        refuse(label(e), "data_offsets: expected to begin at {}, where the data before it end, found {}", next,
               e.begin);
      next = e.end;
    }
    if (next != data_.size())
      refuse("data", "expected {} bytes, as many as the tensors have, found {}", next, data_.size());
    return all;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error("{}: {}: {}", file_, field, fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string label(const FileEntry& e) { return fmt::format("tensor {}", e.tensor.name); }

  void check_metadata(const Json& value) const {
    if (!value.is_object()) refuse("__metadata__", "expected an object, found {}", in_quotes(value.dump()));
    for (const auto& [key, text] : value.items())
      if (!text.is_string())
        refuse("__metadata__", "expected a string for {}, found {}", in_quotes(key), in_quotes(text.dump()));
  }

  FileEntry entry(const std::string& name, const Json& value) const {
    const std::string field = fmt::format("tensor {}", in_quotes(name));
    if (name.empty()) refuse(field, "expected a name, found an empty one");
    for (size_t at = 0; at < name.size();) {
      const CodePoint point = code_point_at(name, at);
      if (is_control(point.value)) refuse(field, "expected a name without control characters");
      at += point.bytes;
    }
    const Json& dtype = member(field, value, "dtype");
    const Json& shape = member(field, value, "shape");
    const Json& offsets = member(field, value, "data_offsets");
    if (value.size() != 3)
      refuse(field, "expected dtype, shape and data_offsets alone, found {}", in_quotes(value.dump(), 200));
    if (!dtype.is_string()) refuse(field, "dtype: expected a string, found {}", in_quotes(dtype.dump()));

    FileEntry e;
    e.tensor.name = name;
    e.tensor.shape = numbers(field, "shape", shape);
    const auto range = numbers(field, "data_offsets", offsets);
    if (range.size() != 2 || range[0] > range[1] || range[1] > data_.size())
      refuse(field, "data_offsets: expected a beginning and an end in {} bytes of data, found {}", data_.size(),
             in_quotes(offsets.dump()));
    e.begin = range[0];
    e.end = range[1];
    read_type(field, dtype.get_ref<const std::string&>(), e);
    finish_shape(e);
    return e;
  }

  const Json& member(const std::string& field, const Json& value, const char* key) const {
    const auto found = value.is_object() ? value.find(key) : value.end();
    if (found == value.end()) refuse(field, "expected an object with {}, found {}", key, in_quotes(value.dump(), 200));
    return *found;
  }

  std::vector<uint64_t> numbers(const std::string& field, std::string_view key, const Json& value) const {
    std::vector<uint64_t> all;
    const auto bad = [&] {
      refuse(field, "{}: expected a list of integers of at least 0, found {}", key, in_quotes(value.dump()));
    };
    if (!value.is_array()) bad();
    for (const Json& number : value) {
      if (!number.is_number_unsigned()) bad();
      all.push_back(number.get<uint64_t>());
    }
    return all;
  }

  // The format, and whether the size is what type and shape make.
  void read_type(const std::string& field, const std::string& dtype, FileEntry& e) const {
    const auto* type = std::ranges::find(file_types, dtype, &Type::name);
    const bool known = type != std::end(file_types);
    e.type = dtype;
    if (known && type->format)
      e.tensor.format = *type->format;
    else
      e.reason = fmt::format("has the type {}", known ? dtype : in_quotes(dtype));
    if (!known) return;

    uint64_t bits = type->bits;
    bool overflow = false;
    if (std::ranges::find(e.tensor.shape, 0u) != e.tensor.shape.end()) bits = 0;
    for (const uint64_t n : e.tensor.shape)
      if (bits) overflow |= __builtin_mul_overflow(bits, n, &bits);
    if (overflow || bits % 8 || bits / 8 != e.end - e.begin)
      refuse(field, "data_offsets: expected the bytes of {} values of {}, found {}",
             e.tensor.shape.empty() ? "1" : fmt::format("{}", fmt::join(e.tensor.shape, " x ")), dtype,
             e.end - e.begin);
  }

  // The length of a row first; what has no such shape is not read.
  void finish_shape(FileEntry& e) const {
    auto& shape = e.tensor.shape;
    std::ranges::reverse(shape);
    if (shape.empty()) shape = {1};
    if (std::ranges::find(shape, 0u) != shape.end())
      e.reason = "has no values";
    else if (shape.size() > 4)
      e.reason = fmt::format("has {} dimensions", shape.size());
    e.tensor.view = data_.subspan(e.begin, e.end - e.begin);
  }

  const std::string& file_;
  Json json_;
  std::span<const uint8_t> data_;
};

}  // namespace

std::vector<Tensor> read_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                                     std::vector<Unreadable>* unreadable) {
  std::vector<FileEntry> entries = Header(bytes, name).entries();
  std::vector<Tensor> tensors;
  tensors.reserve(entries.size());
  for (FileEntry& e : entries) {
    if (e.reason.empty())
      tensors.push_back(std::move(e.tensor));
    else if (unreadable)
      unreadable->push_back(
          {std::move(e.tensor.name), std::move(e.reason), std::move(e.type), std::move(e.tensor.shape), e.tensor.view});
    else
      throw Error("{}: tensor {} {}, which heddle does not read", name, in_quotes(e.tensor.name), e.reason);
  }
  return tensors;
}

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

TextFiles read_text_files(const fs::path& folder) {
  return {.tokenizer = read_text(folder / "tokenizer.json"),
          .tokenizer_config = read_text(folder / "tokenizer_config.json"),
          .special_tokens = read_text(folder / "special_tokens_map.json"),
          .generation = read_text(folder / "generation_config.json"),
          .chat_template = read_text(folder / "chat_template.jinja")};
}

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

  checkpoint.text = read_text_files(folder);
  return checkpoint;
}

}  // namespace heddle::formats
