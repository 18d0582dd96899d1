// A model without layers. Its logits are a function of the text that it reads through its block table, and of nothing
// else: a block that is shared wrongly, stale or never written changes the tokens. With slots for recurrent states they
// are also a function of the state, which must be that of the text: any other changes the tokens too. With blocks of
// windows they are also a function of what the window of a row has, which must be what the other blocks have. Time is
// virtual.
// A model with a head for multi-token prediction predicts what it will say itself, if what the head has in the cache
// is that of the text, and the result that it begins with is that of the text, too.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/backends.h"

namespace heddle::test::fake {

inline uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 29;
}

// What is in the cache for a position: its token, and what depends on all before it.
struct Cell {
  uint32_t token = ~0u, position = ~0u;
  uint64_t depth = 0;
  bool operator==(const Cell&) const = default;
};
inline void PrintTo(const Cell& cell, std::ostream* out) { *out << "token " << cell.token << " at " << cell.position; }

// What a slot holds, and a head in the cache: a function of all tokens up to a position.
struct Recurrent {
  uint64_t text = 7;
  uint32_t tokens = 0;
  Recurrent next(uint32_t token) const { return {mixed(text, token), tokens + 1}; }
  bool operator==(const Recurrent&) const = default;
};

// All that was read up to a position.
class Reading {
 public:
  Cell next(uint32_t token, uint32_t position) const { return {token, position, mixed(state_, token)}; }
  void read(const Cell& cell) {
    recurrent_ = recurrent_.next(cell.token);
    state_ = mixed(mixed(state_, cell.depth), uint64_t(cell.token) << 32 | cell.position);
    std::rotate(recent_.begin(), recent_.begin() + 1, recent_.end());
    recent_.back() = cell.token;
  }
  // From -2 to 2. A model that repeats itself adds to the logit of the token 5 positions back.
  void logits(const model::Model& model, std::span<float> to) const {
    for (size_t i = 0; i < to.size(); ++i) to[i] = float(mixed(state_, i) >> 40) * 0x1p-22f - 2;
    if (recent_[0] < to.size()) to[recent_[0]] += model.logit_softcap;
  }
  void see(const Recurrent& state) {
    EXPECT_EQ(state.tokens, recurrent_.tokens) << "the state is that after another token";
    EXPECT_EQ(state.text, recurrent_.text) << "the state is that of another text";
    if (state != recurrent_) state_ = mixed(state_, state.text);
  }
  const Recurrent& recurrent() const { return recurrent_; }
  void see_window(const Cell& window, const Cell& cell) {
    EXPECT_EQ(window, cell) << "the window has another text";
    if (window != cell) state_ = mixed(state_, window.depth + 1);
  }
  void state(std::span<float> to) const {  // from -1 to 1
    for (size_t i = 0; i < to.size(); ++i) to[i] = float(mixed(state_, ~i) >> 40) * 0x1p-23f - 1;
  }

 private:
  uint64_t state_ = 1;
  Recurrent recurrent_;  // as it should be
  std::array<uint32_t, 5> recent_{~0u, ~0u, ~0u, ~0u, ~0u};
};

inline model::Model fake_model(uint32_t context, uint32_t vocabulary = 16, float repetition = 0) {
  model::Model model;
  model.name = "fake";
  model.context = context;
  model.vocabulary = vocabulary;
  model.width = 3;
  model.output = {.rows = vocabulary, .cols = 3};
  model.logit_softcap = repetition;  // not used otherwise here
  return model;
}

// It needs slots.
inline model::Model with_head(model::Model model) {
  model.layers.push_back({.sublayers = {model::NextHead{.join = {.rows = model.width, .cols = 2 * model.width}}}});
  return model;
}

// With an attention that sees a window or a chunk.
inline model::Model with_window(model::Model model, uint32_t window, uint32_t chunk = 0) {
  model.layers.emplace_back().sublayers.emplace_back(
      model::Attention{.heads = 1, .kv_heads = 1, .head = 1, .value_head = 1, .window = window, .chunk = chunk});
  return model;
}

struct Cost {  // seconds
  double step = 0.004, row = 0.0002, context = 0.0000004, noise = 0;
  double free_rows = 0;  // the first rows, which cost nothing
  double group = 1;      // rows are computed in groups of this size, the last of which may have less

  double of(double rows, double positions) const {
    return step + row * std::max(0.0, std::ceil(rows / group) * group - free_rows) + context * positions;
  }
};

class FakeBackend : public IdleBackend {
 public:
  FakeBackend(const model::Model& model, const model::Limits& limits, uint64_t seed = 1)
      : model_(model),
        limits_(limits),
        cells_(size_t(limits.kv_blocks) * limits.block_tokens),
        head_cells_(cells_.size()),
        sights_(model::windows_of(model)),
        window_cells_(size_t(limits.window_blocks) * limits.block_tokens),
        slots_(limits.state_slots, {.text = 0, .tokens = ~0u}),
        random_(seed) {}

  std::string describe() const override { return "fake"; }
  void begin(const model::Batch& batch) override;
  void keep_states() override { ++kept_states; }
  model::Result result() override {
    EXPECT_TRUE(usable_);
    return {{}, logits_, states_};
  }
  void copy_block(uint32_t from, uint32_t to) override {
    ++copied;
    const size_t size = limits_.block_tokens;
    std::copy_n(cells_.begin() + ptrdiff_t(from * size), size, cells_.begin() + ptrdiff_t(to * size));
    std::copy_n(head_cells_.begin() + ptrdiff_t(from * size), size, head_cells_.begin() + ptrdiff_t(to * size));
  }
  void copy_window_block(uint32_t from, uint32_t to) override {
    ++copied_windows;
    const size_t size = limits_.block_tokens;
    std::copy_n(window_cells_.begin() + ptrdiff_t(from * size), size, window_cells_.begin() + ptrdiff_t(to * size));
  }
  void copy_state(uint32_t from, uint32_t to) override {
    EXPECT_NE(from, to);
    if (std::exchange(copy_fault, false)) throw std::runtime_error("a fault of a copy");
    ++copied_states;
    slots_.at(to) = slots_.at(from);
  }
  std::string kv_layout() const override { return "fake"; }
  uint64_t kv_part_bytes(model::KvPart part) const override {
    if (part == model::KvPart::state) return slots_.empty() ? 0 : sizeof(Recurrent);
    if (part == model::KvPart::window) return window_cells_.empty() ? 0 : limits_.block_tokens * sizeof(Cell);
    return limits_.block_tokens * (sizeof(Cell) + sizeof(Recurrent));
  }
  void read_kv(std::span<const model::KvRead> reads) override {
    for (const auto& [from, to] : reads) {
      model::check_kv_span(*this, limits_, from, to.size());
      uint8_t* at = to.data();
      each_part(from, [&](void* values, size_t bytes) { at = std::copy_n(static_cast<uint8_t*>(values), bytes, at); });
    }
  }
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override {
    model::check_kv_span(*this, limits_, place, bytes.size());
    if (std::exchange(copy_fault, false)) throw std::runtime_error("a fault of a copy");
    ++written;
    const uint8_t* at = bytes.data();
    each_part(place, [&](void* values, size_t count) {
      std::copy_n(at, count, static_cast<uint8_t*>(values));
      at += count;
    });
  }
  bool usable() const override { return usable_; }

  void fault(const std::string& reason, bool for_good = false) {  // in the next batch
    fault_ = reason;
    for_good_ = for_good;
  }

  double clock = 0;
  double* other_clock = nullptr;  // of a backend that waits for this one
  Cost cost, head_cost{.step = 0.0005, .row = 0.00004};
  std::function<void(std::span<float>)> change_logits;       // of a row, before they are picked from
  std::function<void(std::span<float>)> change_predictions;  // the same, of the head
  uint64_t predicted_rows = 0;                               // of the head
  uint64_t written = 0;                                      // places, as bytes
  uint32_t copied = 0, copied_windows = 0, copied_states = 0, kept_states = 0;
  bool copy_fault = false;         // in the next copy of a state
  size_t max_outputs = 0;          // of a batch
  uint64_t rows = 0, batches = 0;  // computed

