// Steps of describe_weights(): matrices as the device has them. Weights point into the model.
#pragma once
#include "gpu/weights.h"

namespace heddle::gpu {

// One matrix as it is. `first_place`: see Weights.
Weights plain(const model::Matrix& matrix, const model::Vector& bias = {}, uint32_t first_place = 0);
// Rows of several matrices of one format: packed row p is row `places[p]` of all of them one below the other.
Weights joined(const std::vector<model::Matrix>& from, const std::vector<uint32_t>& places);
// The bias of `rows` more rows, where any of a matrix has one; an empty one is zeros.
void append_bias(Weights& w, const model::Vector& bias, uint64_t rows, bool any);
// `size`: of the weight, where the model has none.
DeviceNorm norm_of(const model::Norm& from, uint32_t size);

DeviceFeedForward describe(const model::FeedForward& f, DeviceModel& d, uint32_t width);
DeviceMixture describe(const model::Mixture& m, DeviceModel& d, uint32_t width);

}  // namespace heddle::gpu
