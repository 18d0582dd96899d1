// The times of a GPU's kernels for those who look: a file that chrome://tracing and ui.perfetto.dev show, and a table.
#pragma once
#include <span>
#include <string>

#include "model/backend.h"

namespace heddle {

std::string trace_json(std::span<const model::KernelTime> times);
// A line per phase, the longest first.
std::string trace_table(std::span<const model::KernelTime> times);

}  // namespace heddle
