// Positions follow one another, and block i of the cache holds the i-th stretch of them.
#include "model/session.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/forward.h"

namespace heddle::model {

Limits limits_for(uint32_t context, uint32_t rows) {
  Limits limits;
  limits.rows = std::min(rows, std::max(context, 1u));
  limits.kv_blocks = (context + limits.block_tokens - 1) / limits.block_tokens;
  limits.state_slots = 1;
  return limits;
}

Session::Session(const Model& model, Backend& backend, const Limits& limits)
    : model_(model),
      backend_(backend),
      limits_(limits),
      context_(std::min(model.context, limits.kv_blocks * limits.block_tokens)) {
  batch_.blocks.resize(1, std::vector<uint32_t>(limits.kv_blocks));
  std::iota(batch_.blocks[0].begin(), batch_.blocks[0].end(), 0u);
  if (has_states(model)) batch_.slots = {0};
}

void Session::put(std::span<const uint32_t> tokens, bool all) {
  const auto count = static_cast<uint32_t>(tokens.size());
  batch_.tokens.assign(tokens.begin(), tokens.end());
  batch_.sequences.assign(count, 0);
  batch_.positions.resize(count);
  std::iota(batch_.positions.begin(), batch_.positions.end(), length_);
  batch_.outputs.assign(all ? count : 1, count - 1);
  if (all) std::iota(batch_.outputs.begin(), batch_.outputs.end(), 0u);
}

void Session::expect_takes(std::span<const uint32_t> tokens) const {
  if (tokens.size() > context_ - length_)
    throw Error("expected at most {} more tokens (the context is {}, {} are used), found {}", context_ - length_,
                context_, length_, tokens.size());
  for (uint32_t token : tokens)
    if (token >= model_.vocabulary)
      throw Error("expected token ids below {}, the size of the vocabulary, found {}", model_.vocabulary, token);
}

std::span<const float> Session::feed(std::span<const uint32_t> tokens) {
  check(!tokens.empty(), "a token to feed");
  feed_each(tokens, nullptr);
  return backend_.result().logits;
}

void Session::feed_each(std::span<const uint32_t> tokens,
                        const std::function<void(size_t, std::span<const float>)>& each) {
  expect_takes(tokens);
  batch_.long_text = model_.short_text && length_ + tokens.size() > model_.short_text;
  for (size_t begin = 0; begin < tokens.size(); begin += limits_.rows) {
    const size_t count = std::min<size_t>(limits_.rows, tokens.size() - begin);
    put(tokens.subspan(begin, count), each != nullptr);
    forward(model_, backend_, batch_);
    length_ += static_cast<uint32_t>(count);
    if (!each) continue;
    const std::span<const float> logits = backend_.result().logits;
    for (size_t i = 0; i < count; ++i) each(begin + i, logits.subspan(i * model_.vocabulary, model_.vocabulary));
  }
}

void Session::rewind(uint32_t length) {
  check(length <= length_, "rewinding goes back");
  check(length == length_ || length == 0 || !has_states(model_), "a recurrent state goes back to its beginning only");
  length_ = length;
}

}  // namespace heddle::model
