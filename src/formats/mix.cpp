// The rules as one table: the first that fits a tensor decides, and where none fits, the main format does.
#include "formats/mix.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/error.h"

namespace heddle::formats {
namespace {

using quant::Format;

struct TypeRow {
  FileType type;
  std::string_view name;
  uint32_t number;
  Format format;
};
constexpr TypeRow type_rows[] = {
    {FileType::f32, "F32", 0, Format::f32},           {FileType::f16, "F16", 1, Format::f16},
    {FileType::bf16, "BF16", 32, Format::bf16},       {FileType::q8_0, "Q8_0", 7, Format::q8_0},
    {FileType::q4_0, "Q4_0", 2, Format::q4_0},        {FileType::q4_1, "Q4_1", 3, Format::q4_1},
    {FileType::q5_0, "Q5_0", 8, Format::q5_0},        {FileType::q5_1, "Q5_1", 9, Format::q5_1},
    {FileType::q2_k, "Q2_K", 10, Format::q2_k},       {FileType::q2_k_s, "Q2_K_S", 21, Format::q2_k},
    {FileType::q3_k_s, "Q3_K_S", 11, Format::q3_k},   {FileType::q3_k_m, "Q3_K_M", 12, Format::q3_k},
    {FileType::q3_k_l, "Q3_K_L", 13, Format::q3_k},   {FileType::q4_k_s, "Q4_K_S", 14, Format::q4_k},
    {FileType::q4_k_m, "Q4_K_M", 15, Format::q4_k},   {FileType::q5_k_s, "Q5_K_S", 16, Format::q5_k},
    {FileType::q5_k_m, "Q5_K_M", 17, Format::q5_k},   {FileType::q6_k, "Q6_K", 18, Format::q6_k},
    {FileType::iq4_nl, "IQ4_NL", 25, Format::iq4_nl}, {FileType::iq4_xs, "IQ4_XS", 30, Format::iq4_xs},
    {FileType::mxfp4, "MXFP4", 38, Format::mxfp4},
};

const TypeRow& row(FileType type) {
  const auto found = std::find_if(std::begin(type_rows), std::end(type_rows), [&](auto& r) { return r.type == type; });
  check(found != std::end(type_rows), "a file type of the table");
  return *found;
}

// What a tensor is for.
enum class Role { output, embedding, values, keys, attention_output, down, other };

Role role_of(std::string_view name, const MixModel& model) {
  const auto has = [&](std::string_view text) { return name.find(text) != name.npos; };
  if (name == "output.weight" || (model.tied && name == "token_embd.weight")) return Role::output;
  if (name == "token_embd.weight") return Role::embedding;
  if (has("attn_v.weight") || has("attn_qkv.weight")) return Role::values;
  if (has("attn_k.weight")) return Role::keys;
  if (has("attn_output.weight")) return Role::attention_output;
  return has("ffn_down") ? Role::down : Role::other;
}

// Where in the model, or in which models.
enum class Where {
  everywhere,
  first_two,  // layers
  first_four,
  first_sixteenth,  // of the layers
  first_eighth,
  more_bits,      // the first eighth, the last eighth, and every third layer between
  shared_values,  // at least 4 heads share one of k and v: attn_v is small
  llama_70b,      // where 8 heads do
  eight_experts,  // attention is small beside the experts
  not_eight_experts,
};

bool applies_at(Where where, const MixModel& model, uint64_t layer) {
  const uint64_t n = model.layers;
  switch (where) {
    case Where::everywhere:
      return true;
    case Where::first_two:
      return layer < 2;
    case Where::first_four:
      return layer < 4;
    case Where::first_sixteenth:
      return layer < n / 16;
    case Where::first_eighth:
      return layer < n / 8;
    case Where::more_bits:
      return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    case Where::shared_values:
      return model.heads / model.kv_heads >= 4;
    case Where::llama_70b:
      return model.llama && n == 80 && model.heads != model.kv_heads;
    case Where::eight_experts:
      return model.experts == 8;
    case Where::not_eight_experts:
      return model.experts != 8;
  }
  return false;
}

using enum FileType;

struct Rule {
  Role role;
  std::initializer_list<FileType> types;  // empty: all quantised ones
  Where where;
  Format format;
};
constexpr Rule rules[] = {
    {Role::output, {q8_0}, Where::everywhere, Format::q8_0},
    {Role::output, {}, Where::everywhere, Format::q6_k},

    {Role::values, {}, Where::eight_experts, Format::q8_0},
    {Role::values, {q4_k_m, q5_k_m}, Where::more_bits, Format::q6_k},
    {Role::values, {q2_k, q2_k_s, q3_k_s, q3_k_m, q4_k_s, q4_k_m}, Where::llama_70b, Format::q5_k},
    {Role::values, {q2_k, q2_k_s}, Where::shared_values, Format::q4_k},
    {Role::values, {q2_k}, Where::everywhere, Format::q3_k},
    {Role::values, {q3_k_m}, Where::first_two, Format::q5_k},
    {Role::values, {q3_k_m}, Where::everywhere, Format::q4_k},
    {Role::values, {q3_k_l}, Where::everywhere, Format::q5_k},
    {Role::values, {iq4_nl, iq4_xs}, Where::shared_values, Format::q5_k},
    {Role::values, {q4_k_s}, Where::first_four, Format::q5_k},

    {Role::keys, {}, Where::eight_experts, Format::q8_0},

    {Role::down, {q2_k}, Where::everywhere, Format::q3_k},
    {Role::down, {q2_k_s}, Where::first_eighth, Format::q4_k},
    {Role::down, {q3_k_m}, Where::first_sixteenth, Format::q5_k},
    {Role::down, {q3_k_m}, Where::everywhere, Format::q4_k},
    {Role::down, {q3_k_l}, Where::everywhere, Format::q5_k},
    {Role::down, {q4_k_m, q5_k_m}, Where::more_bits, Format::q6_k},
    {Role::down, {q4_k_s, iq4_nl, iq4_xs}, Where::first_eighth, Format::q5_k},

    {Role::attention_output,
     {q2_k, q3_k_s, q3_k_m, q4_k_s, q4_k_m, iq4_nl, iq4_xs},
     Where::eight_experts,
     Format::q5_k},
    {Role::attention_output, {q2_k}, Where::everywhere, Format::q3_k},
    {Role::attention_output, {q3_k_m}, Where::everywhere, Format::q4_k},
    {Role::attention_output, {q3_k_l}, Where::not_eight_experts, Format::q5_k},
};

// The next finer format with blocks of 32 for one with blocks of 256.
Format with_small_blocks(Format format) {
  switch (format) {
    case Format::q2_k:
    case Format::q3_k:
      return Format::q4_0;
    case Format::q4_k:
      return Format::q5_0;
    case Format::q5_k:
      return Format::q5_1;
    case Format::q6_k:
      return Format::q8_0;
    case Format::iq4_xs:
      return Format::iq4_nl;
    default:
      return format;
  }
}

uint64_t layer_of(std::string_view name) {
  uint64_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

}  // namespace

std::string_view name(FileType type) { return row(type).name; }
uint32_t gguf_file_type(FileType type) { return row(type).number; }
quant::Format main_format(FileType type) { return row(type).format; }

const std::vector<FileType>& all_file_types() {
  static const std::vector<FileType> all = [] {
    std::vector<FileType> list;
    for (const TypeRow& r : type_rows) list.push_back(r.type);
    return list;
  }();
  return all;
}

FileType file_type_named(std::string_view text) {
  std::string upper(text);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  std::vector<std::string_view> names;
  for (const TypeRow& r : type_rows) {
    if (r.name == upper) return r.type;
    names.push_back(r.name);
  }
  throw Error("there is no file type \"{}\"; there are {}", text, fmt::join(names, ", "));
}

MixModel mix_model(const Metadata& metadata, bool tied) {
  const std::string architecture(metadata.string("general.architecture"));
  // Some models have a number per layer: the first decides.
  const auto number = [&](const char* key, uint64_t fallback) -> uint64_t {
    const std::string full = fmt::format("{}.{}", architecture, key);
    if (const Value* value = metadata.find(full); value && type_of(*value) == ValueType::array) {
      const std::vector<int64_t> all = metadata.array(full).integers();
      return all.empty() || all[0] < 0 ? fallback : static_cast<uint64_t>(all[0]);
    }
    return metadata.find_integer(full).value_or(fallback);
  };
  MixModel model;
  model.layers = number("block_count", 0);
  model.heads = std::max<uint64_t>(number("attention.head_count", 1), 1);
  model.kv_heads = std::max<uint64_t>(number("attention.head_count_kv", model.heads), 1);
  model.experts = number("expert_count", 0);
  model.llama = architecture == "llama";
  model.tied = tied;
  return model;
}

bool stays_f32(std::string_view name, const std::vector<uint64_t>& shape) {
  const auto has = [&](std::string_view text) { return name.find(text) != name.npos; };
  const bool is_vector = std::all_of(shape.begin() + 1, shape.end(), [](uint64_t n) { return n == 1; });
  return is_vector || !name.ends_with("weight") || has("_norm.weight") || has("ffn_gate_inp") || has("position_embd") ||
         has("token_types") || has("ssm_conv1d") || has("shortconv.conv.weight");
}

quant::Format choose_format(FileType type, const MixModel& model, std::string_view name,
                            const std::vector<uint64_t>& shape) {
  if (stays_f32(name, shape)) return Format::f32;
  const Format main = main_format(type);
  if (quant::is_float(main)) return main;

  const Role role = role_of(name, model);
  Format chosen = main;
  // In a mixture of experts MXFP4 is for the experts; a dense model has its matrices in it.
  if (type == mxfp4) {
    const bool is_expert = shape.size() > 2 && shape[2] > 1;
    if (role == Role::output || role == Role::embedding || (model.experts > 0 && !is_expert)) chosen = Format::q8_0;
  } else if (role == Role::output && shape[0] % quant::block_values(main) != 0) {
    chosen = Format::q8_0;
  } else {
    const uint64_t layer = layer_of(name);
    for (const Rule& rule : rules) {
      if (rule.role != role || !applies_at(rule.where, model, layer)) continue;
      if (rule.types.size() && std::find(rule.types.begin(), rule.types.end(), type) == rule.types.end()) continue;
      chosen = rule.format;
      break;
    }
  }
  if (shape[0] % quant::block_values(chosen)) chosen = with_small_blocks(chosen);
  if (shape[0] % quant::block_values(chosen)) chosen = Format::f16;
  return chosen;
}

}  // namespace heddle::formats
