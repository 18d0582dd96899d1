// What a batch sends to the device (tokens, positions, block tables, how to pick), and what comes back (tokens picked,
// logits, states).
#include <algorithm>
#include <array>
#include <utility>

#include "gpu/backend.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/sample/sample.h"
#include "kernels/state/state_run.h"

namespace heddle::gpu {

using model::Batch;

// --- to the device --------------------------------------------------------------------------------------------------
bool Gpu::is_step(const Batch& batch, const Rows& rows) const {
  return !options_.trace && !is_part() && rows.each_own && rows.row_tables && rows.count > 0 &&
         rows.count <= max_step_rows && batch.outputs.size() == rows.count && batch.states.empty() &&
         !batch.picking.empty() && kind_.changed <= sizes_.changed_at_once() &&
         std::all_of(batch.picking.begin(), batch.picking.end(), [](const auto& p) { return p.has_value(); });
}

// In the order of the stream: batches before this one have read what is overwritten.
void Gpu::send_turns(bool long_text) {
  if (std::exchange(long_text_, long_text) == long_text) return;
  for (const DeviceLayer& layer : weights_.layers)
    for (const DeviceSublayer& sublayer : layer.sublayers)
      if (const auto* a = std::get_if<DeviceAttention>(&sublayer); a && a->long_turns.bytes())
        cuda::copy_device(stream_, a->turns.address(), (long_text ? a->long_turns : a->short_turns).address(),
                          a->turns.bytes());
}

namespace {

// Tiles that follow each other are one prompt.
std::vector<LongPrompt> long_prompts(std::span<const kernels::PromptTile> tiles) {
  std::vector<LongPrompt> all;
  for (uint32_t i = 0; i < tiles.size(); ++i) {
    const kernels::PromptTile& tile = tiles[i];
    if (all.empty() || all.back().table != tile.sequence || all.back().end != tile.first_position)
      all.push_back({.first_row = tile.first_row, .first_tile = i, .table = tile.sequence});
    LongPrompt& prompt = all.back();
    prompt.rows += tile.rows;
    prompt.tiles++;
    prompt.end = tile.first_position + tile.rows;
  }
  std::erase_if(all, [](const LongPrompt& prompt) { return prompt.rows < min_expanded_rows; });
  return all;
}

}  // namespace

void Gpu::send(const Batch& batch) {
  send_turns(batch.long_text);
  const auto count = uint32_t(batch.tokens.size());
  std::vector<uint32_t> lengths(count), sequences(count), rows_of(batch.blocks.size());
  std::vector<kernels::PromptTile> tiles;
  for (uint32_t sequence : batch.sequences) ++rows_of[sequence];
  const bool no_prompt = std::all_of(rows_of.begin(), rows_of.end(), [](uint32_t of) { return of <= 1; });
  Rows rows{.count = count, .each_own = true, .row_tables = no_prompt || forward_->paths().tables_by_row(count)};
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t sequence = batch.sequences[i], position = batch.positions[i];
    rows.each_own &= rows_of[sequence] == 1;
    if (rows.each_own) {
      rows.single = i + 1;
      rows.longest_single = std::max(rows.longest_single, position + 1);
    }
    lengths[i] = position + 1;
    rows.longest = std::max(rows.longest, position + 1);
    sequences[i] = rows.row_tables ? i : sequence;
    if (!tiles.empty() && batch.sequences[i - 1] == sequence && batch.positions[i - 1] + 1 == position &&
        tiles.back().rows < prompt_tile)
      ++tiles.back().rows;
    else
      tiles.push_back({sequences[i], i, 1, position});
  }
  rows.tiles = uint32_t(tiles.size());
  if (!rows.row_tables) {
    rows.sequences = sequences;
    rows.prompts = long_prompts(tiles);
  }
  step_ = is_step(batch, rows);
  const Work& w = *work_;
  Staging& to = *staging_;
  to.begin();
  to.send<uint32_t>(stream_, w.tokens.address(), batch.tokens);
  to.send<uint32_t>(stream_, w.positions.address(), batch.positions);
  if (weights_.token_types)
    to.send<uint32_t>(stream_, w.types.address(), batch.types.empty() ? std::vector<uint32_t>(count) : batch.types);
  to.send<uint32_t>(stream_, w.lengths.address(), lengths);
  to.send<uint32_t>(stream_, w.sequences.address(), sequences);
  to.send<uint32_t>(stream_, w.outputs.address(), batch.outputs);
  to.send<kernels::PromptTile>(stream_, w.tiles.address(), tiles);
  if (both_directions_) send_text_lengths(batch, tiles);
  rows.predicts = batch.predicts;
  if (batch.predicts)
    copy_results(batch);
  else if (sizes_.states)
    send_runs(batch, rows);
  send_tables(batch, rows, step_);
  rows_ = rows;
  if (step_) {
    send_picking(batch.picking);
    to.send<uint64_t>(stream_, w.step.address(), std::array{uint64_t(0)});
    max_steps_ = ~0u;
    for (uint32_t i = 0; i < count; ++i) {
      const auto room = uint32_t(batch.blocks[batch.sequences[i]].size() * limits_.block_tokens);
      max_steps_ = std::min(max_steps_, room - batch.positions[i]);
    }
    // no tiles: the positions in the tiles on the device do not advance from step to step
    rows_ = {.count = count, .each_own = true, .row_tables = true, .longest = rows.longest, .predicts = batch.predicts};
  }
  to.end(stream_);
}

