// The ranges and shapes are checked here, so that no size in a file is used before it was compared.
#include "model/reader.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace heddle::model {
namespace {

// Dimensions of 1 change nothing about where a value lies.
std::vector<uint64_t> without_ones(std::vector<uint64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

std::string text_of(Range range) {
  return range.max == INT32_MAX ? fmt::format("a whole number from {} to 2^31 - 1", range.min)
                                : fmt::format("a whole number from {} to {}", range.min, range.max);
}

}  // namespace

Vector decoded(const Matrix& matrix) {
  Vector values(matrix.rows * matrix.cols);
  for (uint64_t i = 0; i < matrix.rows; ++i)
    quant::decode(matrix.format, matrix.data.data() + i * matrix.row_bytes(), matrix.cols,
                  values.data() + i * matrix.cols);
  return values;
}

Reader::Reader(const formats::Checkpoint& checkpoint, std::vector<std::vector<uint8_t>>& storage)
    : checkpoint_(checkpoint), storage_(storage), prefix_(std::string(checkpoint.architecture()) + ".") {}

const formats::Value* Reader::find(std::string_view key) {
  const std::string whole = full(key);
  used_keys_.insert(whole);
  return checkpoint_.metadata.find(whole);
}

uint32_t Reader::integer(std::string_view key, Range range, std::optional<uint32_t> fallback) {
  const bool given = find(key) != nullptr;
  const uint64_t value = given || !fallback ? checkpoint_.metadata.integer(full(key)) : *fallback;
  if (value >= range.min && value <= range.max) return static_cast<uint32_t>(value);
  if (given) refuse(key, text_of(range));
  throw Error("{}: {}: expected {}, found no such key, for which {} would be taken", checkpoint_.path.string(),
              full(key), text_of(range), value);
}

double Reader::number(std::string_view key, std::optional<double> fallback) {
  if (!find(key) && fallback) return *fallback;
  const double value = checkpoint_.metadata.number(full(key));
  if (!(std::fabs(value) <= std::numeric_limits<float>::max())) refuse(key, "a finite number that an f32 can hold");
  return value;
}

double Reader::number_above_0(std::string_view key, std::optional<double> fallback) {
  const double value = number(key, fallback);
  if (!(static_cast<float>(value) > 0)) refuse(key, "a number above 0");
  return value;
}

double Reader::number_from_0(std::string_view key, std::optional<double> fallback) {
  const double value = number(key, fallback);
  if (!(value >= 0)) refuse(key, "a number from 0 on");
  return value;
}

bool Reader::boolean(std::string_view key, bool fallback) {
  return find(key) ? checkpoint_.metadata.boolean(full(key)) : fallback;
}

std::string Reader::string(std::string_view key, std::string_view fallback) {
  return std::string(find(key) ? checkpoint_.metadata.string(full(key)) : fallback);
}

std::vector<std::string> Reader::strings(std::string_view key) {
  const formats::Value* value = find(key);
  if (!value) return {};
  const auto* array = std::get_if<formats::Array>(value);
  if (!array) refuse(key, "a list of texts");
  const std::vector<std::string_view> texts = array->strings();
  return {texts.begin(), texts.end()};
}

std::vector<uint32_t> Reader::per_layer(std::string_view key, uint32_t layers, Range range,
                                        std::optional<uint32_t> fallback) {
  const formats::Value* value = find(key);
  const auto* array = value ? std::get_if<formats::Array>(value) : nullptr;
  if (!array) return std::vector<uint32_t>(layers, integer(key, range, fallback));
  if (array->size() != layers) refuse(key, fmt::format("one number per layer ({})", layers));
  std::vector<uint32_t> list;
  try {
    for (int64_t number : array->integers()) {
      if (number < range.min || number > range.max) throw Error("expected {}, found {}", text_of(range), number);
      list.push_back(static_cast<uint32_t>(number));
    }
  } catch (const Error& error) {
    throw Error("{}: {}, layer {}: {}", checkpoint_.path.string(), full(key), list.size(), error.what());
  }
  return list;
}

std::vector<float> Reader::numbers_per_layer(std::string_view key, uint32_t layers, bool or_minus_infinity) {
  const formats::Value* value = find(key);
  const auto* array = value ? std::get_if<formats::Array>(value) : nullptr;
  if (!array) return std::vector<float>(layers, static_cast<float>(number(key)));
  if (array->size() != layers) refuse(key, fmt::format("one number per layer ({})", layers));
  std::vector<float> list;
  for (const double one : array->numbers()) {
    if (!(std::fabs(one) <= std::numeric_limits<float>::max()) && !(or_minus_infinity && one == -INFINITY))
      refuse(key, "finite numbers that an f32 can hold");
    list.push_back(static_cast<float>(one));
  }
  return list;
}

std::optional<std::vector<bool>> Reader::booleans_per_layer(std::string_view key, uint32_t layers) {
  const formats::Value* value = find(key);
  const auto* array = value ? std::get_if<formats::Array>(value) : nullptr;
  if (!array) return {};
  if (array->size() != layers) refuse(key, fmt::format("one boolean per layer ({})", layers));
  std::vector<bool> list;
  for (const int64_t one : array->integers()) list.push_back(one != 0);
  return list;
}

void Reader::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) find(key);
}

