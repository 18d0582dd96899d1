// What a step must read and multiply, and how fast memory could give it: the measure of heddle bench.
#pragma once
#include "main/device/running_model.h"

namespace heddle {

// Of `rows` tokens at a time.
struct StepCost {
  double bytes = 0;     // of weights, as they lie on the device
  double products = 0;  // of one row
};
StepCost step_cost(const RunningModel& running, uint32_t rows);

// Bytes of keys and values that a row at `position` reads.
double cache_bytes(const RunningModel& running, double position);

// Bytes per second that memory gives: the GPU's, or as so many threads of the CPU can read them. Measured.
double memory_limit(const RunningModel& running, uint32_t threads);

}  // namespace heddle
