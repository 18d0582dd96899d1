// The times of a completion as llama.cpp's server tells them.
#pragma once
#include <string>

#include "server/api/generation.h"

namespace heddle::server {

// {"cache_n":...,"prompt_n":...,"prompt_ms":...,...,"predicted_n":...,"predicted_ms":...}. `prompt`: its tokens.
std::string timings_json(uint64_t prompt, const CompletionCost& cost);

}  // namespace heddle::server
