// How the next token is chosen, as the user says it: on the command line of run and chat, and with /set.
#pragma once
#include <string>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/dry_breakers.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace heddle {

struct SamplingOptions {
  // what people expect of a chat; the chain itself does nothing by default
  engine::Sampling chain{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  std::vector<std::string> biases;  // ID=VALUE
  std::vector<std::string> breakers =
      text::default_dry_breakers();  // texts that DRY does not reach across; "none": none
  std::vector<std::string> stops;    // texts that end an answer
};
void describe_sampling(CLI::App& command, SamplingOptions& options);

// The chain with what is said in words: biases and breakers. Throws an Error if something cannot be done.
engine::Sampling sampling_of(const SamplingOptions& options, const text::Tokenizer& tokenizer, uint32_t vocabulary);

}  // namespace heddle
