// Counts what is in a checkpoint, and prints it for people or as JSON.
#include "main/commands/inspect_command.h"

#include <fmt/ostream.h>

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/checkpoint.h"
#include "main/device/open_model.h"

namespace heddle {
namespace {

using formats::Checkpoint;
using formats::Tensor;
using OrderedJson = nlohmann::ordered_json;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return out;
}

std::string count_text(double count) {
  if (count < 1e3) return fmt::format("{:.0f}", count);
  if (count < 1e6) return fmt::format("{:.1f} K", count / 1e3);
  return count < 1e9 ? fmt::format("{:.1f} M", count / 1e6) : fmt::format("{:.2f} B", count / 1e9);
}

struct TypeSum {
  uint64_t tensors = 0, parameters = 0, bytes = 0;
};

// What the metadata says of the shape; a key that is not there is 0.
struct Shape {
  uint64_t context = 0, layers = 0, width = 0, heads = 0, vocabulary = 0;
  uint64_t kv_values = 0;  // of one token, K and V of all layers
};

// One number per layer, whether the file has one for all or a list.
std::vector<uint64_t> per_layer(const Checkpoint& checkpoint, const std::string& key, uint64_t layers,
                                uint64_t otherwise) {
  const formats::Value* value = checkpoint.metadata.find(key);
  if (value && std::holds_alternative<formats::Array>(*value)) {
    std::vector<uint64_t> list;
    for (int64_t number : std::get<formats::Array>(*value).integers()) list.push_back(uint64_t(number));
    if (list.size() != layers)
      throw Error("{}: {}: expected one value per layer ({}), found {}", checkpoint.path.string(), key, layers,
                  list.size());
    return list;
  }
  return std::vector<uint64_t>(layers, checkpoint.metadata.find_integer(key).value_or(otherwise));
}

Shape shape_of(const Checkpoint& checkpoint) {
  Shape shape;
  const auto architecture = checkpoint.metadata.find_string("general.architecture");
  if (!architecture) return shape;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", *architecture, name); };
  const auto integer = [&](std::string_view name) { return checkpoint.metadata.find_integer(key(name)).value_or(0); };
  shape.context = integer("context_length");
  shape.layers = integer("block_count");
  shape.width = integer("embedding_length");
  shape.vocabulary = integer("vocab_size");
  if (const Tensor* embedding = checkpoint.find("token_embd.weight"); embedding && shape.vocabulary == 0)
    shape.vocabulary = embedding->rows();
  if (const formats::Array* tokens = checkpoint.metadata.find_array("tokenizer.ggml.tokens");
      tokens && !shape.vocabulary)
    shape.vocabulary = tokens->size();
  if (shape.layers == 0 || shape.layers > 100'000) return shape;  // what no model has is not worth a list

  const std::vector<uint64_t> heads = per_layer(checkpoint, key("attention.head_count"), shape.layers, 0);
  shape.heads = heads[0];
  if (shape.heads == 0) return shape;
  const uint64_t head = shape.width / shape.heads;
  const uint64_t k = checkpoint.metadata.find_integer(key("attention.key_length")).value_or(head);
  const uint64_t v = checkpoint.metadata.find_integer(key("attention.value_length")).value_or(head);
  for (uint64_t kv : per_layer(checkpoint, key("attention.head_count_kv"), shape.layers, shape.heads))
    shape.kv_values += kv * (k + v);
  return shape;
}

struct Summary {
  Shape shape;
  uint64_t parameters = 0, weight_bytes = 0, context = 0, kv_bytes = 0;
  std::map<std::string, TypeSum> types;
};

Summary summary_of(const Checkpoint& checkpoint, const InspectOptions& options) {
  Summary sum;
  sum.shape = shape_of(checkpoint);
  for (const Tensor& tensor : checkpoint.tensors) {
    TypeSum& type = sum.types[upper(quant::name(tensor.format))];
    ++type.tensors;
    type.parameters += tensor.values();
    type.bytes += tensor.bytes();
    sum.parameters += tensor.values();
    sum.weight_bytes += tensor.bytes();
  }
  sum.context = options.context ? options.context : sum.shape.context;
  sum.kv_bytes = sum.shape.kv_values * 2 * sum.context;  // f16
  return sum;
}

std::string kind_text(const Checkpoint& checkpoint) {
  const std::string kind = checkpoint.kind == Checkpoint::Kind::gguf ? "GGUF" : "safetensors";
  return checkpoint.files.size() > 1 ? fmt::format("{}, {} files", kind, checkpoint.files.size()) : kind;
}

std::string shape_text(const Tensor& tensor) { return fmt::format("{}", fmt::join(tensor.shape, " x ")); }

void print_tensors(const Checkpoint& checkpoint, std::ostream& out) {
  size_t widest = 0;
  for (const Tensor& tensor : checkpoint.tensors) widest = std::max(widest, tensor.name.size());
  fmt::print(out, "\ntensors\n");
  for (const Tensor& tensor : checkpoint.tensors)
    fmt::print(out, "  {:<{}}  {:<8}  {:<24}  {}{}\n", tensor.name, widest, upper(quant::name(tensor.format)),
               shape_text(tensor), bytes_text(double(tensor.bytes())),
               tensor.source.empty() ? "" : "  from " + tensor.source);
}

void print_text(const Checkpoint& checkpoint, const Summary& sum, const InspectOptions& options, std::ostream& out) {
  const auto line = [&out](std::string_view name, const std::string& value) {
    fmt::print(out, "{:<14} {}\n", name, value);
  };
  const Shape& shape = sum.shape;
  line("file", fmt::format("{} ({}, {})", checkpoint.path.string(), kind_text(checkpoint),
                           bytes_text(double(checkpoint.file_bytes()))));
  if (const auto name = checkpoint.metadata.find_string("general.name")) line("name", replace_invalid_utf8(*name));
  if (!checkpoint.unknown_class.empty())
    line("architecture", checkpoint.unknown_class + " (heddle does not know it: names are those of the files)");
  else if (const auto architecture = checkpoint.metadata.find_string("general.architecture"))
    line("architecture", replace_invalid_utf8(*architecture));
  line("parameters", fmt::format("{} in {} tensors", count_text(double(sum.parameters)), checkpoint.tensors.size()));
  if (shape.layers) line("layers", fmt::format("{}, width {}, {} heads", shape.layers, shape.width, shape.heads));
  if (shape.vocabulary) line("vocabulary", fmt::format("{} tokens", shape.vocabulary));
  if (shape.context) line("context", fmt::format("{} tokens", shape.context));
  const std::string chat = checkpoint.chat_template();
  line("chat template", chat.empty() ? "none" : fmt::format("{} bytes", chat.size()));
  line("memory",
       fmt::format("{} weights", bytes_text(double(sum.weight_bytes))) +
           (sum.kv_bytes == 0 ? ""
                              : fmt::format(" + {} KV cache of {} tokens in f16 = {}", bytes_text(double(sum.kv_bytes)),
                                            sum.context, bytes_text(double(sum.weight_bytes + sum.kv_bytes)))));
  fmt::print(out, "\ntensors by type\n");
  for (const auto& [type, of] : sum.types)
    fmt::print(out, "  {:<8} {:>6} tensors {:>10} values {:>11}\n", type, of.tensors, count_text(double(of.parameters)),
               bytes_text(double(of.bytes)));
  fmt::print(out, "\nmetadata\n");
  for (const auto& [key, value] : checkpoint.metadata.all())
    fmt::print(out, "  {} = {}\n", key, formats::to_string(value, options.full ? ~size_t(0) : 72));
  if (options.tensors) print_tensors(checkpoint, out);
}

OrderedJson value_json(const formats::Value& value, bool full) {
  return std::visit(
      [full](const auto& v) -> OrderedJson {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return replace_invalid_utf8(v);
        } else if constexpr (std::is_same_v<T, formats::Array>) {
          if (!full && v.size() > 64) return {{"array_of", formats::name(v.type())}, {"count", v.size()}};
          OrderedJson list = OrderedJson::array();
          if (v.type() == formats::ValueType::string)
            for (std::string_view text : v.strings()) list.push_back(replace_invalid_utf8(text));
          else if (v.type() == formats::ValueType::f32 || v.type() == formats::ValueType::f64)
            for (double number : v.numbers()) list.push_back(number);
          else
            for (int64_t number : v.integers()) list.push_back(number);
          return list;
        } else {
          return v;
        }
      },
      value);
}

void print_json(const Checkpoint& checkpoint, const Summary& sum, const InspectOptions& options, std::ostream& out) {
  OrderedJson json;
  json["path"] = checkpoint.path.string();
  json["format"] = checkpoint.kind == Checkpoint::Kind::gguf ? "gguf" : "safetensors";
  json["files"] = checkpoint.files.size();
  json["file_bytes"] = checkpoint.file_bytes();
  const auto architecture = checkpoint.metadata.find_string("general.architecture");
  json["architecture"] = architecture && checkpoint.unknown_class.empty() ? OrderedJson(*architecture) : OrderedJson();
  if (!checkpoint.unknown_class.empty()) json["unknown_class"] = checkpoint.unknown_class;
  json["parameters"] = sum.parameters;
  json["context_length"] = sum.shape.context;
  json["layers"] = sum.shape.layers;
  json["vocabulary"] = sum.shape.vocabulary;
  json["has_chat_template"] = !checkpoint.chat_template().empty();
  json["memory"] = {{"weights_bytes", sum.weight_bytes},
                    {"kv_bytes", sum.kv_bytes},
                    {"kv_tokens", sum.context},
                    {"kv_bytes_per_token", sum.shape.kv_values * 2},
                    {"total_bytes", sum.weight_bytes + sum.kv_bytes}};
  for (const auto& [type, of] : sum.types)
    json["types"][type] = {{"tensors", of.tensors}, {"parameters", of.parameters}, {"bytes", of.bytes}};
  json["metadata"] = OrderedJson::object();
  for (const auto& [key, value] : checkpoint.metadata.all()) json["metadata"][key] = value_json(value, options.full);
  json["tensors"] = OrderedJson::array();
  for (const Tensor& tensor : checkpoint.tensors)
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", upper(quant::name(tensor.format))},
                               {"shape", tensor.shape},
                               {"bytes", tensor.bytes()}});
  out << json.dump(2) << '\n';
}

}  // namespace

void inspect(const InspectOptions& options, std::ostream& out) {
  const Checkpoint checkpoint = open_model(options.path);
  const Summary sum = summary_of(checkpoint, options);
  (options.json ? print_json : print_text)(checkpoint, sum, options, out);
}

}  // namespace heddle