// To work.before, the results of the batch before that the rows of this one begin with. A batch that predicts has left
// its own there: they move down, the first one first.
void Gpu::copy_results(const Batch& batch) {
  check(std::is_sorted(batch.after.begin(), batch.after.end()), "rows in the order of the batch before");
  const cuda::Buffer& from = predicted_ ? work_->before : work_->results;
  const uint64_t bytes = sizes_.width * 4ull;
  for (size_t i = 0, count; i < batch.after.size(); i += count) {
    // rows that follow one another in one copy, unless they move by less than their number
    for (count = 1; i + count < batch.after.size() && batch.after[i + count] == batch.after[i] + count; ++count)
      if (predicted_ && batch.after[i] != i) break;
    if (predicted_ && batch.after[i] == i) continue;
    cuda::copy_device(stream_, work_->before.address() + i * bytes, from.address() + batch.after[i] * bytes,
                      count * bytes);
  }
}

// The rows of each sequence, which follow each other; first those of sequences that are divided into chunks.
void Gpu::send_runs(const Batch& batch, Rows& rows) {
  std::vector<std::vector<uint32_t>> rows_of(batch.blocks.size());
  std::vector<uint32_t> first, order;  // sequences, in the order of their first rows
  for (uint32_t i = 0; i < batch.tokens.size(); ++i) {
    std::vector<uint32_t>& own = rows_of[batch.sequences[i]];
    if (own.empty()) first.push_back(batch.sequences[i]);
    own.push_back(i);
  }
  const auto is_chunked = [&](uint32_t s) { return forward_->paths().chunks_states(uint32_t(rows_of[s].size())); };
  const auto others = std::stable_partition(first.begin(), first.end(), is_chunked);
  rows.runs = uint32_t(first.size());
  rows.chunked_runs = uint32_t(others - first.begin());
  std::vector<kernels::StateRun> runs;
  std::vector<kernels::StateChunk> chunks;
  for (uint32_t sequence : first) {
    const std::vector<uint32_t>& own = rows_of[sequence];
    const auto begin = uint32_t(order.size()), count = uint32_t(own.size());
    const bool chunked = runs.size() < rows.chunked_runs;
    rows.longest_run = std::max(rows.longest_run, count);
    runs.push_back({begin, count, batch.slots[sequence], chunked ? uint32_t(chunks.size()) : 0});
    for (uint32_t at = 0; chunked && at < count; at += kernels::chunk_rows)
      chunks.push_back({begin + at, std::min(count - at, kernels::chunk_rows)});
    order.insert(order.end(), own.begin(), own.end());
  }
  rows.chunks = uint32_t(chunks.size());
  staging_->send<kernels::StateRun>(stream_, work_->runs.address(), runs);
  staging_->send<uint32_t>(stream_, work_->order.address(), order);
  if (rows.chunks) staging_->send<kernels::StateChunk>(stream_, work_->chunk_list.address(), chunks);
}

// A row that sees both directions sees all rows of its sequence.
void Gpu::send_text_lengths(const Batch& batch, std::span<const kernels::PromptTile> tiles) {
  std::vector<uint32_t> ends(batch.blocks.size()), by_row, by_tile;
  for (size_t i = 0; i < batch.tokens.size(); ++i) ends[batch.sequences[i]] = batch.positions[i] + 1;
  for (uint32_t sequence : batch.sequences) by_row.push_back(ends[sequence]);
  for (const kernels::PromptTile& tile : tiles) by_tile.push_back(by_row[tile.first_row]);
  staging_->send<uint32_t>(stream_, work_->text_lengths.address(), by_row);
  staging_->send<uint32_t>(stream_, work_->tile_lengths.address(), by_tile);
}