 protected:
  void each_part(model::KvPlace place, auto&& f) {
    const size_t tokens = limits_.block_tokens, first = place.index * tokens;
    if (place.part == model::KvPart::state) return f(&slots_[place.index], sizeof(Recurrent));
    if (place.part == model::KvPart::window) return f(&window_cells_[first], tokens * sizeof(Cell));
    f(&cells_[first], tokens * sizeof(Cell));
    f(&head_cells_[first], tokens * sizeof(Recurrent));
  }
  size_t place(const std::vector<uint32_t>& table, uint32_t position) const {
    return size_t(table.at(position / limits_.block_tokens)) * limits_.block_tokens + position % limits_.block_tokens;
  }
  Cell& cell(const std::vector<uint32_t>& table, uint32_t position) { return cells_.at(place(table, position)); }
  void predict(const model::Batch& batch);
  bool has_head() const { return model::next_head(model_) != nullptr; }
  // Feeds a token and reads all up to it.
  Reading feed(const std::vector<uint32_t>& table, uint32_t token, uint32_t position, Reading before) {
    cell(table, position) = before.next(token, position);
    before.read(cell(table, position));
    return before;
  }
  Reading read(const std::vector<uint32_t>& table, uint32_t positions) {
    Reading reading;
    for (uint32_t i = 0; i < positions; ++i) reading.read(cell(table, i));
    return reading;
  }
  // Feeds a token to the block of windows, and reads what it sees. What another text left in the block is gone.
  void feed_window(const model::Batch& batch, uint32_t sequence, uint32_t position, Reading& reading) {
    if (window_cells_.empty()) return;
    const std::vector<uint32_t>&blocks = batch.blocks[sequence], &windows = batch.window_blocks.at(sequence);
    EXPECT_EQ(blocks.size(), windows.size());
    const auto window_cell = [&](uint32_t at) -> Cell& {
      return window_cells_.at(size_t(windows.at(at / limits_.block_tokens)) * limits_.block_tokens +
                              at % limits_.block_tokens);
    };
    if (position % limits_.block_tokens == 0) std::fill_n(&window_cell(position), limits_.block_tokens, Cell());
    window_cell(position) = cell(blocks, position);
    for (uint32_t at = sights_.first_seen(position); at <= position; ++at)
      reading.see_window(window_cell(at), cell(blocks, at));
  }
  void expect_slots(const model::Batch& batch) const {
    EXPECT_EQ(batch.slots.size(), slots_.empty() ? 0 : batch.blocks.size());
    std::vector<uint32_t> sorted = batch.slots;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "two sequences share a slot";
  }
  void pass_time(const model::Batch& batch, const Cost& by);
  void fail_if_due() {  // after it has written: what is in the cache is invalid
    if (fault_.empty()) return;
    usable_ = !for_good_;
    throw std::runtime_error(std::exchange(fault_, ""));
  }

  const model::Model& model_;
  const model::Limits limits_;
  std::vector<Cell> cells_;
  std::vector<Recurrent> head_cells_;  // of each position: the text up to it
  model::Windows sights_;
  std::vector<Cell> window_cells_;
  std::vector<Recurrent> slots_;
  std::vector<Reading> results_;  // of the rows of the last batch, where there is a head
  bool predicted_ = false;        // the last batch did
  std::mt19937_64 random_;
  std::vector<float> logits_, states_;
  std::string fault_;
  bool for_good_ = false, usable_ = true;
};

// It says that it computes rows in groups (Cost::group), so streams take turns on it.
class GroupingBackend : public FakeBackend {
 public:
  using FakeBackend::FakeBackend;
  bool computes_rows_in_groups() const override { return true; }
};

inline void FakeBackend::pass_time(const model::Batch& batch, const Cost& by) {
  double positions = 0;
  for (const uint32_t position : batch.positions) positions += position + 1;
  const double noise = 1 + by.noise * (double(random_() >> 11) * 0x1p-52 - 1);
  const double seconds = by.of(double(batch.tokens.size()), positions) * noise;
  clock += seconds;
  if (other_clock) *other_clock += seconds;
}

