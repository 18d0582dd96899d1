// Missing values mean what they mean to transformers; what is written is what llama.cpp reads.
#include "formats/hf/rope.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace heddle::formats::hf {
namespace {

constexpr struct {
  RopeType type;
  std::string_view name;
} type_names[] = {{RopeType::usual, "default"},
                  {RopeType::linear, "linear"},
                  {RopeType::dynamic, "dynamic"},
                  {RopeType::yarn, "yarn"},
                  {RopeType::llama3, "llama3"},
                  {RopeType::longrope, "longrope"},
                  {RopeType::longrope, "su"},  // its first name
                  {RopeType::proportional, "proportional"}};

RopeType read_rope_type(Config& config, const std::vector<RopeType>& allowed) {
  const std::string name = config.string("rope_type", config.string("type", "default"));
  std::vector<std::string_view> names;
  for (const auto& entry : type_names) {
    if (std::find(allowed.begin(), allowed.end(), entry.type) == allowed.end()) continue;
    if (entry.name == name) return entry.type;
    names.push_back(entry.name);
  }
  config.refuse(config.find("rope_type") ? "rope_type" : "type", fmt::format("one of {}", fmt::join(names, ", ")));
}

std::optional<double> optional_number(Config& config, std::string_view key) {
  if (!config.find(key)) return std::nullopt;
  return config.number(key, 0);
}

double partial_of(Config& config, std::string_view key, double fallback, bool may_be_partial) {
  const double partial = config.number(key, fallback);
  if (!may_be_partial && partial != 1) config.refuse(key, "1: this class rotates whole heads");
  if (!(partial > 0 && partial <= 1)) config.refuse(key, "a number above 0, at most 1");
  return partial;
}

double yarn_attention(double factor, double scale = 1) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

// Llama 3.1: long wavelengths are stretched by `factor`, short ones not at all, those between by less.
std::vector<float> llama3_factors(const Rope& rope, uint64_t dimensions) {
  const double context = static_cast<double>(rope.original_context), factor = rope.factor.value_or(8);
  std::vector<float> factors;
  for (uint64_t i = 0; i < dimensions; i += 2) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(dimensions));
    if (wavelength < context / rope.high_frequency)
      factors.push_back(1);
    else if (wavelength > context / rope.low_frequency || rope.high_frequency == rope.low_frequency)
      factors.push_back(static_cast<float>(factor));
    else {
      const double smooth = (context / wavelength - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
      factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return factors;
}

}  // namespace

double rope_base(Config& config, std::string_view key, double fallback) {
  const double base = config.number(key, fallback);
  if (!(static_cast<float>(base) > 0)) config.refuse(key, "a number above 0");
  return base;
}

Rope read_rope_object(Config config, const Sizes& sizes, const RopeDefaults& defaults, double theta) {
  Rope rope;
  rope.type = read_rope_type(config, defaults.types);
  rope.theta = rope_base(config, "rope_theta", theta);
  rope.partial = partial_of(config, "partial_rotary_factor", defaults.partial, defaults.may_be_partial);
  rope.original_context = config.integer("original_max_position_embeddings", sizes.context);
  rope.factor = optional_number(config, "factor");
  if (rope.factor && !(*rope.factor >= 1)) config.refuse("factor", "a number from 1 on");
  const double stretch = static_cast<double>(sizes.context) / static_cast<double>(rope.original_context);

  if (rope.type == RopeType::linear && !rope.factor) config.refuse("factor", "a number");
  if (rope.type == RopeType::yarn) {
    if (!rope.factor) rope.factor = stretch;
    rope.beta_fast = optional_number(config, "beta_fast");
    rope.beta_slow = optional_number(config, "beta_slow");
    const auto scale = optional_number(config, "mscale"), all = optional_number(config, "mscale_all_dim");
    rope.attention_factor = optional_number(config, "attention_factor");
    if (!rope.attention_factor && scale && all && *scale != 0 && *all != 0)
      rope.attention_factor = yarn_attention(*rope.factor, *scale) / yarn_attention(*rope.factor, *all);
    rope.truncate = config.boolean("truncate", true);
    if (defaults.ministral && all && *all != 0) rope.log_multiplier = *all;
    if (defaults.latent && all && *all != 0) rope.latent_multiplier = *all;
  }
  if (rope.type == RopeType::llama3) {
    if (!rope.factor) config.refuse("factor", "a number");
    rope.low_frequency = config.number("low_freq_factor", 1);
    rope.high_frequency = config.number("high_freq_factor", 4);
    if (!(rope.high_frequency >= rope.low_frequency && rope.low_frequency > 0))
      config.refuse("high_freq_factor", "low_freq_factor or more");
  }
  if (rope.type == RopeType::longrope) {
    rope.long_factors = config.numbers("long_factor");
    rope.short_factors = config.numbers("short_factor");
    if (rope.long_factors.empty()) config.refuse("long_factor", "a list of numbers");
    if (rope.short_factors.size() != rope.long_factors.size())
      config.refuse("short_factor", fmt::format("{} numbers, as many as long_factor", rope.long_factors.size()));
    const double factor = rope.factor.value_or(stretch);
    if (factor > 1 && rope.original_context < 2) config.refuse("original_max_position_embeddings", "2 or more");
    rope.attention_factor = config.number(
        "attention_factor",
        factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(rope.original_context))));
  }
  if (defaults.ministral) rope.temperature = config.number("llama_4_scaling_beta", 0);
  config.ignore({"finetuned", "max_position_embeddings", "mrope_section", "mrope_interleaved"});
  config.finish();
  return rope;
}

