// heddle bench of an encoder: texts and tokens per second of embeddings.
#pragma once
#include <iosfwd>

#include "main/bench/bench_command.h"

namespace heddle {

// Whether `model` does not generate: embeddings are what its speed is measured by.
bool is_encoder(const std::string& model);
void bench_encoder(const BenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle
