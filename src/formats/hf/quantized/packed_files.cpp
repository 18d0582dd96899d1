// Looks tensors up, reads their numbers, and encodes weights row by row.
#include "formats/hf/quantized/packed_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/f16.h"
#include "base/parallel.h"

namespace heddle::formats::hf {
namespace {

using quant::Format;
using Type = Packed::Type;

constexpr struct TypeName {
  Type type;
  std::string_view name;
} packed_types[] = {{Type::f32, "F32"},      {Type::f16, "F16"},     {Type::bf16, "BF16"}, {Type::i8, "I8"},
                    {Type::i32, "I32"},      {Type::i64, "I64"},     {Type::u8, "U8"},     {Type::e4m3, "F8_E4M3"},
                    {Type::e5m2, "F8_E5M2"}, {Type::e8m0, "F8_E8M0"}};

std::string_view name_of(Type type) {
  for (const TypeName& entry : packed_types)
    if (entry.type == type) return entry.name;
  return "another type";
}

Type type_named(std::string_view name) {
  for (const TypeName& entry : packed_types)
    if (entry.name == name) return entry.type;
  return Type::other;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return out;
}

template <class T>
T at(std::span<const uint8_t> bytes, uint64_t i) {
  T value;
  std::memcpy(&value, &bytes[i * sizeof value], sizeof value);
  return value;
}

Shape without_any_ones(Shape shape) {
  std::erase(shape, 1u);
  return shape;
}

}  // namespace

uint64_t Packed::values() const {
  uint64_t product = 1;
  for (const uint64_t n : shape) product *= n;
  return product;
}

float Packed::number(uint64_t i) const {
  switch (type) {
    case Type::f32:
      return at<float>(view, i);
    case Type::f16:
      return to_f32(f16{at<uint16_t>(view, i)});
    case Type::bf16:
      return to_f32(bf16{at<uint16_t>(view, i)});
    case Type::e8m0: {  // 2^(e - 127); 255 is NaN
      const uint32_t e = view[i];
      return std::bit_cast<float>(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : e << 23);
    }
    default:
      check(false, "a type of scales");
      return 0;
  }
}

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape.rbegin(), shape.rend(), " x ")); }

bool same_shape(const Shape& a, const Shape& b) { return without_any_ones(a) == without_any_ones(b); }

PackedFiles::PackedFiles(std::vector<Tensor>& tensors, std::vector<Unreadable>& unreadable, const std::string& source)
    : tensors_(tensors), unreadable_(unreadable), source_(source) {
  const auto put = [&](const std::string& name, std::string type, const Shape& shape, std::span<const uint8_t> view) {
    const Type known = type_named(type);
    all_[name] = {name, known, std::move(type), shape, view};
  };
  for (const Tensor& tensor : tensors)
    put(tensor.name, upper_case(quant::name(tensor.format)), tensor.shape, tensor.view);
  for (const Unreadable& tensor : unreadable)
    if (!tensor.view.empty()) put(tensor.name, tensor.type, tensor.shape, tensor.view);
}

std::vector<std::string> PackedFiles::ending_with(std::string_view suffix) const {
  std::vector<std::string> names;
  for (const auto& [name, packed] : all_)
    if (name.ends_with(suffix)) names.push_back(name);
  return names;
}

std::vector<std::string> PackedFiles::of_type(Type type) const {
  std::vector<std::string> names;
  for (const auto& [name, packed] : all_)
    if (packed.type == type) names.push_back(name);
  return names;
}

const Packed* PackedFiles::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

Packed PackedFiles::take(const std::string& name, Types types) {
  const auto found = all_.find(name);
  if (found == all_.end()) refuse(name, "expected in a quantised model, but not there");
  if (std::find(types.begin(), types.end(), found->second.type) == types.end()) {
    std::vector<std::string_view> names;
    for (const Type type : types) names.push_back(name_of(type));
    refuse(name, "expected the type {}, found {}", fmt::join(names, " or "), found->second.type_name);
  }
  Packed packed = std::move(found->second);
  all_.erase(found);
  return packed;
}

Packed PackedFiles::take(const std::string& name, Types types, const Shape& shape) {
  Packed packed = take(name, types);
  if (!same_shape(packed.shape, shape))
    refuse(name, "expected {}, found {}", shape_text(shape), shape_text(packed.shape));
  return packed;
}

void PackedFiles::drop(std::string_view suffix) {
  for (const std::string& name : ending_with(suffix)) all_.erase(name);
}

void PackedFiles::add(Tensor weight) {
  if (all_.count(weight.name)) refuse(weight.name, "expected once, found beside {}", weight.source);
  weights_.push_back(std::move(weight));
}

bool PackedFiles::finish() {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return !all_.count(tensor.name); });
  std::erase_if(unreadable_,
                [&](const Unreadable& tensor) { return !tensor.view.empty() && !all_.count(tensor.name); });
  const bool any =
      std::any_of(weights_.begin(), weights_.end(), [](const Tensor& weight) { return bool(weight.exact); });
  std::move(weights_.begin(), weights_.end(), std::back_inserter(tensors_));
  return any;
}

void PackedFiles::refuse_text(const std::string& name, const std::string& text) const {
  throw Error("{}: tensor {}: {}", source_, name, text);
}

quant::Format nearest_format(uint64_t cols) {
  return cols % quant::block_values(Format::q8_0) ? Format::bf16 : Format::q8_0;
}

Tensor computed_matrix(std::string name, std::string from, uint64_t cols, uint64_t rows, quant::Format format,
                       ExactRows exact, EncodedRows encode) {
  Tensor result;
  result.name = std::move(name);
  result.source = std::move(from);
  result.shape = {cols, rows};
  result.format = format;
  result.exact = exact;
  result.produce = [=, label = result.source](std::span<uint8_t> to) {
    const uint64_t row_bytes = quant::row_bytes(format, cols);
    // At least 64 rows at a time: AWQ and GPTQ have the values of neighbouring rows side by side.
    const uint64_t piece = std::clamp<uint64_t>((1u << 18) / cols, 64, std::max<uint64_t>(rows, 64));
    parallel_for((rows + piece - 1) / piece, 0, [&](size_t i) {
      const uint64_t first = i * piece, count = std::min(piece, rows - first);
      uint8_t* const bytes = &to[first * row_bytes];
      try {
        if (encode) return encode(first, count, bytes);
        thread_local std::vector<float> values;
        values.resize(count * cols);
        exact(first, count, values.data());
        quant::encode(format, values.data(), values.size(), bytes);
      } catch (const Error& error) {
        throw Error("tensor {}: {}", label, error.what());
      }
    });
  };
  return result;
}

}  // namespace heddle::formats::hf
