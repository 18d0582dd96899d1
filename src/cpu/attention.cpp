// Positions are dealt out to the threads: all spans of some rows and heads, or single spans where there are few rows.
#include "cpu/attention.h"

#include <algorithm>
#include <cmath>

namespace heddle::cpu {
namespace {

constexpr uint32_t span_tokens = 512;           // positions of a span, rounded to whole blocks
constexpr uint32_t heads_of_item = 16;          // heads that share the conversion of a block to f32
constexpr uint32_t queries_of_item = 128;       // rows times heads that do, but 16 rows at least
constexpr uint64_t partial_values = 256 << 10;  // of a thread: states of spans that wait to be merged
constexpr Softmax nothing{-INFINITY, 0};

uint32_t span_blocks(const model::Limits& limits) { return std::max(1u, span_tokens / limits.block_tokens); }
uint32_t tokens_of_span(const model::Limits& limits) { return span_blocks(limits) * limits.block_tokens; }

uint32_t rows_of_item(const model::Attention& a) {
  return std::max(16u, queries_of_item / std::min(heads_of_item, a.heads / a.kv_heads));
}

// Few items leave threads idle: their spans become items of their own.
uint64_t few_items(uint32_t threads) { return 4 * uint64_t(threads); }

}  // namespace

uint64_t Attend::scratch_bytes(const model::Attention& a, const model::Limits& limits, uint32_t threads) {
  const uint64_t heads = std::min(heads_of_item, a.heads / a.kv_heads), rows = std::min(rows_of_item(a), limits.rows);
  const uint64_t stride = (limits.block_tokens + 15) / 16 * 16;
  const uint64_t of_thread = stride * (a.head + a.value_head + attend_at_once) + 2 * rows * heads * (a.value_head + 2);
  const uint64_t spans = uint64_t(limits.kv_blocks) * limits.block_tokens / tokens_of_span(limits) + 1;
  const uint64_t of_span = std::min<uint64_t>(few_items(threads) * rows * heads, uint64_t(limits.rows) * a.heads);
  const uint64_t values = of_span * (a.value_head + 2);
  return (threads * of_thread + std::min(spans * values, 2 * values + threads * partial_values)) * sizeof(float);
}

void Attend::find_seen(const model::Batch& batch, const model::Attention& a) {
  const size_t rows = batch.tokens.size();
  if (!a.causal) {
    ends_.assign(batch.blocks.size(), 0);
    for (size_t i = 0; i < rows; ++i)
      ends_[batch.sequences[i]] = std::max(ends_[batch.sequences[i]], batch.positions[i]);
  }
  seen_.clear();
  for (size_t i = 0; i < rows; ++i) {
    const uint32_t position = batch.positions[i];
    Seen seen{0, a.causal ? position : ends_[batch.sequences[i]]};
    if (a.window) {
      const uint32_t before = a.causal ? a.window - 1 : a.window / 2;
      seen.first = position - std::min(position, before);
      if (!a.causal) seen.last = std::min(seen.last, position + before);
    }
    if (a.chunk) {
      const uint32_t begin = position / a.chunk * a.chunk;
      seen.first = std::max(seen.first, begin);
      seen.last = std::min(seen.last, begin + (a.chunk - 1));
    }
    seen_.push_back(seen);
  }
}

void Attend::plan(const model::Batch& batch, const model::Attention& a) {
  const uint32_t rows = uint32_t(batch.tokens.size()), group = a.heads / a.kv_heads, span = tokens_of_span(limits_);
  const uint32_t at_once = rows_of_item(a);
  items_.clear();
  for (uint32_t row = 0; row < rows;) {
    uint32_t end = row + 1;
    while (end < rows && end - row < at_once && batch.sequences[end] == batch.sequences[row]) ++end;
    // what rows see begins and ends later from row to row
    const uint32_t first = seen_[row].first / span, last = seen_[end - 1].last / span;
    for (uint32_t head = 0; head < a.heads;) {
      const uint32_t heads = std::min(heads_of_item, group - head % group);
      items_.push_back({row, end - row, head, heads, first, last - first + 1, 0});
      head += heads;
    }
    row = end;
  }
}

void Attend::run(const model::Batch& batch, const model::BlockTables& tables, const model::Attention& a,
                 const KvCache& cache, const Rows& q, const HeadResults& out) {
  find_seen(batch, a);
  plan(batch, a);
  scratch_.resize(team_.threads());
  const auto finish = [&](const Item& item, const Softmax* states, const float* values) {
    for (uint32_t r = 0; r < item.rows; ++r)
      for (uint32_t h = item.head; h < item.head + item.heads; ++h, ++states, values += a.value_head) {
        float* to = out.data + (item.row + r) * out.of_row + h * out.of_head;
        const float sum = a.sinks.empty() ? states->sum : states->sum + std::exp(a.sinks[h] - states->largest);
        for (uint32_t i = 0; i < a.value_head; ++i) to[i] = values[i] / sum;
      }
  };
  const bool by_span = items_.size() < few_items(team_.threads()) &&
                       std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.spans > 1; });
  if (by_span)
    run_by_span(batch, tables, cache, q, finish);
  else
    run_whole(batch, tables, cache, q, finish);
}

