// Sampling options as the user gives them: on the command line of run and chat, and with /set.
#pragma once
#include <string>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace heddle {

struct SamplingOptions {
  // defaults that suit a chat; the chain's own defaults change nothing
  engine::Sampling chain{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  std::vector<std::string> biases;                                   // ID=VALUE
  std::vector<std::string> breakers = text::default_dry_breakers();  // DRY sequence breakers; {"none"}: no breakers
  std::vector<std::string> stops;                                    // stop strings
};
void describe_sampling(CLI::App& command, SamplingOptions& options);

// The chain with biases and breakers as token ids. Throws an Error that names an option that is not valid.
engine::Sampling sampling_of(const SamplingOptions& options, const text::Tokenizer& tokenizer, uint32_t vocabulary);

}  // namespace heddle