inline void FakeBackend::begin(const model::Batch& batch) {
  EXPECT_TRUE(usable_) << "computed after it had failed";
  EXPECT_FALSE(batch.tokens.empty());
  EXPECT_LE(batch.tokens.size(), limits_.rows);
  EXPECT_EQ(batch.positions.size(), batch.tokens.size());
  EXPECT_EQ(batch.sequences.size(), batch.tokens.size());
  EXPECT_FALSE(batch.follows || !batch.picking.empty()) << "this backend is not a device";
  if (batch.predicts) return predict(batch);
  ++batches;
  rows += batch.tokens.size();
  pass_time(batch, cost);
  predicted_ = false;
  results_.clear();
  logits_.resize(batch.outputs.size() * model_.vocabulary);
  states_.resize(batch.states.size() * model_.width);
  max_outputs = std::max(max_outputs, batch.outputs.size());
  std::vector<uint32_t> rows_of(batch.blocks.size());
  for (const uint32_t sequence : batch.sequences) ++rows_of.at(sequence);
  EXPECT_TRUE(std::is_partitioned(rows_of.begin(), rows_of.end(), [](uint32_t count) { return count == 1; }))
      << "sequences with one row come first";
  std::vector<bool> seen(batch.blocks.size());
  expect_slots(batch);
  Reading reading;
  size_t output = 0, state = 0;
  for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
    const uint32_t sequence = batch.sequences[row], position = batch.positions[row];
    EXPECT_LT(position, model_.context);
    const bool goes_on = row > 0 && batch.sequences[row - 1] == sequence;
    if (goes_on) {
      EXPECT_EQ(batch.positions[row - 1] + 1, position);
    } else {
      EXPECT_FALSE(seen.at(sequence)) << "rows of a sequence stay together";
      seen[sequence] = true;
      reading = read(batch.blocks[sequence], position);
    }
    reading = feed(batch.blocks[sequence], batch.tokens[row], position, reading);
    feed_window(batch, sequence, position, reading);
    if (!slots_.empty()) {
      Recurrent& own = slots_.at(batch.slots[sequence]);
      own = (position == 0 ? Recurrent() : own).next(batch.tokens[row]);
      reading.see(own);
      if (has_head()) head_cells_.at(place(batch.blocks[sequence], position)) = own;
    }
    if (has_head()) results_.push_back(reading);
    if (state < batch.states.size() && batch.states[state] == row)
      reading.state(std::span(states_).subspan(state++ * model_.width, model_.width));
    if (output == batch.outputs.size() || batch.outputs[output] != row) continue;
    const auto logits = std::span(logits_).subspan(output++ * model_.vocabulary, model_.vocabulary);
    reading.logits(model_, logits);
    if (change_logits) change_logits(logits);
  }
  EXPECT_EQ(output, batch.outputs.size()) << "outputs are rows, ascending";
  EXPECT_EQ(state, batch.states.size()) << "so are states";
  fail_if_due();
}

inline void FakeBackend::predict(const model::Batch& batch) {
  EXPECT_TRUE(has_head() && batch.slots.empty() && batch.states.empty());
  EXPECT_EQ(batch.after.size(), batch.tokens.size());
  predicted_rows += batch.tokens.size();
  pass_time(batch, head_cost);
  logits_.resize(batch.outputs.size() * model_.vocabulary);
  EXPECT_EQ(batch.outputs.size(), batch.tokens.size());
  const std::vector<Reading> before = std::exchange(results_, {});
  for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
    EXPECT_EQ(batch.sequences[row], row) << "one row per sequence";
    const std::vector<uint32_t>& table = batch.blocks[row];
    Reading reading = before.at(batch.after[row]);
    Recurrent text;
    for (uint32_t i = 0; i < batch.positions[row] && !predicted_; ++i) {
      text = text.next(cell(table, i).token);
      EXPECT_EQ(head_cells_.at(place(table, i)), text) << "the head has another text";
    }
    if (batch.positions[row] > 0) reading.see(head_cells_.at(place(table, batch.positions[row] - 1)));
    reading.read(reading.next(batch.tokens[row], batch.positions[row]));
    head_cells_.at(place(table, batch.positions[row])) = reading.recurrent();
    results_.push_back(reading);
    const auto logits = std::span(logits_).subspan(row * model_.vocabulary, model_.vocabulary);
    reading.logits(model_, logits);
    if (change_predictions) change_predictions(logits);
  }
  predicted_ = true;
  fail_if_due();
}

// DeviceBackend takes the model for itself, and the arguments of the backend under it.
struct FakeDevice : DeviceBackend<FakeBackend> {
  FakeDevice(const model::Model& model, const model::Limits& limits, uint64_t seed = 1)
      : DeviceBackend(model, model, limits, seed) {}
};

}  // namespace heddle::test::fake
