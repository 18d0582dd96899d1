// Positions are dealt out to the threads: all spans of some rows, or single spans where there are few rows.
#include "cpu/attention.h"

#include <algorithm>
#include <cmath>

namespace heddle::cpu {
namespace {

constexpr uint32_t span_tokens = 512;  // positions of a span, rounded to whole blocks
constexpr uint32_t rows_of_item = 16;  // rows that share the conversion of a block to f32
constexpr Softmax nothing{-INFINITY, 0};

}  // namespace

uint32_t Attend::span_blocks() const { return std::max(1u, span_tokens / limits_.block_tokens); }

uint32_t Attend::first_span(const model::Attention& a, uint32_t position) const {
  const uint32_t first = a.window && position >= a.window ? position - a.window + 1 : 0;
  return first / limits_.block_tokens / span_blocks();
}

void Attend::run(const model::Batch& batch, const model::Attention& a, const KvCache& cache, const Rows& q, Rows& out) {
  const uint32_t rows = uint32_t(batch.tokens.size()), group = a.heads / a.kv_heads;
  const uint32_t tokens_of_span = span_blocks() * limits_.block_tokens;
  const auto last_span = [&](uint32_t row) { return batch.positions[row] / tokens_of_span; };
  scratch_.resize(team_.threads());

  items_.clear();
  for (uint32_t row = 0; row < rows;) {
    uint32_t end = row + 1;
    while (end < rows && end - row < rows_of_item && batch.sequences[end] == batch.sequences[row]) ++end;
    const uint32_t first = first_span(a, batch.positions[row]);
    for (uint32_t kv = 0; kv < a.kv_heads; ++kv)
      items_.push_back({row, end - row, kv, first, last_span(end - 1) - first + 1, 0});
    row = end;
  }
  // Too few items for the team: the spans of each become items of their own and are merged below.
  const bool split = items_.size() < 4 * team_.threads() &&
                     std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.spans > 1; });
  uint64_t partials = 0;
  if (split) {
    std::vector<Item> whole;
    std::swap(whole, items_);
    for (const Item& item : whole)
      for (uint32_t s = 0; s < item.spans; ++s) {
        items_.push_back({item.row, item.rows, item.kv_head, item.first_span + s, 1, partials});
        partials += uint64_t(item.rows) * group;
      }
    partial_.resize(std::max<size_t>(partial_.size(), partials));
    partial_out_.resize(std::max<size_t>(partial_out_.size(), partials * a.value_head));
  }

  // Writes the state of (row, head) to the result.
  const auto finish = [&](uint32_t row, uint32_t head, const Softmax& state, const float* values) {
    float* to = out.row(row) + uint64_t(head) * a.value_head;
    for (uint32_t i = 0; i < a.value_head; ++i) to[i] = values[i] / state.sum;
  };
  team_.run(items_.size(), [&](uint64_t index, uint32_t thread) {
    const Item& item = items_[index];
    Scratch& scratch = scratch_[thread];
    walk(batch, a, cache, q, item, scratch);
    if (split) {
      std::copy(scratch.softmax.begin(), scratch.softmax.end(), partial_.begin() + long(item.partial));
      std::copy(scratch.out.begin(), scratch.out.end(), partial_out_.begin() + long(item.partial * a.value_head));
      return;
    }
    for (uint32_t r = 0; r < item.rows; ++r)
      for (uint32_t h = 0; h < group; ++h)
        finish(item.row + r, item.kv_head * group + h, scratch.softmax[r * group + h],
               scratch.out.data() + uint64_t(r * group + h) * a.value_head);
  });
  if (!split) return;

  // The items of one row and kv head follow each other, span by span.
  std::vector<uint64_t> firsts;
  for (uint64_t i = 0; i < items_.size(); ++i)
    if (i == 0 || items_[i].row != items_[i - 1].row || items_[i].kv_head != items_[i - 1].kv_head) firsts.push_back(i);
  firsts.push_back(items_.size());
  team_.run(firsts.size() - 1, [&](uint64_t index, uint32_t) {
    const Item& first = items_[firsts[index]];
    for (uint64_t state = 0; state < uint64_t(first.rows) * group; ++state) {
      Softmax& to = partial_[first.partial + state];
      float* to_out = partial_out_.data() + (first.partial + state) * a.value_head;
      for (uint64_t i = firsts[index] + 1; i < firsts[index + 1]; ++i)
        isa_.merge(a.value_head, &to, to_out, &partial_[items_[i].partial + state],
                   partial_out_.data() + (items_[i].partial + state) * a.value_head);
      finish(first.row + uint32_t(state / group), first.kv_head * group + uint32_t(state % group), to, to_out);
    }
  });
}

void Attend::walk(const model::Batch& batch, const model::Attention& a, const KvCache& cache, const Rows& q,
                  const Item& item, Scratch& scratch) const {
  const AttendHead& head = cache.head();
  const uint64_t states = uint64_t(item.rows) * head.group;
  scratch.floats.resize(std::max<size_t>(scratch.floats.size(), attend_scratch(head)));
  scratch.rows.clear();
  for (uint32_t r = 0; r < item.rows; ++r)
    scratch.rows.push_back(
        {q.row(item.row + r) + uint64_t(item.kv_head) * head.group * head.head, batch.positions[item.row + r]});
  scratch.softmax.assign(states, nothing);
  scratch.out.assign(states * head.value_head, 0);

  const std::vector<uint32_t>& blocks = batch.blocks[batch.sequences[item.row]];
  const uint32_t last = scratch.rows.back().position;
  for (uint32_t span = item.first_span; span < item.first_span + item.spans; ++span) {
    const bool first = span == item.first_span;  // its state is the state so far
    std::vector<Softmax>& softmax = first ? scratch.softmax : scratch.span_softmax;
    std::vector<float>& out = first ? scratch.out : scratch.span_out;
    if (!first) {
      softmax.assign(states, nothing);
      out.assign(states * head.value_head, 0);
    }
    for (uint32_t b = span * span_blocks(); b < (span + 1) * span_blocks() && b * head.tokens <= last; ++b) {
      // a block before the window of the first row is before that of all
      const uint32_t position = scratch.rows.front().position;
      if (a.window && position >= a.window && (b + 1) * head.tokens <= position - a.window + 1) continue;
      isa_.attend(head, cache.block(blocks[b], item.kv_head, b * head.tokens), scratch.rows.data(), item.rows,
                  softmax.data(), out.data(), scratch.floats.data());
    }
    if (first) continue;
    for (uint64_t i = 0; i < states; ++i)
      isa_.merge(head.value_head, &scratch.softmax[i], scratch.out.data() + i * head.value_head, &softmax[i],
                 out.data() + i * head.value_head);
  }
}

}  // namespace heddle::cpu
