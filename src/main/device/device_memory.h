// What a model takes on a device, and what would fit there.
#pragma once
#include "cuda/device.h"
#include "main/device/device_options.h"
#include "model/backend.h"

namespace heddle {

// What the backend that `options` ask for would take; with `gpu`, on that GPU.
model::Memory memory_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits,
                         const cuda::DeviceInfo* gpu = nullptr);
// Of a sequence with so much context, or of the cache that `options` ask for if that is smaller.
model::Limits limits_for(const DeviceOptions& options, uint32_t context, uint32_t rows);
// The largest context up to `most`, a multiple of 32 or `most` itself, that takes no more than `available` bytes; 0 if
// none does.
uint32_t largest_context(const model::Model& model, const DeviceOptions& options, uint32_t most, uint32_t rows,
                         uint64_t available, const cuda::DeviceInfo* gpu = nullptr);

double parameters(const model::Model& model);  // weights of all matrices, of those that are there twice once

// Of a GPU's free memory, what a model may take: code, graphs and others need some, too.
uint64_t usable_memory(uint64_t free);

// How a model and the memory of a device go together.
struct Fit {
  uint32_t context = 0;  // to run with; 0: it does not fit
  uint32_t largest = 0;  // context that would fit; 0: none would
  model::Memory needed;  // for all of the model's context
  uint64_t available = 0;
  model::Limits limits;  // with `context`, and with as much of the cache that was asked for as fits
};
// A context that was asked for is not cut. `available` 0: not known, so that all fits. With DeviceOptions::many the
// cache is a GPU's memory up to 256 contexts; on the CPU 8 contexts, but no more than a quarter of what is available.
Fit fit(const model::Model& model, const DeviceOptions& options, uint32_t rows, uint64_t available,
        const cuda::DeviceInfo* gpu = nullptr);

// What is missing and what would fit, in one line. `where`: " on cuda:0 NVIDIA H200", or nothing for the CPU.
std::string does_not_fit(const model::Model& model, const Fit& fit, const std::string& where);
// The largest of the usual GGUF types whose weights would be smaller and would fit, by their bits per weight; empty:
// none.
std::string fitting_type(const model::Model& model, const Fit& fit);

}  // namespace heddle