template <class Finish>
void Attend::run_whole(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache, const Rows& q,
                       Finish&& finish) {
  team_.run(items_.size(), [&](uint64_t index, uint32_t thread) {
    Scratch& scratch = scratch_[thread];
    walk(batch, tables, cache, q, items_[index], scratch);
    finish(items_[index], scratch.softmax.data(), scratch.out.data());
  });
}

// Some spans of all items at a time: an item has a place for its state so far and for `at_once` spans to be merged
// with it; its first span is its first state.
template <class Finish>
void Attend::run_by_span(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache,
                         const Rows& q, Finish&& finish) {
  const uint32_t size = cache.head().value_head;
  uint64_t states = 0;
  uint32_t most = 0;
  for (const Item& item : items_) {
    states += item.states();
    most = std::max(most, item.spans);
  }
  const uint64_t fit = team_.threads() * partial_values / (states * (size + 2));
  const uint32_t at_once = uint32_t(std::clamp<uint64_t>(fit, 1, most - 1));
  uint64_t partials = 0;
  for (Item& item : items_) {
    item.partial = partials;
    partials += item.states() * (at_once + 1);
  }
  partial_.resize(std::max<size_t>(partial_.size(), partials));
  partial_out_.resize(std::max<size_t>(partial_out_.size(), partials * size));

  uint32_t first = 0;
  for (uint32_t place = 0; first < most; place = 1) {
    const uint32_t end = first + at_once + 1 - place;
    pieces_.clear();
    for (const Item& item : items_)
      for (uint32_t s = first; s < std::min(end, item.spans); ++s) {
        Item piece = item;
        piece.first_span += s;
        piece.spans = 1;
        piece.partial += (place + s - first) * item.states();
        pieces_.push_back(piece);
      }
    team_.run(pieces_.size(), [&](uint64_t index, uint32_t thread) {
      const Item& piece = pieces_[index];
      Scratch& scratch = scratch_[thread];
      walk(batch, tables, cache, q, piece, scratch);
      std::copy(scratch.softmax.begin(), scratch.softmax.end(), partial_.begin() + long(piece.partial));
      std::copy(scratch.out.begin(), scratch.out.end(), partial_out_.begin() + long(piece.partial * size));
    });
    team_.run(items_.size(), [&](uint64_t index, uint32_t) {
      const Item& item = items_[index];
      if (item.spans <= first) return;
      Softmax* to = partial_.data() + item.partial;
      float* to_out = partial_out_.data() + item.partial * size;
      for (uint64_t p = 1; p < place + std::min(end, item.spans) - first; ++p)
        for (uint64_t i = 0; i < item.states(); ++i) {
          const uint64_t from = item.partial + p * item.states() + i;
          isa_.merge(size, to + i, to_out + i * size, &partial_[from], partial_out_.data() + from * size);
        }
      if (item.spans <= end) finish(item, to, to_out);
    });
    first = end;
  }
}

void Attend::walk(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache, const Rows& q,
                  const Item& item, Scratch& scratch) const {
  AttendHead head = cache.head();
  const uint32_t kv_head = item.head / head.group, blocks_of_span = span_blocks(limits_);
  head.group = item.heads;
  if (head.slopes) head.slopes += item.head;
  scratch.floats.resize(std::max<size_t>(scratch.floats.size(), attend_scratch(head)));
  scratch.rows.clear();
  for (uint32_t r = item.row; r < item.row + item.rows; ++r)
    scratch.rows.push_back(
        {q.row(r) + uint64_t(item.head) * head.head, batch.positions[r], seen_[r].first, seen_[r].last});
  scratch.softmax.assign(item.states(), nothing);
  scratch.out.assign(item.states() * head.value_head, 0);

  const std::vector<uint32_t>& blocks = tables[batch.sequences[item.row]];
  const uint32_t first_block = scratch.rows.front().first / head.tokens, last = scratch.rows.back().last;
  for (uint32_t span = item.first_span; span < item.first_span + item.spans; ++span) {
    const bool first = span == item.first_span;  // its state is the state so far
    std::vector<Softmax>& softmax = first ? scratch.softmax : scratch.span_softmax;
    std::vector<float>& out = first ? scratch.out : scratch.span_out;
    if (!first) {
      softmax.assign(item.states(), nothing);
      out.assign(item.states() * head.value_head, 0);
    }
    const uint32_t last_block = last / head.tokens, end = std::min((span + 1) * blocks_of_span, last_block + 1);
    for (uint32_t b = std::max(span * blocks_of_span, first_block); b < end; ++b) {
      const KvBlock block = cache.block(blocks[b], kv_head, b * head.tokens);
      const KvBlock next = cache.block(blocks[std::min(b + 1, last_block)], kv_head, 0);
      isa_.attend(head, block, next, scratch.rows.data(), item.rows, softmax.data(), out.data(), scratch.floats.data());
    }
    if (first) continue;
    for (uint64_t i = 0; i < item.states(); ++i)
      isa_.merge(head.value_head, &scratch.softmax[i], scratch.out.data() + i * head.value_head, &softmax[i],
                 out.data() + i * head.value_head);
  }
}

}  // namespace heddle::cpu
