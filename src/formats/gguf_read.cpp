// One GGUF file: header, metadata, tensor table, data. Nothing is believed before it is compared with the file's size,
// and nothing is allocated for a count that the file could not hold.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/gguf_part.h"

namespace heddle::formats {
namespace {

constexpr uint64_t smallest_key = 8 + 1 + 4 + 1;         // length, one letter, type, a value of one byte
constexpr uint64_t smallest_tensor = 8 + 1 + 4 + 4 + 8;  // length, one letter, dimensions (none), type, offset
constexpr uint64_t longest_name = 65535;                 // what the format grants a key
constexpr uint64_t largest_alignment = 1 << 20;          // a page of any system is smaller

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

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
  // A count of things that take at least `smallest` bytes each.
  uint64_t count(uint64_t smallest, std::string_view what) {
    const uint64_t found = number<uint64_t>(what);
    bound(found, smallest);
    return found;
  }
  void bound(uint64_t found, uint64_t smallest) const {
    if (found > left() / smallest)
      refuse("expected at most {}, all that the {} bytes left can hold, found {}", left() / smallest, left(), found);
  }
  // The name of a key or a tensor.
  std::string identifier(std::string_view what) {
    const std::string_view found = text(what);
    if (found.empty()) refuse("expected a name, found an empty one");
    if (found.size() > longest_name) refuse("expected at most {} bytes of name, found {}", longest_name, found.size());
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

void read_version(Reader& reader) {
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

ValueType read_type(Reader& reader) {
  const uint32_t type = reader.number<uint32_t>("the type of the value");
  if (type > uint32_t(ValueType::f64)) reader.refuse("expected a type of value from 0 to 12, found {}", type);
  return ValueType(type);
}

void check_boolean(const Reader& reader, uint8_t byte) {
  if (byte > 1) reader.refuse("expected a bool, 0 or 1, found {}", byte);
}

Array read_array(Reader& reader, const std::shared_ptr<const void>& owner, std::span<const uint8_t> file) {
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

Value read_value(Reader& reader, const std::shared_ptr<const void>& owner, std::span<const uint8_t> file) {
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

Entry read_entry(Reader& reader, uint64_t number, uint64_t count) {
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

}  // namespace

GgufPart read_gguf_part(std::span<const uint8_t> bytes, const std::string& name, std::shared_ptr<const void> owner) {
  Reader reader(bytes, name);
  read_version(reader);
  reader.field("tensor count");
  const uint64_t tensor_count = reader.number<uint64_t>("the number of tensors");
  reader.field("metadata count");
  const uint64_t key_count = reader.count(smallest_key, "the number of keys");
  reader.field("tensor count");
  reader.bound(tensor_count, smallest_tensor);

  GgufPart part{Metadata(name), {}};
  for (uint64_t i = 0; i < key_count; ++i) {
    reader.field(fmt::format("metadata key {} of {}", i + 1, key_count));
    std::string key = reader.identifier("the key");
    reader.field(fmt::format("metadata {}", key));
    if (part.metadata.find(key)) reader.refuse("expected every key once, found it twice");
    Value value = read_value(reader, owner, bytes);
    part.metadata.set(std::move(key), std::move(value));
  }
  const uint64_t alignment = gguf_alignment(part.metadata);

  std::vector<Entry> entries;
  for (uint64_t i = 0; i < tensor_count; ++i) entries.push_back(read_entry(reader, i, tensor_count));
  const uint64_t begin = std::min<uint64_t>(bytes.size(), (reader.at() + alignment - 1) / alignment * alignment);
  place(entries, bytes.subspan(begin), alignment, name);
  part.tensors.reserve(entries.size());
  for (Entry& entry : entries) part.tensors.push_back(std::move(entry.tensor));
  return part;
}

uint64_t gguf_alignment(const Metadata& metadata) {
  const uint64_t alignment = metadata.find_integer("general.alignment").value_or(32);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > largest_alignment)
    throw Error("{}: general.alignment: expected a power of two from 8 to {}, found {}", metadata.source(),
                largest_alignment, alignment);
  return alignment;
}

Checkpoint read_gguf(std::span<const uint8_t> bytes, const std::string& name) {
  GgufPart part = read_gguf_part(bytes, name, nullptr);
  if (const auto parts = part.metadata.find_integer("split.count"); parts.value_or(1) > 1)
    throw Error("{}: split.count: expected a file of one part, found one of {}", name, *parts);
  Checkpoint checkpoint;
  checkpoint.path = name;
  checkpoint.metadata = std::move(part.metadata);
  checkpoint.tensors = std::move(part.tensors);
  checkpoint.index();
  return checkpoint;
}

}  // namespace heddle::formats
