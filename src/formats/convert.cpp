// Metadata in the order in which people read it; then tensor by tensor in slices of rows, each decoded and encoded on
// all cores and written.
#include "formats/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "formats/gguf.h"
#include "quant/format.h"

namespace heddle::formats {
namespace {

using quant::Format;

constexpr uint64_t slice_values = 8u << 20;  // per write: 4 MB of 4-bit weights
constexpr uint64_t piece_values = 1u << 16;  // per thread and step: 256 KB of f32, which stays in the cache

bool is_number(Format format) { return quant::is_float(format) || quant::is_integer(format); }

// Without a type, 16 and 32 bits stay.
Format kept_format(const Tensor& tensor) {
  if (stays_f32(tensor.name, tensor.shape) && (quant::is_float(tensor.format) || tensor.exact)) return Format::f32;
  return tensor.format == Format::f64 ? Format::f32 : tensor.format;
}

std::vector<Format> choose_all(const Checkpoint& checkpoint, const Metadata& metadata, std::optional<FileType> type,
                               bool allow_requantize) {
  const MixModel model = type ? mix_model(metadata, !checkpoint.find("output.weight")) : MixModel();
  std::vector<Format> formats;
  for (const Tensor& tensor : checkpoint.tensors) {
    Format format = type ? choose_format(*type, model, tensor.name, tensor.shape) : kept_format(tensor);
    if (quant::is_integer(tensor.format)) format = tensor.format;
    const bool quantized = !is_number(tensor.format) && !tensor.exact;
    // The MXFP4 experts of a folder are the model as it was trained: no type makes them better.
    if (quantized && checkpoint.kind == Checkpoint::Kind::safetensors && !allow_requantize) format = tensor.format;
    if (format != tensor.format && quantized && !allow_requantize)
      throw Error(
          "{}: tensor {} is {} already; quantising it again to {} adds to its error (--allow-requantize does it)",
          checkpoint.path.string(), tensor.name, quant::name(tensor.format), quant::name(format));
    formats.push_back(format);
  }
  return formats;
}

// general.file_type of a file whose weights keep their formats: the type of the most values.
uint32_t file_type_of(const Checkpoint& checkpoint, const std::vector<Format>& formats) {
  uint64_t values[quant::format_count] = {};
  for (size_t i = 0; i < formats.size(); ++i) values[size_t(formats[i])] += checkpoint.tensors[i].values();
  const auto largest = Format(std::max_element(std::begin(values), std::end(values)) - values);
  for (FileType type : all_file_types())
    if (main_format(type) == largest) return gguf_file_type(type);
  return 1024;  // GGUF's number for an unset type
}

Metadata finished(const Checkpoint& checkpoint, const Metadata& metadata, std::optional<FileType> type,
                  const std::vector<Format>& formats) {
  Metadata result(checkpoint.path.string());
  for (const auto& [key, value] : metadata.all())
    if (!key.starts_with("split.")) result.set(key, value);
  result.set("general.file_type", type ? gguf_file_type(*type) : file_type_of(checkpoint, formats));
  result.set("general.quantization_version", uint32_t{2});
  return result;
}

class TensorCopy {
 public:
  TensorCopy(GgufWriter& writer, const WriteOptions& options, Progress& progress)
      : writer_(writer), options_(options), progress_(progress) {}

  void copy(const Tensor& tensor, Format format) {
    const bool from_exact = tensor.exact && format != tensor.format;
    const std::span<const uint8_t> data = from_exact ? std::span<const uint8_t>() : tensor.data(scratch_);
    const uint64_t cols = tensor.shape[0], rows = tensor.rows();
    const uint64_t row_before = quant::row_bytes(tensor.format, cols), row_after = quant::row_bytes(format, cols);
    const uint64_t slice = std::clamp<uint64_t>(slice_values / cols, 1, rows);
    for (uint64_t first = 0; first < rows; first += slice) {
      const uint64_t count = std::min(slice, rows - first);
      if (format == tensor.format) {
        writer_.write_slice(data.subspan(first * row_before, count * row_before));
      } else {
        encoded_.resize(count * row_after);
        convert(tensor, format, data, first, count);
        writer_.write_slice(encoded_);
      }
      progress_.written += count * row_after;
      if (options_.progress) options_.progress(progress_);
    }
  }

 private:
  // Rows `begin` and on of `data`, or of the exact values where the tensor has them.
  void convert(const Tensor& tensor, Format format, std::span<const uint8_t> data, uint64_t begin, uint64_t rows) {
    const uint64_t cols = tensor.shape[0];
    const uint64_t row_before = quant::row_bytes(tensor.format, cols), row_after = quant::row_bytes(format, cols);
    const uint64_t piece = std::clamp<uint64_t>(piece_values / cols, 1, rows);
    parallel_for((rows + piece - 1) / piece, options_.threads, [&](size_t i) {
      thread_local std::vector<float> values;
      const uint64_t first = i * piece, count = std::min(piece, rows - first);
      values.resize(count * cols);
      try {
        if (tensor.exact)
          tensor.exact(begin + first, count, values.data());
        else
          quant::decode(tensor.format, &data[(begin + first) * row_before], values.size(), values.data());
        quant::encode(format, values.data(), values.size(), &encoded_[first * row_after]);
      } catch (const Error& error) {
        throw Error("tensor {}: {}", tensor.name, error.what());
      }
    });
  }

