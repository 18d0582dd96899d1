// A model on two backends, a device and the host: each computes the sublayers that are placed there, and the residual
// stream crosses from one to the other where the place changes.
#pragma once
#include <functional>
#include <string_view>

#include "model/backend.h"

namespace heddle::model {

enum class Place : uint8_t {
  device,
  host,
  visiting,  // on the host; the weights are brought to the device for batches of many rows
};

// Where the sublayers and the head of a model are computed. The embedding is the host's: it reads a row of it for each
// token, and the device keeps the room.
struct Placement {
  std::vector<std::vector<Place>> sublayers;  // by layer. Those of a parallel layer have one place.
  Place head = Place::host;                   // device or host: final norm and logits

  // The first `layers` layers on the device, all others and the head on the host.
  static Placement first_layers(const Model& model, uint32_t layers);
};

// What of a model is computed in a place, device or host: its layers with the sublayers that run there, which may be
// none. Visiting sublayers are in both parts. The matrices are those of `model`, which must outlive the part.
Model part_of(const Model& model, const Placement& placement, Place place);

// A sublayer of a part.
struct SublayerOfPart {
  uint32_t layer, sublayer;
};
// The visiting sublayers in the device's part.
std::vector<SublayerOfPart> visitors(const Model& model, const Placement& placement);

// What every part of a model has, however it is divided: names, sizes and scales, and the final norm. No weights.
Model frame_of(const Model& model);

// Why a layer needs more of those before it than the residual stream; empty: it does not.
std::string_view reads_beside_residual(const Layer& layer);

using MakeBackend = std::function<std::unique_ptr<Backend>(const Model& part)>;
struct SplitOptions {
  // Batches of this many rows or more bring the weights of visiting sublayers to the device. 0: the number from which
  // that is faster, measured with the first of them.
  uint32_t visit_rows = 0;
  uint32_t max_rows = 512;  // of a batch
};
// The model must outlive it. The KV blocks of an attention, and recurrent states, are where they are computed, under
// the same numbers in both places. Tokens are picked on the device where the head is, and no batch follows another.
std::unique_ptr<Backend> make_split(const Model& model, const Placement& placement, const MakeBackend& device,
                                    const MakeBackend& host, const SplitOptions& options = {});

}  // namespace heddle::model
