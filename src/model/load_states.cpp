// The keys and tensors are named as llama.cpp's converter names them. Of the gated delta net, files keep heads in one
// of two orders: beside those that share their key, or a round of all keys after the other.
#include "model/load_states.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace heddle::model {
namespace {

// Larger than any model has.
constexpr uint32_t max_state_heads = 4096, max_state = 1 << 16, max_convolution = 64;
constexpr uint64_t max_head_state = 1 << 24;

// The rows of one part of each group of rows, for groups that follow one another: `size` rows from `first` on.
void append_rows(std::vector<uint64_t>& to, uint64_t groups, uint64_t group, uint64_t first, uint64_t size) {
  for (uint64_t g = 0; g < groups; ++g)
    for (uint64_t i = 0; i < size; ++i) to.push_back(g * group + first + i);
}
std::vector<uint64_t> rows_of(uint64_t groups, uint64_t group, uint64_t first, uint64_t size) {
  std::vector<uint64_t> rows;
  append_rows(rows, groups, group, first, size);
  return rows;
}

}  // namespace

void StateReader::read_options(Reader& read, const Architecture& architecture) {
  kind_ = architecture.states;
  if (kind_ == States::none) return;
  // Which layers have a state is seen by their tensors.
  read.ignore({"full_attention_interval", "attention.recurrent_layers"});
  if (kind_ == States::convolution) {
    convolution_width_ = read.integer("shortconv.l_cache", {1, max_convolution});
    return;
  }
  convolution_width_ = read.integer("ssm.conv_kernel", {1, max_convolution});
  sizes_.rule = kind_ == States::delta ? Recurrence::Rule::delta : Recurrence::Rule::ssd;
  sizes_.tiled = architecture.tiled_heads;
  read_heads(read);
  sizes_.min_step = static_cast<float>(read.number_from_0("ssm.time_step_min", 0));
  sizes_.max_step = static_cast<float>(read.number_from_0("ssm.time_step_max", INFINITY));
  if (sizes_.max_step < sizes_.min_step) read.refuse("ssm.time_step_max", fmt::format("at least {}", sizes_.min_step));
  // The delta net's norm comes first in any case.
  sizes_.gate_first = kind_ == States::ssd && !read.boolean("ssm.norm_before_gate", false);
}

void StateReader::read_heads(Reader& read) {
  sizes_.heads = read.integer("ssm.time_step_rank", {1, max_state_heads});
  sizes_.key_heads = read.integer("ssm.group_count", {1, sizes_.heads});
  sizes_.key = read.integer("ssm.state_size", {1, max_state});
  const uint32_t inner = read.integer("ssm.inner_size", {1, max_row});
  if (inner % sizes_.heads) read.refuse("ssm.inner_size", fmt::format("a multiple of the {} heads", sizes_.heads));
  if (sizes_.heads % sizes_.key_heads)
    read.refuse("ssm.group_count", fmt::format("a divisor of the {} heads", sizes_.heads));
  sizes_.value = inner / sizes_.heads;
  if (sizes_.values() + 2 * sizes_.keys() > max_row)
    read.refuse("ssm.group_count", fmt::format("at most {} values in all keys, queries and values", max_row));
  if (uint64_t(sizes_.key) * sizes_.value > max_head_state)
    read.refuse("ssm.state_size", fmt::format("at most {} values in the state of a head", max_head_state));
}

bool StateReader::has(const Reader& read, const std::string& blk) const {
  return kind_ != States::none &&
         read.has(blk + (kind_ == States::convolution ? "shortconv.conv.weight" : "ssm_conv1d.weight"));
}

Convolution StateReader::convolution(Reader& read, const std::string& name, uint64_t channels) const {
  return {convolution_width_, decoded(read.matrix(name + ".weight", channels, convolution_width_)),
          read.vector_if(name + ".bias", channels)};
}

