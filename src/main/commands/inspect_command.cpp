// heddle inspect: what a model file holds and the memory that running it needs, as text or JSON.
#include "main/commands/inspect_command.h"

#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/checkpoint.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "model/load.h"

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

// What the metadata says of the shape; a key that is absent is 0.
struct Shape {
  uint64_t context = 0, layers = 0, width = 0, heads = 0, vocabulary = 0;
};

Shape shape_of(const Checkpoint& checkpoint) {
  Shape shape;
  const auto architecture = checkpoint.metadata.find_string("general.architecture");
  if (!architecture) return shape;
  const auto integer = [&](std::string_view name) {
    return checkpoint.metadata.find_integer(fmt::format("{}.{}", *architecture, name)).value_or(0);
  };
  shape.context = trained_context(checkpoint);
  shape.layers = integer("block_count");
  shape.width = integer("embedding_length");
  shape.vocabulary = integer("vocab_size");
  if (const Tensor* embedding = checkpoint.find("token_embd.weight"); embedding && shape.vocabulary == 0)
    shape.vocabulary = embedding->rows();
  if (const formats::Array* tokens = checkpoint.metadata.find_array("tokenizer.ggml.tokens");
      tokens && !shape.vocabulary)
    shape.vocabulary = tokens->size();
  const formats::Value* heads = checkpoint.metadata.find(fmt::format("{}.attention.head_count", *architecture));
  const auto* per_layer = heads ? std::get_if<formats::Array>(heads) : nullptr;
  if (!per_layer)
    shape.heads = integer("attention.head_count");
  else if (const std::vector<int64_t> list = per_layer->integers(); !list.empty())
    shape.heads = uint64_t(list[0]);
  return shape;
}

// What running it on the CPU takes, as `heddle plan` counts it.
struct Needs {
  uint32_t context = 0;
  model::Memory memory, without_repacking;
  std::string problem;  // why heddle cannot run it; empty: it can
};