  GgufWriter& writer_;
  const WriteOptions& options_;
  Progress& progress_;
  std::vector<uint8_t> scratch_, encoded_;
};

// The default template, and those with a name ("tool_use") where tokenizer_config.json has a list.
void put_templates(Metadata& to, const Checkpoint& checkpoint) {
  if (const std::string text = checkpoint.chat_template(); !text.empty()) to.set("tokenizer.chat_template", text);
  if (checkpoint.text.tokenizer_config.empty()) return;
  const Json config = parse_json(checkpoint.text.tokenizer_config, checkpoint.path.string() + "/tokenizer_config.json");
  const auto list = config.find("chat_template");
  if (list == config.end() || !list->is_array()) return;
  std::vector<std::string> names;
  for (const Json& entry : *list) {  // chat_template() above has checked that they are objects with a name and a text
    const std::string name = entry.value("name", "");
    if (name == "default") continue;
    names.push_back(name);
    to.set("tokenizer.chat_template." + name, checkpoint.chat_template(name));
  }
  if (!names.empty()) to.set("tokenizer.chat_templates", Array::of(names));
}

}  // namespace

Metadata converted_metadata(const Checkpoint& checkpoint) {
  const std::string source = checkpoint.path.string();
  checkpoint.expect_known_class();
  if (!checkpoint.metadata.find("general.architecture"))
    throw Error("{}: expected a config.json beside the weights, found none", source);

  uint64_t values = 0, expert_values = 0;
  for (const Tensor& tensor : checkpoint.tensors) {
    values += tensor.values();
    if (tensor.name.find("_exps.") != std::string::npos) expert_values += tensor.values();
  }
  const std::string architecture(checkpoint.architecture());
  const uint64_t experts = checkpoint.metadata.find_integer(architecture + ".expert_count").value_or(0);

  Metadata result(source);
  result.set("general.architecture", architecture);
  result.set("general.type", std::string("model"));
  if (const auto name = checkpoint.metadata.find_string("general.name")) result.set("general.name", std::string(*name));
  result.set("general.size_label", size_label(values, expert_values, experts));
  for (const auto& [key, value] : checkpoint.metadata.all())
    if (!result.find(key)) result.set(key, value);
  put_templates(result, checkpoint);
  return result;
}

std::string size_label(uint64_t values, uint64_t expert_values, uint64_t experts) {
  // Of a mixture: how many experts, and how large the model would be with one.
  const double size = static_cast<double>(experts ? values - expert_values + expert_values / experts : values);
  const struct {
    double unit;
    const char* letter;
  } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  const auto* unit = std::find_if(std::begin(units), std::end(units) - 1, [&](auto& u) { return size > u.unit; });
  const double scaled = size / unit->unit;
  const std::string number = fmt::format("{:.{}f}{}", scaled, std::round(scaled) < 10 ? 1 : 0, unit->letter);
  return experts ? fmt::format("{}x{}", experts, number) : number;
}

Written write_gguf(const Checkpoint& checkpoint, const Metadata& metadata, std::optional<FileType> type,
                   const std::filesystem::path& path, const WriteOptions& options) {
  if (!checkpoint.unreadable.empty())
    throw Error("{}: {} tensors cannot be read{}", checkpoint.path.string(), checkpoint.unreadable.size(),
                checkpoint.not_read());
  const std::vector<Format> formats = choose_all(checkpoint, metadata, type, options.allow_requantize);
  Written result;
  std::vector<GgufWriter::Announced> announced;
  for (size_t i = 0; i < formats.size(); ++i) {
    const Tensor& tensor = checkpoint.tensors[i];
    announced.push_back({tensor.name, tensor.shape, formats[i]});
    result.values += tensor.values();
    result.bytes_before += tensor.bytes();
    result.bytes_after += tensor.rows() * quant::row_bytes(formats[i], tensor.shape[0]);
  }
  GgufWriter writer(path, finished(checkpoint, metadata, type, formats), std::move(announced), options.existing);
  Progress progress;
  progress.tensors = formats.size();
  progress.to_write = result.bytes_after;
  TensorCopy to(writer, options, progress);
  for (size_t i = 0; i < formats.size(); ++i) {
    ++progress.tensor;
    to.copy(checkpoint.tensors[i], formats[i]);
  }
  writer.commit();
  return result;
}

}  // namespace heddle::formats
