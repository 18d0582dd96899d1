// Logits after a token depend on what stands before it alone, so that one run of the reference over a text is right for
// every way in which the text can be fed.
#include "main/device/model_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "cpu/cpu.h"
#include "model/forward.h"
#include "model/session.h"

namespace heddle {
namespace {

constexpr double pick_bar = 1e-3;  // how far below the largest logit, of their range, a pick may be: rounding, not more

uint32_t best(std::span<const float> logits) {
  return uint32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

std::string table_of(const std::vector<ModelCheck>& checks) {
  size_t width = 5;
  for (const ModelCheck& check : checks) width = std::max(width, check.name.size());
  std::string text = fmt::format("{:{}}  {:>9}  {:>10}  {:>10}\n", "check", width, "positions", "cosine", "difference");
  for (const ModelCheck& check : checks)
    text += fmt::format("{:{}}  {:>9}  {:>10.7f}  {:>10.2e}  {}{}{}\n", check.name, width, check.closeness.positions,
                        check.closeness.cosine, check.closeness.difference,
                        !check.passed               ? "FAILED"
                        : check.closeness.positions ? "passed"
                                                    : "skipped",
                        check.note.empty() ? "" : ": ", check.note);
  return text;
}

ModelChecks::ModelChecks(const model::Model& model, Tokens first, Tokens second, double bar, model::KvFormat kv)
    : model_(model), texts_{std::move(first), std::move(second)}, bar_(bar), kv_(kv) {
  check(texts_[0].size() == texts_[1].size() && !texts_[0].empty(), "two texts of one length");
  model::Limits limits = model::limits_for(uint32_t(texts_[0].size()));
  limits.kv = kv;
  const auto reference = cpu::make_reference(model, limits);
  for (const Tokens& text : texts_) {
    std::vector<float>& all = right_.emplace_back();
    model::Session session(model, *reference, limits);
    session.feed_each(text, [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  }
}

std::span<const float> ModelChecks::right(size_t text, uint32_t position) const {
  return std::span(right_[text]).subspan(size_t(position) * model_.vocabulary, model_.vocabulary);
}

model::Limits ModelChecks::limits() const {
  model::Limits limits;
  const uint32_t each = uint32_t(texts_[0].size()) + continued + 2;
  limits.rows = uint32_t(texts_[0].size()) + most_batch;
  limits.kv_blocks = most_batch * ((each + limits.block_tokens - 1) / limits.block_tokens);
  limits.kv = kv_;
  return limits;
}

// Blocks of the sequences lie between each other.
model::Batch ModelChecks::empty_batch(uint32_t sequences) const {
  model::Batch batch;
  batch.blocks.resize(sequences);
  const uint32_t blocks = limits().kv_blocks / most_batch;
  for (uint32_t i = 0; i < sequences; ++i)
    for (uint32_t block = 0; block < blocks; ++block) batch.blocks[i].push_back(block * sequences + i);
  return batch;
}

void ModelChecks::put(model::Batch& batch, Sequence& sequence, uint32_t index, uint32_t count) const {
  for (uint32_t i = 0; i < count; ++i, ++sequence.length) {
    batch.tokens.push_back(texts_[sequence.text].at(sequence.length));
    batch.positions.push_back(sequence.length);
    batch.sequences.push_back(index);
  }
}

void ModelChecks::run(model::Backend& backend, model::Batch& batch, const std::vector<Sequence>& sequences,
                      Closeness& to) const {
  batch.outputs.resize(batch.tokens.size());
  std::iota(batch.outputs.begin(), batch.outputs.end(), 0u);
  model::forward(model_, backend, batch);
  const std::span<const float> result = backend.result().logits;
  for (size_t row = 0; row < batch.tokens.size(); ++row)
    to.add(right(sequences[batch.sequences[row]].text, batch.positions[row]),
           result.subspan(row * model_.vocabulary, model_.vocabulary));
  batch.tokens.clear(), batch.positions.clear(), batch.sequences.clear();
}

void ModelChecks::add(const std::string& name, const Closeness& closeness) {
  checks_.push_back({called_ + name, closeness, closeness.cosine >= bar_, {}});
}

void ModelChecks::in_pieces(model::Backend& backend, const std::string& name, const std::vector<uint32_t>& pieces) {
  Closeness closeness;
  for (size_t text = 0; text < texts_.size(); ++text) {
    model::Batch batch = empty_batch(1);
    std::vector<Sequence> sequences{{text, 0}};
    for (size_t i = 0; sequences[0].length < texts_[text].size(); ++i) {
      const uint32_t left = uint32_t(texts_[text].size()) - sequences[0].length;
      put(batch, sequences[0], 0, std::min(pieces[i % pieces.size()], left));
      run(backend, batch, sequences, closeness);
    }
  }
  add(name, closeness);
}

void ModelChecks::prompts(model::Backend& backend) {
  in_pieces(backend, "prompt at once", {uint32_t(texts_[0].size())});
  in_pieces(backend, "prompt in pieces", {7, 1, 13, 2, 9, 3});
  in_pieces(backend, "token by token", {1});
}

std::vector<ModelChecks::Sequence> ModelChecks::begin(model::Backend& backend, model::Batch& batch, uint32_t count,
                                                      Closeness& to) const {
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < count; ++i) {
    sequences.push_back({i % texts_.size(), 0});
    put(batch, sequences[i], i, uint32_t(texts_[0].size()) - continued - 2 * i);
    run(backend, batch, sequences, to);
  }
  return sequences;
}

void ModelChecks::batch(model::Backend& backend, uint32_t count) {
  Closeness closeness;
  model::Batch batch = empty_batch(count);
  std::vector<Sequence> sequences = begin(backend, batch, count, closeness);
  for (uint32_t step = 0; step < continued; ++step) {
    for (uint32_t i = 0; i < count; ++i) put(batch, sequences[i], i, 1);
    run(backend, batch, sequences, closeness);
  }
  add(fmt::format("batch of {}", count), closeness);
}

void ModelChecks::mixed(model::Backend& backend) {
  Closeness closeness;
  model::Batch batch = empty_batch(4);
  std::vector<Sequence> sequences = begin(backend, batch, 3, closeness);
  sequences.push_back({1, 0});
  for (const uint32_t piece : {11u, 2u, 5u}) {
    put(batch, sequences[0], 0, 1);
    put(batch, sequences[3], 3, piece);
    for (uint32_t i = 1; i < 3; ++i) put(batch, sequences[i], i, 1);
    run(backend, batch, sequences, closeness);
  }
  add("prompt beside others", closeness);
}

void ModelChecks::steps(model::Backend& backend, uint32_t count) {
  Closeness before;
  model::Batch batch = empty_batch(count);
  const std::vector<Sequence> sequences = begin(backend, batch, count, before);
  // the first token of each is known, those after it are picked
  std::vector<Tokens> fed;
  std::vector<Sequence> last = sequences;
  for (uint32_t i = 0; i < count; ++i) put(batch, last[i], i, 1);
  for (uint32_t i = 0; i < count; ++i) fed.push_back({batch.tokens[i]});
  batch.outputs.resize(count);
  std::iota(batch.outputs.begin(), batch.outputs.end(), 0u);
  ModelCheck check{fmt::format("{}steps of {}", called_, count), {}, true, {}};
  if (backend.can_pick({}) && count <= backend.max_followed_rows()) {
    batch.picking.assign(count, model::Picking());
    model::forward(model_, backend, batch);
    batch.picking.clear();
    for (uint32_t step = 0; step < continued; ++step) {
      if (step + 1 < continued) model::forward(model_, backend, {.follows = true});
      const model::Result result = backend.result();
      for (uint32_t i = 0; i < count; ++i) fed[i].push_back(result.picked[i]->id);
    }
  } else {
    check.note = "this backend has none";
  }
  for (uint32_t step = 0; step + 1 < fed[0].size() && check.passed; ++step) {
    for (uint32_t i = 0; i < count; ++i) {
      check.passed &= fed[i][step + 1] < model_.vocabulary;
      batch.tokens[i] = fed[i][step], batch.positions[i] = sequences[i].length + step;
    }
    if (!check.passed) {
      check.note = "there was no token to pick";
      break;
    }
    model::forward(model_, backend, batch);
    const std::span<const float> all = backend.result().logits;
    for (uint32_t i = 0; i < count; ++i) {
      const auto logits = all.subspan(size_t(i) * model_.vocabulary, model_.vocabulary);
      const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
      const double range = std::max(1e-30, double(*high) - *low);
      ++check.closeness.positions;
      check.closeness.difference =
          std::max(check.closeness.difference, (double(*high) - logits[fed[i][step + 1]]) / range);
      if (check.note.empty() && fed[i][step + 1] != best(logits))
        check.note = fmt::format("picked {}, logits say {}", fed[i][step + 1], best(logits));
    }
    check.passed &= check.closeness.difference <= pick_bar;
  }
  checks_.push_back(check);
}

void ModelChecks::all(model::Backend& backend, const std::vector<uint32_t>& batches, const std::string& called) {
  called_ = called;
  prompts(backend);
  for (const uint32_t count : batches) batch(backend, count);
  mixed(backend);
  for (const uint32_t count : batches) steps(backend, count);
}

bool ModelChecks::passed() const {
  return std::all_of(checks_.begin(), checks_.end(), [](const ModelCheck& check) { return check.passed; });
}

}  // namespace heddle