Needs needs_of(const std::string& name, const InspectOptions& options) {
  try {
    const model::Model model = model::load(open_model(name), {.context = options.context});
    const DeviceOptions device{.device = "cpu", .kv = options.kv};
    const DeviceOptions in_file{.device = "cpu", .kv = options.kv, .no_repack = true};
    const model::Limits limits = limits_for(model, device, model.context, cpu_rows(device));
    return {model.context, memory_for(model, device, limits), memory_for(model, in_file, limits), ""};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

struct Summary {
  Shape shape;
  Needs needs;
  uint64_t parameters = 0, tensor_bytes = 0, file_bytes = 0;
  std::map<std::string, TypeSum> types;
};

Summary summary_of(const Checkpoint& checkpoint, const InspectOptions& options) {
  Summary sum;
  sum.shape = shape_of(checkpoint);
  sum.needs = needs_of(options.path, options);
  for (const Tensor& tensor : checkpoint.tensors) {
    TypeSum& type = sum.types[upper(quant::name(tensor.format))];
    ++type.tensors;
    type.parameters += tensor.values();
    type.bytes += tensor.bytes();
    sum.parameters += tensor.values();
    sum.tensor_bytes += tensor.bytes();
  }
  sum.file_bytes = checkpoint.files.empty() ? own_model().size() : checkpoint.file_bytes();
  return sum;
}

std::string kind_text(const Checkpoint& checkpoint) {
  const std::string kind = checkpoint.kind == Checkpoint::Kind::gguf ? "GGUF" : "safetensors";
  if (checkpoint.files.empty()) return kind + " in the program";
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

// Of a model that reads more than text; empty: it does not.
std::string only_text(const Checkpoint& checkpoint) {
  std::string name = checkpoint.text_part_of;
  if (const auto architecture = checkpoint.metadata.find_string("general.architecture");
      name.empty() && architecture && (architecture->ends_with("vl") || architecture->ends_with("vlmoe")))
    name = *architecture;
  return name.empty() ? "" : "not supported: heddle runs the text part of " + replace_invalid_utf8(name);
}

void print_text(const Checkpoint& checkpoint, const Summary& sum, const InspectOptions& options, std::ostream& out) {
  const auto line = [&out](std::string_view name, const std::string& value) {
    fmt::print(out, "{:<14} {}\n", name, value);
  };
  const Shape& shape = sum.shape;
  line("file",
       fmt::format("{} ({}, {})", checkpoint.path.string(), kind_text(checkpoint), bytes_text(double(sum.file_bytes))));
  if (const auto name = checkpoint.metadata.find_string("general.name")) line("name", replace_invalid_utf8(*name));
  if (!checkpoint.unknown_class.empty())
    line("architecture", checkpoint.unknown_class + " (heddle does not know it: names are those of the files)");
  else if (const auto architecture = checkpoint.metadata.find_string("general.architecture"))
    line("architecture", replace_invalid_utf8(*architecture));
  if (!checkpoint.quantization.empty())
    line("quantization", checkpoint.quantization + "; types below are what it is converted to");
  if (const std::string pictures = only_text(checkpoint); !pictures.empty()) line("pictures", pictures);
  line("parameters", fmt::format("{} in {} tensors", count_text(double(sum.parameters)), checkpoint.tensors.size()));
  if (shape.layers) line("layers", fmt::format("{}, width {}, {} heads", shape.layers, shape.width, shape.heads));
  if (shape.vocabulary) line("vocabulary", fmt::format("{} tokens", shape.vocabulary));
  if (shape.context) line("context", fmt::format("{} tokens", shape.context));
  const std::string chat = checkpoint.chat_template();
  line("chat template", chat.empty() ? "none" : fmt::format("{} bytes", chat.size()));
  const model::Memory& memory = sum.needs.memory;
  line("memory",
       sum.needs.problem.empty()
           ? fmt::format(
                 "{} on the CPU: weights {}, KV cache of {} tokens in {} {}, {}workspace {}; with --no-repack {}",
                 bytes_text(double(memory.total())), bytes_text(double(memory.weights)), sum.needs.context,
                 name_of(options.kv), bytes_text(double(memory.kv)),
                 memory.states ? fmt::format("recurrent states {}, ", bytes_text(double(memory.states))) : "",
                 bytes_text(double(memory.workspace)), bytes_text(double(sum.needs.without_repacking.total())))
           : fmt::format("{} of tensors; heddle cannot run it: {}", bytes_text(double(sum.tensor_bytes)),
                         sum.needs.problem));
  for (const std::string& text : checkpoint.warnings) line("warning", text);
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
  json["file_bytes"] = sum.file_bytes;
  const auto architecture = checkpoint.metadata.find_string("general.architecture");
  json["architecture"] = architecture && checkpoint.unknown_class.empty() ? OrderedJson(*architecture) : OrderedJson();
  if (!checkpoint.unknown_class.empty()) json["unknown_class"] = checkpoint.unknown_class;
  if (!checkpoint.quantization.empty()) json["quantization"] = checkpoint.quantization;
  if (!only_text(checkpoint).empty()) json["text_only"] = true;
  if (!checkpoint.warnings.empty()) json["warnings"] = checkpoint.warnings;
  json["parameters"] = sum.parameters;
  json["context_length"] = sum.shape.context;
  json["layers"] = sum.shape.layers;
  json["vocabulary"] = sum.shape.vocabulary;
  json["has_chat_template"] = !checkpoint.chat_template().empty();
  json["tensor_bytes"] = sum.tensor_bytes;
  if (sum.needs.problem.empty())
    json["memory"] = {{"weights_bytes", sum.needs.memory.weights},
                      {"kv_bytes", sum.needs.memory.kv},
                      {"kv_tokens", sum.needs.context},
                      {"kv", name_of(options.kv)},
                      {"states_bytes", sum.needs.memory.states},
                      {"workspace_bytes", sum.needs.memory.workspace},
                      {"needed_bytes", sum.needs.memory.total()},
                      {"needed_bytes_without_repacking", sum.needs.without_repacking.total()}};
  else
    json["problem"] = sum.needs.problem;
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

void describe_inspect(CLI::App& program, std::ostream& out) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = program.add_subcommand("inspect", "Show what a model file holds and the memory it needs");
  describe_model(*command, options->path);
  command->add_option("--ctx", options->context, "Tokens of the KV cache; 0: the context the model was trained for")
      ->type_name("N");
  command
      ->add_option_function<std::string>(
          "--kv", [options](const std::string& name) { options->kv = kv_named(name); }, "KV cache format: f16 or q8")
      ->default_str(name_of(options->kv))
      ->type_name("FORMAT");
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--full", options->full, "Print long values whole");
  describe_json(*command, options->json);
  command->callback([options, &out] { inspect(*options, out); });
}

}  // namespace heddle