Rope read_rope(Config& config, const Sizes& sizes, const RopeDefaults& defaults) {
  RopeDefaults all = defaults;
  const double theta = rope_base(config, "rope_theta", rope_base(config, "rotary_emb_base", defaults.theta));
  const double percent = partial_of(config, "rotary_pct", defaults.partial, defaults.may_be_partial);
  all.partial = partial_of(config, "partial_rotary_factor", percent, defaults.may_be_partial);
  const Json* parameters = config.find("rope_parameters");
  const Json* scaling = config.find("rope_scaling");
  Json object = parameters ? *parameters : scaling ? *scaling : Json::object();
  const std::string name = parameters ? "rope_parameters" : "rope_scaling";
  // Phi 3 has it outside.
  if (const Json* original = config.find("original_max_position_embeddings"))
    if (object.is_object() && !object.contains("original_max_position_embeddings"))
      object["original_max_position_embeddings"] = *original;
  return read_rope_object(Config(object, config.where() + ": " + name, &config), sizes, all, theta);
}

uint64_t rotated_dimensions(const Config& config, const Rope& rope, const Sizes& sizes) {
  const auto dimensions = static_cast<uint64_t>(rope.partial * static_cast<double>(sizes.head_dim));
  if (dimensions < 2 || dimensions % 2)
    throw Error(
        "{}: partial_rotary_factor: expected a share of the head's {} values that is an even number of them, "
        "found {}",
        config.where(), sizes.head_dim, rope.partial);
  return dimensions;
}

void put_rope(Description& to, const Rope& rope, uint64_t dimensions) {
  to.set("rope.freq_base", rope.theta);
  // Dynamic scaling begins where the context that the model has ends.
  if (rope.type == RopeType::linear || rope.type == RopeType::yarn) {
    to.set("rope.scaling.type", Value(std::string(rope.type == RopeType::yarn ? "yarn" : "linear")));
    to.set("rope.scaling.factor", *rope.factor);
  }
  if (rope.type == RopeType::yarn) {
    to.set("rope.scaling.original_context_length", rope.original_context);
    if (rope.beta_fast) to.set("rope.scaling.yarn_beta_fast", *rope.beta_fast);
    if (rope.beta_slow) to.set("rope.scaling.yarn_beta_slow", *rope.beta_slow);
    if (!rope.truncate) to.set("rope.scaling.yarn_truncate", Value(false));  // heddle's own key: llama.cpp truncates
    double usual = yarn_attention(*rope.factor);
    if (rope.log_multiplier) {
      to.set("rope.scaling.yarn_log_multiplier", *rope.log_multiplier);
      usual /= yarn_attention(*rope.factor, *rope.log_multiplier);
    } else if (rope.latent_multiplier) {
      to.set("rope.scaling.yarn_log_multiplier", 0.1 * *rope.latent_multiplier);
      usual = 1;  // the scores are scaled instead
    }
    // The key multiplies the usual value.
    if (rope.attention_factor.value_or(usual) != usual)
      to.set("rope.scaling.attn_factor", *rope.attention_factor / usual);
  }
  if (rope.temperature != 0) to.set("attention.temperature_scale", rope.temperature);
  if (rope.type == RopeType::llama3) to.add("rope_freqs.weight", llama3_factors(rope, dimensions));
  if (rope.type == RopeType::longrope) {
    if (rope.long_factors.size() != dimensions / 2)
      throw Error("rope_scaling: long_factor: expected {} numbers, one per pair of a head, found {}", dimensions / 2,
                  rope.long_factors.size());
    to.set("rope.scaling.type", Value(std::string("longrope")));
    to.set("rope.scaling.original_context_length", rope.original_context);
    to.set("rope.scaling.attn_factor", *rope.attention_factor);
    to.add("rope_factors_long.weight", std::vector<float>(rope.long_factors.begin(), rope.long_factors.end()));
    to.add("rope_factors_short.weight", std::vector<float>(rope.short_factors.begin(), rope.short_factors.end()));
  }
}

}  // namespace heddle::formats::hf
