// The logits after a token depend only on the tokens before it, so that one run of the reference over a text is right
// for every way in which the text can be split into batches.
#include "main/device/model_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/cpu.h"
#include "engine/sampling/numbers.h"
#include "main/progress.h"
#include "model/forward.h"
#include "model/session.h"

namespace heddle {
namespace {

constexpr double pick_bar = 1e-3;  // how far below the largest logit a pick may be, as a share of their range: rounding

constexpr size_t reference_chunk = 32;  // tokens between two lines of progress: weights are decoded once for each chunk

uint32_t best(std::span<const float> logits) {
  return uint32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

ModelCheck::Outcome outcome_of(bool passed) {
  return passed ? ModelCheck::Outcome::passed : ModelCheck::Outcome::failed;
}

constexpr uint64_t max_logits = 1024;          // rows of the output matrix
constexpr uint32_t at_once = 16;               // tokens: more than the products for few rows take
constexpr double products_per_second = 0.8e9;  // of the reference, on one core
// Lowest cosine that passes. With random tokens and few layers, rounding to int8 weighs more than in a real text; wrong
// results are far below.
constexpr double exact_bar = 0.9999, rounded_bar = 0.99;
constexpr double min_tokens = 3, max_tokens = 12;  // compared

double products_of(const model::Layer& layer) {
  double sum = 0;
  for (const model::SublayerMatrix& m : model::matrices_of(layer))
    sum += double(m.matrix->rows) * double(m.matrix->cols) * double(m.used) / double(m.experts);
  return sum;
}

// Layers that compare equal are computed by the same kernels.
struct MatrixKind {
  quant::Format format;
  uint64_t rows, cols;
  auto operator<=>(const MatrixKind&) const = default;
};
struct AttentionKind {
  uint32_t heads, kv_heads, head;
  bool windowed;
  model::Rope::Style rope;
  auto operator<=>(const AttentionKind&) const = default;
};
struct SublayerKind {
  size_t alternative;  // of model::Sublayer
  std::optional<AttentionKind> attention;
  std::vector<MatrixKind> matrices;
  auto operator<=>(const SublayerKind&) const = default;
};
struct LayerKind {
  bool parallel;
  std::vector<SublayerKind> sublayers;
  auto operator<=>(const LayerKind&) const = default;
};

LayerKind kind_of(const model::Layer& layer) {
  LayerKind kind{.parallel = layer.parallel, .sublayers = {}};
  for (const model::Sublayer& sublayer : layer.sublayers) {
    SublayerKind& one = kind.sublayers.emplace_back(SublayerKind{.alternative = sublayer.index()});
    if (const auto* a = std::get_if<model::Attention>(&sublayer))
      one.attention = AttentionKind{a->heads, a->kv_heads, a->head, a->window != 0, a->rope.style};
    for (const model::SublayerMatrix& m : model::matrices_of(sublayer))
      one.matrices.push_back({m.matrix->format, m.matrix->rows, m.matrix->cols});
  }
  return kind;
}

}  // namespace

void Closeness::add(std::span<const float> right, std::span<const float> found) {
  check(right.size() == found.size() && !right.empty(), "logits of one vocabulary");
  ++positions;
  double both = 0, of_right = 0, of_found = 0, largest = 0;  // f64: the comparison adds no rounding of its own
  for (size_t i = 0; i < right.size(); ++i) {
    const double a = right[i], b = found[i];
    both += a * b;
    of_right += a * a;
    of_found += b * b;
    largest = std::max(largest, std::abs(a - b));
  }
  if (!std::isfinite(both) || !std::isfinite(of_found)) {
    cosine = -2;
    difference = std::numeric_limits<double>::infinity();
    return;
  }
  const auto [low, high] = std::minmax_element(right.begin(), right.end());
  const double range = double(*high) - *low;
  // of equal ones any is the most likely
  if (right[size_t(std::max_element(found.begin(), found.end()) - found.begin())] == *high) ++same_best;
  if (largest > 0)
    difference = std::max(difference, range > 0 ? largest / range : std::numeric_limits<double>::infinity());
  if (of_right == 0 && of_found == 0) return;  // both are all zeros
  cosine = std::min(cosine, of_right > 0 && of_found > 0 ? both / std::sqrt(of_right * of_found) : 0);
}

std::string table_of(const std::vector<ModelCheck>& checks) {
  size_t width = 5;
  for (const ModelCheck& check : checks) width = std::max(width, check.name.size());
  std::string text = fmt::format("{:{}}  {:>9}  {:>9}  {:>10}  {:>10}\n", "check", width, "positions", "same best",
                                 "cosine", "difference");
  for (const ModelCheck& check : checks) {
    const bool skipped = check.outcome == ModelCheck::Outcome::skipped;
    const Closeness& c = check.closeness;
    text += fmt::format("{:{}}  {:>9}  {:>9}  {:>10}  {:>10}  {}{}{}\n", check.name, width,
                        skipped ? "-" : fmt::format("{}", c.positions), skipped ? "-" : fmt::format("{}", c.same_best),
                        skipped ? "-" : fmt::format("{:.7f}", c.cosine),
                        skipped ? "-" : fmt::format("{:.2e}", c.difference),
                        skipped                                        ? "skipped"
                        : check.outcome == ModelCheck::Outcome::passed ? "passed"
                                                                       : "FAILED",
                        check.note.empty() ? "" : ": ", check.note);
  }
  return text;
}

ModelChecks::ModelChecks(const model::Model& model, Tokens first, Tokens second, double bar, model::KvFormat kv,
                         ProgressLine* line)
    : model_(model), texts_{std::move(first), std::move(second)}, bar_(bar), kv_(kv), line_(line) {
  check(texts_[0].size() == texts_[1].size() && !texts_[0].empty(), "two texts of one length");
  model::Limits limits = model::limits_for(uint32_t(texts_[0].size()));
  limits.kv = kv;
  const auto reference = cpu::make_reference(model, limits);
  size_t done = 0;
  for (const Tokens& text : texts_) {
    std::vector<float>& all = right_.emplace_back();
    model::Session session(model, *reference, limits);
    for (size_t at = 0; at < text.size(); at += reference_chunk) {
      if (line_) line_->count("reference:", done, 2 * text.size(), "tokens");
      const std::span<const uint32_t> chunk = std::span(text).subspan(at, std::min(reference_chunk, text.size() - at));
      session.feed_each(chunk,
                        [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
      done += chunk.size();
    }
  }
}

std::span<const float> ModelChecks::right(size_t text, uint32_t position) const {
  return std::span(right_[text]).subspan(size_t(position) * model_.vocabulary, model_.vocabulary);
}

model::Limits ModelChecks::limits() const {
  model::Limits limits;
  const uint32_t each = uint32_t(texts_[0].size()) + continued + 2;
  limits.rows = uint32_t(texts_[0].size()) + max_batch;
  limits.kv_blocks = max_batch * ((each + limits.block_tokens - 1) / limits.block_tokens);
  limits.kv = kv_;
  if (model::has_states(model_)) limits.state_slots = max_batch;
  return limits;
}

// The blocks of the sequences are interleaved, and their states are in reverse order.
model::Batch ModelChecks::empty_batch(uint32_t sequences) const {
  model::Batch batch;
  batch.blocks.resize(sequences);
  const uint32_t blocks = limits().kv_blocks / max_batch;
  for (uint32_t i = 0; i < sequences; ++i)
    for (uint32_t block = 0; block < blocks; ++block) batch.blocks[i].push_back(block * sequences + i);
  for (uint32_t i = 0; model::has_states(model_) && i < sequences; ++i) batch.slots.push_back(sequences - 1 - i);
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
  if (line_) line_->show(fmt::format("check {}", checks_.size() + 1));
  model::forward(model_, backend, batch);
  const std::span<const float> result = backend.result().logits;
  for (size_t row = 0; row < batch.tokens.size(); ++row)
    to.add(right(sequences[batch.sequences[row]].text, batch.positions[row]),
           result.subspan(row * model_.vocabulary, model_.vocabulary));
  batch.tokens.clear();
  batch.positions.clear();
  batch.sequences.clear();
}

void ModelChecks::add(const std::string& name, const Closeness& closeness) {
  checks_.push_back({called_ + name, closeness, outcome_of(closeness.cosine >= bar_), {}});
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
    put(batch, sequences[i], i, uint32_t(texts_[0].size()) - continued - 2 * (i % 8));
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
  ModelCheck check{fmt::format("{}steps of {}", called_, count), {}, ModelCheck::Outcome::passed, {}};
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
    check.outcome = ModelCheck::Outcome::skipped;
    check.note = "this backend picks no tokens";
  }
  for (uint32_t step = 0; step + 1 < fed[0].size() && check.outcome == ModelCheck::Outcome::passed; ++step) {
    bool found = true;
    for (uint32_t i = 0; i < count; ++i) {
      found &= fed[i][step + 1] < model_.vocabulary;
      batch.tokens[i] = fed[i][step];
      batch.positions[i] = sequences[i].length + step;
    }
    if (!found) {
      check.outcome = ModelCheck::Outcome::failed;
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
      check.closeness.same_best += fed[i][step + 1] == best(logits);
      check.closeness.difference =
          std::max(check.closeness.difference, (double(*high) - logits[fed[i][step + 1]]) / range);
      if (check.note.empty() && fed[i][step + 1] != best(logits))
        check.note = fmt::format("picked {}, logits say {}", fed[i][step + 1], best(logits));
    }
    check.outcome = outcome_of(check.closeness.difference <= pick_bar);
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

size_t ModelChecks::count(ModelCheck::Outcome outcome) const {
  return size_t(std::count_if(checks_.begin(), checks_.end(),
                              [outcome](const ModelCheck& check) { return check.outcome == outcome; }));
}

bool ModelChecks::passed() const {
  return count(ModelCheck::Outcome::failed) == 0 && count(ModelCheck::Outcome::passed) > 0;
}

model::Model cut_model(const model::Model& model, double products) {
  model::Model cut{.name = model.name,
                   .architecture = model.architecture,
                   .context = model.context,
                   .width = model.width,
                   .vocabulary = uint32_t(std::min<uint64_t>(model.vocabulary, max_logits)),
                   .embedding = {},
                   .positions = model.positions,
                   .type_embeddings = model.type_embeddings,
                   .embedding_norm = model.embedding_norm,
                   .embedding_scale = model.embedding_scale,
                   .layers = {},
                   .norm = model.norm,
                   .output = {},
                   .output_bias = model.output_bias,
                   .logit_scale = model.logit_scale,
                   .logit_softcap = model.logit_softcap,
                   .file = model.file,
                   .storage = {}};
  cut.embedding = model.embedding.slice(0, cut.vocabulary);
  if (model.output) cut.output = model.output.slice(0, cut.vocabulary);
  if (!cut.output_bias.empty()) cut.output_bias.resize(cut.vocabulary);
  std::set<LayerKind> kinds;
  double used = 0;
  for (const model::Layer& layer : std::span(model.layers).first(model::own_layers(model))) {
    const double more = products_of(layer);
    if ((!cut.layers.empty() && used + more > products) || !kinds.insert(kind_of(layer)).second) continue;
    cut.layers.push_back(layer);
    used += more;
  }
  return cut;
}

std::vector<ModelCheck> check_states(const model::Model& model, const MakeBackend& make, uint32_t tokens, double bar,
                                     std::string& backend_name) {
  const std::vector<std::vector<uint32_t>> batches{{tokens}, {1, tokens, (tokens + 1) / 2, 2}};
  model::Limits limits{.rows = 0};
  for (const uint32_t length : batches[1]) {
    limits.rows += length;
    limits.kv_blocks += (length + limits.block_tokens - 1) / limits.block_tokens;
  }
  const auto reference = cpu::make_reference(model, limits), backend = make(model, limits);
  backend_name = backend->describe();
  std::vector<ModelCheck> checks;
  uint64_t next = 0;
  for (const std::vector<uint32_t>& lengths : batches) {
    ModelCheck& check = checks.emplace_back();
    check.name = lengths.size() == 1 ? fmt::format("a text of {} tokens", tokens)
                                     : fmt::format("{} texts at once", lengths.size());
    model::Batch batch;
    uint32_t block = 0;
    for (uint32_t text = 0; text < lengths.size(); ++text) {
      std::vector<uint32_t>& blocks = batch.blocks.emplace_back();
      for (uint32_t i = 0; i < lengths[text]; ++i) {
        if (i % limits.block_tokens == 0) blocks.push_back(block++);
        batch.states.push_back(uint32_t(batch.tokens.size()));
        batch.tokens.push_back(uint32_t(engine::random_bits(6, next++) % model.vocabulary));
        batch.positions.push_back(i);
        batch.sequences.push_back(text);
      }
    }
    model::forward(model, *reference, batch);
    const std::span<const float> states = reference->result().states;
    const std::vector<float> right(states.begin(), states.end());
    model::forward(model, *backend, batch);
    const std::span<const float> found = backend->result().states;
    for (size_t at = 0; at < right.size(); at += model.width)
      check.closeness.add(std::span(right).subspan(at, model.width), found.subspan(at, model.width));
    check.outcome = outcome_of(check.closeness.cosine >= bar);
  }
  return checks;
}

namespace {

void brief_states_selftest(const model::Model& cut, const MakeBackend& make, uint32_t tokens, double bar) {
  std::string backend;
  const std::vector<ModelCheck> checks = check_states(cut, make, tokens, bar, backend);
  const auto passed = [](const ModelCheck& check) { return check.outcome == ModelCheck::Outcome::passed; };
  if (std::all_of(checks.begin(), checks.end(), passed)) return;
  throw SelftestFailed(
      "{}: {} is wrong: expected states of {} layers with a cosine of at least {} to those of the reference, found\n"
      "{}--device cpu runs on the CPU, --no-selftest without this check",
      cut.name, backend, cut.layers.size(), bar, table_of(checks));
}

}  // namespace

// A token's logits do not depend on later tokens, so that the device can be given more tokens than the reference
// computes.
void brief_selftest(const model::Model& model, const MakeBackend& make, bool exact, model::KvFormat kv,
                    double seconds) {
  const double products = seconds * products_per_second * double(hardware_threads());
  const model::Model cut = cut_model(model, products / min_tokens);
  double for_one = double(cut.output.rows) * double(cut.output.cols);
  for (const model::Layer& layer : cut.layers) for_one += products_of(layer);
  const uint32_t fed = std::min(at_once, model.context);
  const auto compared = uint32_t(std::min<double>(fed, std::clamp(products / for_one, min_tokens, max_tokens)));

  if (!cut.output) return brief_states_selftest(cut, make, compared, exact ? exact_bar : rounded_bar);

  std::vector<uint32_t> tokens(fed);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = uint32_t(engine::random_bits(6, i) % cut.vocabulary);
  model::Limits limits = model::limits_for(fed);
  limits.kv = kv;
  const auto reference = cpu::make_reference(cut, limits);
  const auto backend = make(cut, limits);
  model::Session judge(cut, *reference, limits), session(cut, *backend, limits);
  std::vector<float> right;
  judge.feed_each(std::span(tokens).first(compared),
                  [&](size_t, std::span<const float> row) { right.insert(right.end(), row.begin(), row.end()); });
  const auto right_at = [&](size_t i) { return std::span(right).subspan(i * cut.vocabulary, cut.vocabulary); };

  const double bar = exact ? exact_bar : rounded_bar;
  std::vector<ModelCheck> checks{{.name = fmt::format("{} tokens at once", fed)}, {.name = "one by one"}};
  session.feed_each(tokens, [&](size_t i, std::span<const float> row) {
    if (i < compared) checks[0].closeness.add(right_at(i), row);
  });
  session.rewind(0);
  for (uint32_t i = 0; i < compared; ++i) checks[1].closeness.add(right_at(i), session.feed({&tokens[i], 1}));
  bool passed = true;
  for (ModelCheck& check : checks) {
    const bool near = check.closeness.cosine >= bar;
    check.outcome = near ? ModelCheck::Outcome::passed : ModelCheck::Outcome::failed;
    passed &= near;
  }
  if (!passed)
    throw SelftestFailed(
        "{}: {} is wrong: expected logits of {} layers with a cosine of at least {} to those of the reference, found\n"
        "{}--device cpu runs on the CPU, --no-selftest without this check",
        model.name, backend->describe(), cut.layers.size(), bar, table_of(checks));
}

}  // namespace heddle