void Reader::refuse(std::string_view key, std::string_view expected) const {
  const std::string whole = full(key);
  const formats::Value* value = checkpoint_.metadata.find(whole);
  throw Error("{}: {}: expected {}, found {}", checkpoint_.path.string(), whole, expected,
              value ? formats::to_string(*value) : "nothing");
}

uint32_t Reader::rows(const std::string& name) const {
  const uint64_t rows = checkpoint_.tensor(name).rows();
  if (rows > INT32_MAX)
    throw Error("{}: tensor {}: expected fewer than 2^31 rows, found {}", checkpoint_.path.string(), name, rows);
  return static_cast<uint32_t>(rows);
}

const formats::Tensor& Reader::tensor(const std::string& name, const std::vector<uint64_t>& shape) {
  const formats::Tensor& tensor = checkpoint_.tensor(name);
  if (without_ones(tensor.shape) != without_ones(shape))
    throw Error("{}: tensor {}: expected the shape {}, found {}", checkpoint_.path.string(), name,
                fmt::join(shape, " x "), fmt::join(tensor.shape, " x "));
  used_tensors_.insert(name);
  return tensor;
}

std::span<const uint8_t> Reader::data(const formats::Tensor& tensor) {
  if (!tensor.view.empty()) return tensor.view;
  std::vector<uint8_t>& bytes = storage_.emplace_back();
  return tensor.data(bytes);
}

Matrix Reader::matrix(const std::string& name, uint64_t rows, uint64_t cols) {
  const formats::Tensor& found = tensor(name, {cols, rows});
  return {found.format, rows, cols, data(found)};
}

Matrix Reader::gathered(const std::string& name, uint64_t rows, uint64_t cols, std::span<const uint64_t> which) {
  const Matrix whole = matrix(name, rows, cols);
  Matrix some{whole.format, which.size(), cols, {}};
  const size_t bytes = whole.row_bytes();
  std::vector<uint8_t>& to = storage_.emplace_back(which.size() * bytes);
  for (size_t i = 0; i < which.size(); ++i) std::memcpy(&to[i * bytes], &whole.data[which[i] * bytes], bytes);
  some.data = to;
  return some;
}

Experts Reader::experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols) {
  const formats::Tensor& found = tensor(name, {cols, rows, count});
  return {count, {found.format, rows * count, cols, data(found)}};
}

Vector Reader::vector(const std::string& name, uint64_t size) {
  const formats::Tensor& found = tensor(name, {size});
  std::vector<uint8_t> scratch;
  Vector values(size);
  quant::decode(found.format, found.data(scratch).data(), size, values.data());
  return values;
}

void Reader::ignore_tensors(std::string_view prefix) {
  for (const formats::Tensor& tensor : checkpoint_.tensors)
    if (tensor.name.starts_with(prefix)) used_tensors_.insert(tensor.name);
}

void Reader::finish_options() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : checkpoint_.metadata.all())
    if (key.starts_with(prefix_) && !used_keys_.contains(key))
      keys.push_back(fmt::format("{} = {}", key, formats::to_string(value)));
  if (!keys.empty())
    throw Error("{}: heddle does not know these options of the model: {}", checkpoint_.path.string(),
                fmt::join(keys, ", "));
}

void Reader::finish_tensors() const {
  std::vector<std::string> tensors;
  for (const formats::Tensor& tensor : checkpoint_.tensors)
    if (!used_tensors_.contains(tensor.name)) tensors.push_back(tensor.name);
  if (!tensors.empty()) {
    const size_t shown = std::min<size_t>(tensors.size(), 5);
    throw Error("{}: {} tensors are not part of the architecture {}: {}{}", checkpoint_.path.string(), tensors.size(),
                checkpoint_.architecture(), fmt::join(tensors.begin(), tensors.begin() + long(shown), ", "),
                shown < tensors.size() ? ", ..." : "");
  }
}

}  // namespace heddle::model