Sublayer StateReader::read(Reader& read, const std::string& blk, uint32_t width,
                           const std::function<Norm(const std::string&, uint64_t)>& norm) const {
  if (kind_ == States::convolution) {
    ShortConvolution to;
    to.norm = norm(blk + "attn_norm", width);
    to.in = read.matrix(blk + "shortconv.in_proj.weight", 3 * uint64_t(width), width);
    to.convolution = convolution(read, blk + "shortconv.conv", width);
    to.output = read.matrix(blk + "shortconv.out_proj.weight", width, width);
    return to;
  }
  Recurrence to = sizes_;
  to.norm = norm(blk + "attn_norm", width);
  to.convolution = convolution(read, blk + "ssm_conv1d", to.values() + 2 * to.keys());
  to.step_bias = read.vector(blk + "ssm_dt.bias", to.heads);
  to.rates = read.vector(blk + "ssm_a", to.heads);
  if (kind_ == States::delta)
    read_delta(read, blk, width, to);
  else
    read_ssd(read, blk, width, to);
  to.gated_norm.epsilon = to.norm.epsilon;
  to.output = read.matrix(blk + "ssm_out.weight", width, to.values());
  return to;
}

void StateReader::read_delta(Reader& read, const std::string& blk, uint64_t width, Recurrence& to) const {
  const uint64_t values = to.values(), keys = to.keys(), share = to.heads / to.key_heads;
  if (read.has(blk + "ssm_in.weight")) {
    // of older files: the query, key, values and gates of each key head
    const uint64_t of_key = share * to.value, group = 2 * (to.key + of_key), rows = group * to.key_heads;
    std::vector<uint64_t> mixed = rows_of(to.key_heads, group, 0, to.key);
    append_rows(mixed, to.key_heads, group, to.key, to.key);
    append_rows(mixed, to.key_heads, group, 2 * uint64_t(to.key), of_key);
    to.mixed = read.gathered(blk + "ssm_in.weight", rows, width, mixed);
    to.gate = read.gathered(blk + "ssm_in.weight", rows, width,
                            rows_of(to.key_heads, group, 2 * uint64_t(to.key) + of_key, of_key));
  } else {
    to.mixed = read.matrix(blk + "attn_qkv.weight", values + 2 * keys, width);
    to.gate = read.matrix(blk + "attn_gate.weight", values, width);
  }
  if (read.has(blk + "ssm_ba.weight")) {
    // of each key head, the betas of its heads and then their steps
    const uint64_t rows = 2 * uint64_t(to.heads);
    to.betas = read.gathered(blk + "ssm_ba.weight", rows, width, rows_of(to.key_heads, 2 * share, 0, share));
    to.steps = read.gathered(blk + "ssm_ba.weight", rows, width, rows_of(to.key_heads, 2 * share, share, share));
  } else {
    to.betas = read.matrix(blk + "ssm_beta.weight", to.heads, width);
    to.steps = read.matrix(blk + "ssm_alpha.weight", to.heads, width);
  }
  const Vector of_head = read.vector(blk + "ssm_norm.weight", to.value);
  to.gated_norm.kind = Norm::Kind::rms;
  for (uint32_t h = 0; h < to.heads; ++h)
    to.gated_norm.weight.insert(to.gated_norm.weight.end(), of_head.begin(), of_head.end());
  to.norm_size = to.value;
}

void StateReader::read_ssd(Reader& read, const std::string& blk, uint64_t width, Recurrence& to) const {
  const uint64_t values = to.values(), mixed = values + 2 * to.keys();
  const Matrix in = read.matrix(blk + "ssm_in.weight", values + mixed + to.heads, width);
  to.gate = in.slice(0, values);
  to.mixed = in.slice(values, mixed);
  to.steps = in.slice(values + mixed, to.heads);
  to.skip = read.vector(blk + "ssm_d", to.heads);
  if (!read.has(blk + "ssm_norm.weight")) return;  // of Falcon-H1, which has one in some models only
  to.norm_size = uint32_t(values / to.key_heads);
  to.gated_norm.kind = Norm::Kind::rms;
  to.gated_norm.weight = decoded(read.matrix(blk + "ssm_norm.weight", to.key_heads, to.norm_size));
}

}  // namespace heddle::model
