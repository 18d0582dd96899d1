// What comes after a token does not matter to it, so that more can be fed at once than the reference computes.
#include "main/device/brief_selftest.h"

#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "cpu/cpu.h"
#include "engine/sampling/numbers.h"
#include "main/device/closeness.h"
#include "main/device/model_checks.h"
#include "model/session.h"

namespace heddle {
namespace {

constexpr uint64_t most_logits = 1024;         // rows of the output
constexpr uint32_t at_once = 16;               // tokens: more than the product for few rows takes
constexpr double products_per_second = 0.8e9;  // of the reference, on one core
// Least cosine. Of tokens that make no sense, and few layers, rounding to int8 weighs more than in a text; what is
// computed wrong is far below.
constexpr double exact_bar = 0.9999, rounded_bar = 0.99;
constexpr double least_tokens = 3, most_tokens = 12;  // that are compared

double products_of(const model::Layer& layer) {
  double sum = 0;
  for (const model::SublayerMatrix& m : model::matrices_of(layer))
    sum += double(m.matrix->rows) * double(m.matrix->cols) * double(m.used) / double(m.experts);
  return sum;
}

// Layers with the same kind are computed by the same kernels.
using LayerKind = std::vector<uint64_t>;
LayerKind kind_of(const model::Layer& layer) {
  LayerKind kind{layer.parallel};
  for (const model::Sublayer& sublayer : layer.sublayers) {
    kind.push_back(sublayer.index());
    if (const auto* a = std::get_if<model::Attention>(&sublayer))
      kind.insert(kind.end(), {a->heads, a->kv_heads, a->head, a->window != 0, uint64_t(a->rope.style)});
    for (const model::SublayerMatrix& m : model::matrices_of(sublayer))
      kind.insert(kind.end(), {uint64_t(m.matrix->format), m.matrix->rows, m.matrix->cols});
  }
  return kind;
}

}  // namespace

model::Model cut_model(const model::Model& model, double products) {
  model::Model cut{.name = model.name,
                   .architecture = model.architecture,
                   .context = model.context,
                   .width = model.width,
                   .vocabulary = uint32_t(std::min<uint64_t>(model.vocabulary, most_logits)),
                   .embedding = {},
                   .positions = model.positions,
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
  cut.output = model.output.slice(0, cut.vocabulary);
  if (!cut.output_bias.empty()) cut.output_bias.resize(cut.vocabulary);
  std::set<LayerKind> kinds;
  double used = 0;
  for (const model::Layer& layer : model.layers) {
    const double more = products_of(layer);
    if ((!cut.layers.empty() && used + more > products) || !kinds.insert(kind_of(layer)).second) continue;
    cut.layers.push_back(layer);
    used += more;
  }
  return cut;
}

void brief_selftest(const model::Model& model, const MakeBackend& make, bool exact, model::KvFormat kv,
                    double seconds) {
  const double products = seconds * products_per_second * double(hardware_threads());
  const model::Model cut = cut_model(model, products / least_tokens);
  double for_one = double(cut.output.rows) * double(cut.output.cols);
  for (const model::Layer& layer : cut.layers) for_one += products_of(layer);
  const uint32_t most = std::min(at_once, model.context);
  const auto compared = uint32_t(std::min<double>(most, std::clamp(products / for_one, least_tokens, most_tokens)));

  std::vector<uint32_t> tokens(most);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = uint32_t(engine::random_bits(6, i) % cut.vocabulary);
  model::Limits limits = model::limits_for(most);
  limits.kv = kv;
  const auto reference = cpu::make_reference(cut, limits);
  const auto backend = make(cut, limits);
  model::Session judge(cut, *reference, limits), session(cut, *backend, limits);
  std::vector<float> right;
  judge.feed_each(std::span(tokens).first(compared),
                  [&](size_t, std::span<const float> row) { right.insert(right.end(), row.begin(), row.end()); });
  const auto right_at = [&](size_t i) { return std::span(right).subspan(i * cut.vocabulary, cut.vocabulary); };

  const double bar = exact ? exact_bar : rounded_bar;
  std::vector<ModelCheck> checks{{fmt::format("{} tokens at once", most), {}, true, {}}, {"one by one", {}, true, {}}};
  session.feed_each(tokens, [&](size_t i, std::span<const float> row) {
    if (i < compared) checks[0].closeness.add(right_at(i), row);
  });
  session.rewind(0);
  for (uint32_t i = 0; i < compared; ++i) checks[1].closeness.add(right_at(i), session.feed({&tokens[i], 1}));
  bool passed = true;
  for (ModelCheck& check : checks) passed &= check.passed = check.closeness.cosine >= bar;
  if (!passed)
    throw SelftestFailed(
        "{}: {} is wrong: expected logits of {} layers with a cosine of at least {} to those of the reference, found\n"
        "{}--device cpu runs on the CPU, --no-selftest without this check",
        model.name, backend->describe(), cut.layers.size(), bar, table_of(checks));
}

}  // namespace heddle
