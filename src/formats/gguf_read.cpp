// GGUF files: header, metadata, tensor table, data. Nothing is believed before it is compared with the file's size, and
// nothing is allocated for a count that the file could not hold.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/gguf.h"

namespace heddle::formats {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t min_key = 8 + 1 + 4 + 1;         // length, one letter, type, a value of one byte
constexpr uint64_t min_tensor = 8 + 1 + 4 + 4 + 8;  // length, one letter, dimensions (none), type, offset
constexpr uint64_t max_name = 65535;                // the limit of the format for a key
constexpr uint64_t max_alignment = 1 << 20;         // a page of any system is smaller

class GgufReader {
 public:
  GgufReader(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  // What is read next, for errors: "metadata general.name".
  void field(std::string text) { field_ = std::move(text); }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error("{}: {}: {}", name_, field_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const uint8_t> take(uint64_t count, std::string_view what) {
    if (count > left())
      refuse("expected {} bytes for {} at byte {}, found {} before the end of the file", count, what, at_, left());
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string_view text(std::string_view what) {
    const uint64_t length = number<uint64_t>(what);
    const auto taken = take(length, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // A count of things that take at least `min` bytes each.
  uint64_t count(uint64_t min, std::string_view what) {
    const uint64_t found = number<uint64_t>(what);
    bound(found, min);
    return found;
  }
  void bound(uint64_t found, uint64_t min) const {
    if (found > left() / min)
      refuse("expected at most {}, all that the {} bytes left can hold, found {}", left() / min, left(), found);
  }
  // The name of a key or a tensor.
  std::string identifier(std::string_view what) {
    const std::string_view found = text(what);
    if (found.empty()) refuse("expected a name, found an empty one");
    if (found.size() > max_name) refuse("expected at most {} bytes of name, found {}", max_name, found.size());
    for (size_t at = 0; at < found.size();) {
      const CodePoint point = code_point_at(found, at);
      if (!point.valid || is_control(point.value))
        refuse("expected a name in UTF-8 without control characters, found {}", in_quotes(found));
      at += point.bytes;
    }
    return std::string(found);
  }

 private:
  std::span<const uint8_t> bytes_;
  const std::string& name_;
  std::string field_;
  uint64_t at_ = 0;
};

void read_version(GgufReader& reader) {
  reader.field("magic");
  const auto magic = reader.take(4, "the magic number");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0)
    reader.refuse("expected \"GGUF\", found {}", in_quotes({reinterpret_cast<const char*>(magic.data()), 4}));
  reader.field("version");
  const uint32_t version = reader.number<uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0)
    reader.refuse("expected a little-endian file, found a big-endian one of version {}", version >> 24);
  if (version == 1)
    reader.refuse("expected 2 or 3, found 1: the first version, whose counts have 32 bits, is not read");
  if (version != 2 && version != 3) reader.refuse("expected 2 or 3, found {}", version);
}

ValueType read_type(GgufReader& reader) {
  const uint32_t type = reader.number<uint32_t>("the type of the value");
  if (type > uint32_t(ValueType::f64)) reader.refuse("expected a type of value from 0 to 12, found {}", type);
  return ValueType(type);
}

void check_boolean(const GgufReader& reader, uint8_t byte) {
  if (byte > 1) reader.refuse("expected a bool, 0 or 1, found {}", byte);
}

Array read_array(GgufReader& reader, const std::shared_ptr<const void>& owner, std::span<const uint8_t> file) {
  const ValueType type = read_type(reader);
  if (type == ValueType::array)
    reader.refuse("expected an array of values, found an array of arrays, which is not read");
  const uint64_t begin = reader.at() + sizeof(uint64_t);
  const size_t size = value_bytes(type);
  const uint64_t count = reader.count(size ? size : sizeof(uint64_t), "the length of the array");
  if (type == ValueType::string)
    for (uint64_t i = 0; i < count; ++i) reader.text("a string of the array");
  else
    reader.take(count * size, "the values of the array");
  const auto encoded = file.subspan(begin, reader.at() - begin);
  if (type == ValueType::boolean)
    for (const uint8_t byte : encoded) check_boolean(reader, byte);
  return Array(type, count, encoded, owner);
}

Value read_value(GgufReader& reader, const std::shared_ptr<const void>& owner, std::span<const uint8_t> file) {
  constexpr std::string_view what = "the value";
  switch (read_type(reader)) {
    case ValueType::u8:
      return reader.number<uint8_t>(what);
    case ValueType::i8:
      return reader.number<int8_t>(what);
    case ValueType::u16:
      return reader.number<uint16_t>(what);
    case ValueType::i16:
      return reader.number<int16_t>(what);
    case ValueType::u32:
      return reader.number<uint32_t>(what);
    case ValueType::i32:
      return reader.number<int32_t>(what);
    case ValueType::f32:
      return reader.number<float>(what);
    case ValueType::u64:
      return reader.number<uint64_t>(what);
    case ValueType::i64:
      return reader.number<int64_t>(what);
    case ValueType::f64:
      return reader.number<double>(what);
    case ValueType::string:
      return std::string(reader.text(what));
    case ValueType::array:
      return read_array(reader, owner, file);
    case ValueType::boolean: {
      const auto byte = reader.number<uint8_t>(what);
      check_boolean(reader, byte);
      return byte == 1;
    }
  }
  check(false, "every type of value is read");
  return {};
}

struct Entry {
  Tensor tensor;
  uint64_t offset = 0;  // from the beginning of the data
  uint64_t bytes = 0;
};

Entry read_entry(GgufReader& reader, uint64_t number, uint64_t count) {
  Entry entry;
  Tensor& tensor = entry.tensor;
  reader.field(fmt::format("tensor {} of {}", number + 1, count));
  tensor.name = reader.identifier("the name");
  reader.field(fmt::format("tensor {}", tensor.name));
  const uint32_t dimensions = reader.number<uint32_t>("the number of dimensions");
  if (dimensions > 4) reader.refuse("expected at most 4 dimensions, found {}", dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(reader.number<uint64_t>("a dimension"));
  if (dimensions == 0) tensor.shape = {1};  // a single value
  if (std::ranges::find(tensor.shape, 0u) != tensor.shape.end())
    reader.refuse("expected dimensions of at least 1, found {}", fmt::join(tensor.shape, " x "));

  const uint32_t type = reader.number<uint32_t>("the type");
  const auto format = quant::format_of_gguf_type(type);
  if (!format) reader.refuse("expected a type of tensor that heddle knows, found number {}", type);
  tensor.format = *format;
  const uint64_t block = quant::block_values(*format);
  if (tensor.shape[0] % block)
    reader.refuse("expected rows of a multiple of {} values, the block of {}, found {}", block, quant::name(*format),
                  tensor.shape[0]);
  entry.bytes = quant::block_bytes(*format);
  bool overflow = __builtin_mul_overflow(entry.bytes, tensor.shape[0] / block, &entry.bytes);
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    overflow |= __builtin_mul_overflow(entry.bytes, tensor.shape[i], &entry.bytes);
  if (overflow)
    reader.refuse("expected a size below 2^64 bytes, found {} values of {}", fmt::join(tensor.shape, " x "),
                  quant::name(*format));
  entry.offset = reader.number<uint64_t>("the offset");
  return entry;
}

// Gives every tensor its view. `data` is what follows the table, from the first aligned byte on.
void place(std::vector<Entry>& entries, std::span<const uint8_t> data, uint64_t alignment, const std::string& name) {
  const auto refuse = [&](const Entry& entry, const std::string& reason) {
    throw Error("{}: tensor {}: {}", name, entry.tensor.name, reason);
  };
  std::vector<const Entry*> in_order;
  in_order.reserve(entries.size());
  for (Entry& entry : entries) {
    if (entry.offset % alignment)
      refuse(entry, fmt::format("expected an offset that is a multiple of {}, found {}", alignment, entry.offset));
    if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
      refuse(entry, fmt::format("expected {} bytes at offset {} of the data, found only {} bytes of data before the "
                                "end of the file",
                                entry.bytes, entry.offset, data.size()));
    entry.tensor.view = data.subspan(entry.offset, entry.bytes);
    in_order.push_back(&entry);
  }
  std::ranges::sort(in_order, {}, &Entry::offset);
  for (size_t i = 1; i < in_order.size(); ++i) {
    const Entry &before = *in_order[i - 1], &entry = *in_order[i];
    if (before.offset + before.bytes > entry.offset)
      refuse(entry, fmt::format("expected an offset of at least {}, the end of tensor {}, found {}",
                                before.offset + before.bytes, before.tensor.name, entry.offset));
  }
}

// A model in several files: NAME-00001-of-00003.gguf and so on, each with its own table of tensors. The first file has
// the metadata of the model.
std::string split_ending(uint64_t number, uint64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", number, count); }

// The path of another file of a split model, from the path of one; the numbers count from 1.
fs::path split_path(const fs::path& path, uint64_t own_number, uint64_t number, uint64_t count) {
  const std::string name = path.filename().string(), ending = split_ending(own_number, count);
  if (!name.ends_with(ending))
    throw Error("{}: name: expected one that ends in {}, as split.no and split.count say", path.string(), ending);
  return path.parent_path() / (name.substr(0, name.size() - ending.size()) + split_ending(number, count));
}

GgufFile open_gguf_file(const fs::path& path, Checkpoint& checkpoint) {
  const auto file = std::make_shared<const MappedFile>(path);
  GgufFile read = read_gguf_file(file->bytes(), path.string(), file);
  checkpoint.files.push_back(file);
  return read;
}

void expect(const fs::path& path, std::string_view key, uint64_t expected, uint64_t found) {
  if (expected != found) throw Error("{}: {}: expected {}, found {}", path.string(), key, expected, found);
}

// The keys split.* are not true of the whole model.
Metadata without_split_keys(const Metadata& metadata) {
  Metadata rest(metadata.source());
  for (const auto& [key, value] : metadata.all())
    if (!key.starts_with("split.")) rest.set(key, value);
  return rest;
}

}  // namespace

GgufFile read_gguf_file(std::span<const uint8_t> bytes, const std::string& name, std::shared_ptr<const void> owner) {
  GgufReader reader(bytes, name);
  read_version(reader);
  reader.field("tensor count");
  const uint64_t tensor_count = reader.number<uint64_t>("the number of tensors");
  reader.field("metadata count");
  const uint64_t key_count = reader.count(min_key, "the number of keys");
  reader.field("tensor count");
  reader.bound(tensor_count, min_tensor);

  GgufFile file{Metadata(name), {}};
  for (uint64_t i = 0; i < key_count; ++i) {
    reader.field(fmt::format("metadata key {} of {}", i + 1, key_count));
    std::string key = reader.identifier("the key");
    reader.field(fmt::format("metadata {}", key));
    if (file.metadata.find(key)) reader.refuse("expected every key once, found it twice");
    Value value = read_value(reader, owner, bytes);
    file.metadata.set(std::move(key), std::move(value));
  }
  const uint64_t alignment = gguf_alignment(file.metadata);

  std::vector<Entry> entries;
  for (uint64_t i = 0; i < tensor_count; ++i) entries.push_back(read_entry(reader, i, tensor_count));
  const uint64_t begin = std::min<uint64_t>(bytes.size(), (reader.at() + alignment - 1) / alignment * alignment);
  place(entries, bytes.subspan(begin), alignment, name);
  file.tensors.reserve(entries.size());
  for (Entry& entry : entries) file.tensors.push_back(std::move(entry.tensor));
  return file;
}

uint64_t gguf_alignment(const Metadata& metadata) {
  const uint64_t alignment = metadata.find_integer("general.alignment").value_or(32);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > max_alignment)
    throw Error("{}: general.alignment: expected a power of two from 8 to {}, found {}", metadata.source(),
                max_alignment, alignment);
  return alignment;
}

Checkpoint read_gguf(std::span<const uint8_t> bytes, const std::string& name) {
  GgufFile file = read_gguf_file(bytes, name, nullptr);
  if (const auto files = file.metadata.find_integer("split.count"); files.value_or(1) > 1)
    throw Error("{}: split.count: expected a model in one file, found one in {}", name, *files);
  Checkpoint checkpoint;
  checkpoint.path = name;
  checkpoint.metadata = std::move(file.metadata);
  checkpoint.tensors = std::move(file.tensors);
  checkpoint.index();
  return checkpoint;
}

std::string_view gguf_model_name(std::string_view file_name) {
  static const std::string pattern = split_ending(0, 0);
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
  GgufFile opened = open_gguf_file(path, checkpoint);
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
    const fs::path other = split_path(path, own + 1, number + 1, count);
    GgufFile file = open_gguf_file(other, checkpoint);
    expect(other, "split.no", number, file.metadata.integer("split.no"));
    expect(other, "split.count", count, file.metadata.integer("split.count"));
    expect(other, "split.tensors.count", tensors, file.metadata.integer("split.tensors.count"));
    if (number == 0) checkpoint.metadata = without_split_keys(file.metadata);
    std::ranges::move(file.tensors, std::back_inserter(checkpoint.tensors));
  }
  if (checkpoint.tensors.size() != tensors)
    throw Error("{}: split.tensors.count: expected {} tensors in {} files, found {}", path.string(), tensors, count,
                checkpoint.tensors.size());
  checkpoint.index();
  return checkpoint;
}

}  // namespace heddle::formats
