// The weights of a model as the device has them: which matrices are joined into one, in which order their rows lie, and
// where they are. Described first, so that memory can be planned; uploaded after.
#pragma once
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "cuda/memory.h"
#include "gpu/gpu.h"
#include "kernels/product/tile.h"
#include "model/backend.h"

namespace heddle::gpu {

class Library;

// The device memory that a buffer takes: large ones are rounded up to whole pages.
constexpr uint64_t allocated(uint64_t bytes) {
  const uint64_t page = bytes >= 1 << 20 ? 2 << 20 : 512;
  return (bytes + page - 1) / page * page;
}

// A matrix of the file that fills rows of a packed one: packed row p is row rows[p] of `from`, or is filled by another
// source (skip). Empty: all rows, in order.
struct Source {
  static constexpr uint32_t skip = 0xfffffffe;
  model::Matrix from;
  std::vector<uint32_t> rows;
};

// One matrix, or as many of one shape as a mixture has experts.
struct Weights {
  kernels::TileShape shape{};
  uint32_t count = 1;
  std::vector<Source> sources;   // those of an expert follow each other
  std::vector<uint32_t> places;  // of the packed rows in the result; empty: as they are
  uint32_t first_place = 0;      // where the result begins among those of its neighbours
  std::vector<float> bias;       // in the order of the result, of one expert after the other; empty: absent

  cuda::Buffer tiles;
  cuda::Buffer packed_bias;  // in the order of the tiles
  uint64_t tied = 0;         // address of tiles that are not its own: of the same matrix, or of a slot; 0: has its own
  bool visiting = false;     // is brought to a slot when it is needed, and stays in the file: see visitors.h

  explicit operator bool() const { return shape.rows != 0; }
  uint64_t bytes() const { return shape.bytes() * count; }
  uint64_t address() const { return tied ? tied : tiles.address(); }
};

struct DeviceNorm {
  model::Norm::Kind kind = model::Norm::Kind::none;
  float epsilon = 0;
  std::vector<float> weight, bias;  // padded to a multiple of 8; bias for layer norms only
  uint32_t size = 0;                // of the weight, without padding

  cuda::Buffer device_weight, device_bias;
  explicit operator bool() const { return kind != model::Norm::Kind::none; }
};

// What latent attention has beside q and the output: see kernels/attention/latent_attention.h.
struct DeviceLatent {
  DeviceNorm q_norm, kv_norm;
  Weights q_up;             // where the queries go down first; else q is in DeviceAttention::qkv
  cuda::Buffer k_up, v_up;  // (heads, rank, plain) and (heads, value, rank) f16
};

// A learned augmented residual: see model::Laurel.
struct DeviceLaurel {
  Weights down, up;
  DeviceNorm norm;
};

// The weights of a sublayer on the device, beside the model's description of it.
struct DeviceAttention {
  const model::Attention* model = nullptr;
  uint32_t cache = 0;  // its number, as model::kv_cache_numbers() has it
  DeviceNorm norm, q_norm, k_norm, v_norm, output_norm, residual_norm;
  bool joined_qkv = false;   // one product, which rotates and writes the cache; otherwise a kernel after it does
  bool stacked_qkv = false;  // one product, which stores them
  // Joined or stacked: one, or two where v has another format; else q, k, v. Without k and v where another attention
  // fills the cache, without v where that is k.
  std::vector<Weights> qkv;
  uint32_t rotary = 0;
  cuda::Buffer turns;
  // Of attentions that rotate long texts otherwise: what `turns` is filled with before a batch of short or long texts.
  cuda::Buffer short_turns, long_turns;
  std::optional<DeviceLatent> latent;  // qkv is (q or q_down, kv_down): one matrix, stacked, or two
  cuda::Buffer sinks, slopes;          // as the model has them
  Weights gate;                        // of the output; absent: there is none
  std::optional<DeviceLaurel> laurel;
  Weights output;
};
struct DeviceFeedForward {
  const model::FeedForward* model = nullptr;
  DeviceNorm norm, output_norm, residual_norm;
  bool joined_gate = false;  // gate and up are one matrix
  std::vector<Weights> in;   // joined: one; else up, and gate if there is one; with a token's inputs the gate alone
  Weights down;

  // Whether one product computes what `down` reads.
  bool at_once() const { return in.size() == 1 && !model->token_input; }
};
struct DeviceMixture {
  const model::Mixture* model = nullptr;
  DeviceNorm norm, output_norm, residual_norm;
  DeviceNorm router_norm, experts_norm;
  cuda::Buffer choice_bias, expert_scales;  // Routing::bias and scales
  Weights latent_down, latent_up;           // absent: experts read and write rows of the model's width
  Weights router;                           // its last row is that of the shared expert, where shared_gated
  bool joined_experts = false;
  std::vector<Weights> in;  // as in DeviceFeedForward, of all experts
  Weights down;
  std::optional<DeviceFeedForward> shared;
  bool shared_gated = false;  // the shared expert is weighted by a sigmoid