void Gpu::send_tables(const Batch& batch, const Rows& rows, bool whole) {
  send_tables(batch, rows, whole, false);
  if (sizes_.windows) send_tables(batch, rows, whole, true);
}

void Gpu::send_tables(const Batch& batch, const Rows& rows, bool whole, bool of_windows) {
  const model::BlockTables& tables = of_windows ? batch.window_blocks : batch.blocks;
  model::BlockTables& all_sent = of_windows ? window_tables_ : tables_;
  const uint64_t to = (of_windows ? work_->window_table : work_->table).address();
  const size_t count = rows.row_tables ? rows.count : tables.size();
  check(count <= sizes_.rows, "a table for every sequence");
  if (all_sent.size() < count) all_sent.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<uint32_t>& blocks = tables[rows.row_tables ? batch.sequences[i] : i];
    const size_t needed =
        std::min<size_t>(blocks.size(), whole ? blocks.size() : rows.longest / limits_.block_tokens + 1);
    check(needed <= sizes_.table_stride, "blocks of the cache");
    std::vector<uint32_t>& sent = all_sent[i];
    // kernels may read an entry before the first position that a row sees, and ignore what is there: any block will do
    const auto is_sent = [](uint32_t block, uint32_t there) { return block == there || block == model::no_block; };
    if (sent.size() >= needed && std::equal(blocks.begin(), blocks.begin() + long(needed), sent.begin(), is_sent))
      continue;
    sent.assign(blocks.begin(), blocks.begin() + long(needed));
    if (of_windows) std::replace(sent.begin(), sent.end(), model::no_block, 0u);
    for (uint32_t block : sent) check(block < model::blocks_of_cache(limits_, of_windows), "blocks of the cache");
    staging_->send<uint32_t>(stream_, to + i * sizes_.table_stride * 4ull, sent);
  }
}

// Rows without a picking get the default one; those with biases or penalties get a place.
void Gpu::send_picking(std::span<const std::optional<model::Picking>> pickings) {
  static const model::Picking greedy;
  std::vector<kernels::SampleRow> rows;
  std::vector<kernels::TokenBias> biases;
  uint32_t places = 0, masks = 0;
  for (const auto& picking : pickings) {
    const model::Picking& p = picking ? *picking : greedy;
    kernels::SampleRow& row = rows.emplace_back();
    row.temperature = p.temperature;
    row.top_k = p.top_k;
    row.top_p = p.top_p;
    row.log_min_p = p.log_min_p;
    row.repetition = p.repetition;
    row.presence = p.presence;
    row.frequency = p.frequency;
    row.repetition_last = p.repetition_last;
    row.length = uint32_t(p.text.size());
    row.prompt = p.prompt;
    row.seed = p.seed;
    row.step = p.picks;
    row.top = p.top;
    if (p.constrained) row.mask = masks++;
    row.first_bias = uint32_t(biases.size());
    row.biases = uint32_t(p.biases.size());
    for (auto [id, bias] : p.biases) biases.push_back({id, bias});
    if (!p.changes_logits()) continue;
    check(places < sizes_.changed_at_once(), "a place for every row with biases or penalties");
    row.place = places++;
    if (p.has_penalties()) send_text(p, row.place);
  }
  staging_->send<kernels::SampleRow>(stream_, work_->params.address(), rows);
  staging_->send<kernels::TokenBias>(stream_, work_->biases.address(), biases);
}

// In the order of send_picking(), in one copy.
void Gpu::send_masks(uint32_t count) {
  std::vector<uint32_t> bits;
  bits.reserve(size_t(count) * sizes_.mask_words());
  for (const std::span<const uint32_t> mask : masks_.first(count)) {
    check(mask.empty() || mask.size() == sizes_.mask_words(), "a bit for each token");
    bits.insert(bits.end(), mask.begin(), mask.end());
    if (mask.empty()) bits.insert(bits.end(), sizes_.mask_words(), ~0u);
  }
  masks_ = masks_.subspan(count);
  staging_->send<uint32_t>(stream_, work_->masks.address(), bits);
}

// The part of the text that its penalties look at.
void Gpu::send_text(const model::Picking& p, uint32_t place) {
  const size_t all = p.text.size(), seen = p.repetition == 1 ? 0 : std::min<size_t>(p.repetition_last, all);
  const size_t generated = p.presence == 0 && p.frequency == 0 ? 0 : all - std::min<size_t>(p.prompt, all);
  const size_t from = all - std::max(seen, generated);
  staging_->send<uint32_t>(stream_, work_->texts.address() + (uint64_t(place) * sizes_.context + from) * 4,
                           std::span(p.text).subspan(from));
}

