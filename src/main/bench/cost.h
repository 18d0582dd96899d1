// What a step must read, and how fast that can be read: the measure of heddle bench.
#pragma once
#include "main/device/running_model.h"

namespace heddle {

// Bytes of weights, as they lie on the device, that a step of `rows` tokens reads.
double step_bytes(const RunningModel& running, uint32_t rows);

// Bytes of keys and values that a row at `position` reads.
double cache_bytes(const RunningModel& running, double position);

// Bytes per second at which as many bytes as the weights of a step can be read over and over, measured: from a CPU's
// caches where they fit into these, by so many threads; from the memory of a GPU. 0: they fit into a GPU's cache.
double read_bandwidth(const RunningModel& running, uint32_t threads);

}  // namespace heddle
