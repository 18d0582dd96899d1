// How positions rotate queries and keys: config.json says it in two spellings (rope_theta with rope_scaling, and
// rope_parameters), GGUF in keys and, for some kinds, a tensor of factors.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

// proportional: of the pairs of the whole head, the first ones are rotated.
enum class RopeType : uint8_t { usual, linear, dynamic, yarn, llama3, longrope, proportional };

struct Rope {
  RopeType type = RopeType::usual;
  double theta = 10000;
  double partial = 1;  // the share of a head that is rotated: above 0, at most 1
  std::optional<double> factor;
  std::optional<double> attention_factor;           // of cos and sin, where it is not the usual
  std::optional<double> beta_fast, beta_slow;       // yarn
  bool truncate = true;                             // yarn: the ends of its ramp are whole numbers
  double low_frequency = 1, high_frequency = 4;     // llama3
  std::vector<double> long_factors, short_factors;  // longrope
  uint64_t original_context = 0;
  std::optional<double> log_multiplier;     // mscale_all_dim, where the class names it in GGUF
  double temperature = 0;                   // of the scores, by position: llama_4_scaling_beta
  std::optional<double> latent_multiplier;  // yarn: mscale_all_dim, by which latent attention scales its scores
};

struct RopeDefaults {
  double theta = 10000, partial = 1;
  bool may_be_partial = false;  // otherwise `partial` must be 1
  bool ministral = false;       // it has a log multiplier and a temperature
  bool latent = false;          // of latent attention
  std::vector<RopeType> types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn,
                                 RopeType::llama3};  // those allowed
};

// A base of rotation: above 0.
double rope_base(Config& config, std::string_view key, double fallback);
Rope read_rope(Config& config, const Sizes& sizes, const RopeDefaults& defaults);
// One object of rope_parameters; `theta` is for one that names none.
Rope read_rope_object(Config config, const Sizes& sizes, const RopeDefaults& defaults, double theta);

// How many values of a head are rotated: `partial` of it. An Error where that is not an even number from 2 on.
uint64_t rotated_dimensions(const Config& config, const Rope& rope, const Sizes& sizes);

// freq_base, scaling.*, and the tensors of factors; `dimensions` values of each head are rotated.
void put_rope(Description& to, const Rope& rope, uint64_t dimensions);

}  // namespace heddle::formats::hf