  // The norm of what the shared expert reads.
  const DeviceNorm& shared_norm() const { return shared->norm ? shared->norm : norm; }
  // Whether the sum over the experts has to be complete before the shared expert's result is added to it.
  bool sums_apart() const { return experts_norm || (shared && shared->output_norm); }
  // Whether the result is more than added to the residual stream, so that it is stored first.
  bool has_ending() const { return output_norm || model->partial; }
  // Whether other ranks have some of the experts that the router picks from.
  bool has_part_of_experts() const { return down.count != model->router.rows; }
  // What one expert may expect of a batch.
  uint32_t rows_of_expert(uint32_t rows) const {
    const auto experts = uint32_t(model->router.rows);
    return (rows * model->routing.used + experts - 1) / experts;
  }
};
struct DeviceConvolution {
  cuda::Buffer weight, bias;  // as the model has them
};
// What the matrices `in` leave of a row lies behind each other: mixed, gate, steps, betas. Neighbours of one format are
// one matrix.
struct DeviceRecurrence {
  const model::Recurrence* model = nullptr;
  uint32_t state = 0;  // its number among those of the model
  DeviceNorm norm, output_norm, residual_norm;
  std::vector<Weights> in;
  DeviceConvolution convolution;
  cuda::Buffer step_bias, rates, skip, gated_norm;  // as the model has them
  Weights output;
};
struct DeviceShortConvolution {
  const model::ShortConvolution* model = nullptr;
  uint32_t state = 0;
  DeviceNorm norm, output_norm, residual_norm;
  Weights in;
  DeviceConvolution convolution;
  Weights output;
};
struct DeviceAltup {
  const model::Altup* model = nullptr;
  DeviceNorm norm, output_norm, residual_norm;  // the last two: none
  std::vector<Weights> projections;
  cuda::Buffer router, coefficients;  // as the model has them
};
// Its join as two matrices, of the token's columns and of the other ones, so that each product ends a norm.
struct DeviceNextHead {
  const model::NextHead* model = nullptr;
  uint32_t state = 0;
  DeviceNorm norm, output_norm, residual_norm;  // of its result; the others are none
  DeviceNorm token_norm, hidden_norm;
  Weights token, hidden;
  cuda::Buffer shift;  // (width, 2): the weights of a convolution that gives the input before
};
using DeviceSublayer = std::variant<DeviceAttention, DeviceFeedForward, DeviceMixture, DeviceRecurrence,
                                    DeviceShortConvolution, DeviceAltup, DeviceNextHead>;

struct DeviceLayer {
  std::vector<DeviceSublayer> sublayers;

  std::vector<Weights*> all();
  std::vector<DeviceNorm*> norms();
  template <class Kind>
  Kind* find() {
    for (DeviceSublayer& sublayer : sublayers)
      if (Kind* found = std::get_if<Kind>(&sublayer)) return found;
    return nullptr;
  }
};

// model::TokenInputs on the device, with its scale folded into the norm's weights.
struct DeviceTokenInputs {
  Weights embedding, projection;
  DeviceNorm norm;
};

struct DeviceModel {
  Weights embedding, positions, token_types, output;  // a part of a model may have none of them
  std::optional<DeviceTokenInputs> token_inputs;
  DeviceNorm embedding_norm, norm;
  std::vector<DeviceLayer> layers;
  std::vector<std::vector<float>> owned;     // matrices that are not in the file, until they are uploaded
  std::vector<std::vector<uint8_t>> halves;  // the same, of columns as they lie in the file

  const DeviceNextHead* next_head() const {  // null: there is none
    return layers.empty() ? nullptr : std::get_if<DeviceNextHead>(&layers.back().sublayers.front());
  }

  std::vector<Weights*> all();
  bool is_tied() const;       // the output is the embedding; until they are uploaded
  uint64_t bytes();           // of weights on the device
  uint64_t largest_source();  // bytes; the upload has a buffer of this size on the device
};
// What would be uploaded. `visiting`: sublayers, feed-forwards or mixtures, that are not. Throws an Error that names
// what the device cannot do. The model must outlive it.
DeviceModel describe_weights(const model::Model& model, const std::vector<VisitingSublayer>& visiting = {});

using UploadProgress = std::function<void(uint64_t done, uint64_t all)>;  // bytes
// Allocates the buffers and fills them. The sources are gone afterwards.
void upload(DeviceModel& model, Library& library, cuda::Stream& stream, const UploadProgress& progress);

}  // namespace heddle::gpu