// --- from the device ------------------------------------------------------------------------------------------------
model::Result Gpu::result() {
  check(taken_ + held_.has_value() < launched_, "result() needs a batch that was launched, and allowed to pick");
  const size_t slot = taken_++ % max_steps_in_flight;
  if (step_)
    arrived_[slot].synchronize();
  else
    wait_for_logits();  // synchronise even when nothing is read back: the time of a batch must be its own
  if (ranks_)
    if (const std::string why = ranks_->failure(); !why.empty()) throw Error("{}", why);
  const size_t first = step_ ? slot * sizes_.picked_at_once() : 0;
  const auto* picked = reinterpret_cast<const kernels::Sampled*>(picked_.data()) + first;
  const auto* tops = reinterpret_cast<const kernels::Sampled*>(tops_.data()) + first * max_top_tokens;
  for (size_t i = 0; i < picks_.size(); ++i) {
    if (!picks_[i]) continue;
    picks_[i] = model::Picked{picked[i].id, picked[i].log_probability};
    for (const kernels::Sampled& top : std::span(tops + i * max_top_tokens, wanted_tops_[i]))
      if (top.id != kernels::no_token) picks_[i]->top.emplace_back(top.id, top.log_probability);
  }
  read_states();
  return {picks_, logits_, states_};
}

void Gpu::fetch_picks(size_t slot, uint64_t picked, size_t outputs) {
  const size_t first = slot * sizes_.picked_at_once() * sizeof(kernels::Sampled);
  const size_t bytes = outputs * sizeof(kernels::Sampled);
  cuda::read_device(stream_, picked_.data() + first, picked, bytes);
  if (kind_.tops)
    cuda::read_device(stream_, tops_.data() + first * max_top_tokens, work_->tops.address(), bytes * max_top_tokens);
}

void Gpu::fetch_logits(const OutputRange& range) {
  const size_t row_bytes = model_.vocabulary * 4ull, room = fetched_.bytes() / row_bytes;
  for (size_t i = 0, count; i < range.count; i += count) {
    count = 1;
    if (picks(range.first + i)) continue;
    if (fetched_rows_ == room) wait_for_logits();
    while (i + count < range.count && fetched_rows_ + count < room && !picks(range.first + i + count)) ++count;
    cuda::read_device(stream_, fetched_.data() + fetched_rows_ * row_bytes, work_->logits.address() + i * row_bytes,
                      count * row_bytes);
    fetched_rows_ += count;
  }
}

void Gpu::wait_for_logits() {
  stream_.synchronize();
  const std::span<const float> arrived = fetched_.as<float>().first(fetched_rows_ * model_.vocabulary);
  logits_.insert(logits_.end(), arrived.begin(), arrived.end());
  fetched_rows_ = 0;
}

// All that was recorded has been launched, or is launched here where kernels are timed.
std::span<const float> Gpu::residual() {
  run_stretch();
  run_traced_so_far();
  const size_t values = size_t(rows_.count) * model_.width;
  cuda::read_device(stream_, crossing_.data(), work_->h.address(), values * 4);
  stream_.synchronize();
  return crossing_.as<float>().first(values);
}

void Gpu::set_residual(std::span<const float> rows) {
  check(rows.size() == size_t(rows_.count) * model_.width, "a residual stream of all rows");
  run_stretch();
  crossed_->synchronize();
  std::memcpy(crossing_.data(), rows.data(), rows.size_bytes());
  cuda::write_device(stream_, work_->h.address(), crossing_.data(), rows.size_bytes());
  crossed_->record(stream_);
}

void Gpu::read_states() {
  const size_t row_bytes = model_.width * 4ull, at_once = fetched_.bytes() / row_bytes;
  states_.resize(wanted_states_.size() * model_.width);
  for (size_t first = 0, count; first < wanted_states_.size(); first += count) {
    const uint64_t row = wanted_states_[first];
    for (count = 1; count < at_once && first + count < wanted_states_.size(); ++count)
      if (wanted_states_[first + count] != row + count) break;
    const cuda::Buffer& states = weights_.next_head() ? work_->results : weights_.norm ? work_->result : work_->h;
    cuda::read_device(stream_, fetched_.data(), states.address() + row * row_bytes, count * row_bytes);
    stream_.synchronize();
    std::memcpy(states_.data() + first * model_.width, fetched_.data(), count * row_bytes);
  }
}

}  // namespace heddle::gpu
