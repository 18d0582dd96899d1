// Which part of each sublayer a rank has.
#include "model/shard.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "model/shard_cuts.h"
#include "model/split.h"

namespace heddle::model {
namespace {

// Whether a norm of heads is over all of them together.
bool spans_heads(const Norm& norm, uint64_t heads, uint64_t head, bool own) {
  return heads > 1 && !own && norm.weight.size() == heads * head &&
         (norm.kind == Norm::Kind::rms || norm.kind == Norm::Kind::layer);
}

class Shard {
 public:
  Shard(const Model& model, uint32_t rank, uint32_t ranks, const ShardOptions& options)
      : model_(model), rank_(rank), ranks_(ranks), options_(options) {}

  Model make() {
    Model to = frame_of(model_);
    to.embedding = model_.embedding;
    to.positions = model_.positions;
    to.type_embeddings = model_.type_embeddings;
    to.embedding_norm = model_.embedding_norm;
    to.token_inputs = model_.token_inputs;
    to.output = model_.output;
    to.output_bias = model_.output_bias;
    to.dense = model_.dense;
    to.classifier = model_.classifier;
    to.file = model_.file;
    for (const Layer& layer : model_.layers) {
      Layer& part = to.layers.emplace_back(Layer{
          .parallel = layer.parallel, .residual_scale = layer.residual_scale, .output_scale = layer.output_scale});
      for (const Sublayer& sublayer : layer.sublayers)
        part.sublayers.push_back(std::visit([&](const auto& kind) { return Sublayer(cut(kind)); }, sublayer));
    }
    cut_vocabulary(to);
    to.storage = std::move(cuts_.storage);
    return to;
  }

 private:
  bool is_first() const { return rank_ == 0; }
  // A bias after a sum is added by one rank.
  Vector once(const Vector& bias) const { return is_first() ? bias : Vector(); }

  void cut_vocabulary(Model& to) {
    const uint64_t rows = model_.output.rows, unit = can_deal(rows, 32, ranks_) ? 32 : 1;
    if (!can_deal(rows, unit, ranks_)) return;
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      to.output_parts.push_back(deal_in_units(rows, unit, rank, ranks_).count);
    const Slices own{deal_in_units(rows, unit, rank_, ranks_)};
    to.output = cuts_.rows(model_.output, own);
    to.output_bias = Cuts::values(model_.output_bias, own);
  }

  // --- attention -----------------------------------------------------------------------------------------------------
  // The heads of all ranks; empty: it is computed whole. They are cut where the blocks of the output matrix end, or
  // else, with its columns in f16, between any two heads. Attentions with one KV cache are cut at the same key heads.
  std::vector<RankHeads> deal_heads_of(const Attention& a) const {
    std::vector<const Attention*> members{&a};
    each_attention(model_, [&](const Attention& other) {
      if (a.shared_cache && other.shared_cache == a.shared_cache) members.push_back(&other);
    });
    for (const bool at_blocks : {true, false}) {
      std::vector<HeadShape> shapes;
      uint64_t key_unit = 1;
      for (const Attention* member : members) {
        const uint64_t value = member->output_cols() / member->heads;
        shapes.push_back({.heads = member->heads, .key_heads = member->kv_heads});
        if (at_blocks) shapes.back().unit = things_for(quant::block_values(member->output.format), value);
        key_unit = std::lcm(key_unit, shapes.back().key_unit());
      }
      const std::vector<RankHeads> all = deal_heads(shapes[0], key_unit, ranks_);
      bool can_cut = !all.empty();
      for (size_t i = 0; can_cut && i < members.size(); ++i) {
        const std::vector<RankHeads> its = deal_heads(shapes[i], key_unit, ranks_);
        can_cut = can_normalise(*members[i]) &&
                  std::equal(its.begin(), its.end(), all.begin(), all.end(),
                             [](const RankHeads& left, const RankHeads& right) { return left.keys == right.keys; });
      }
      if (can_cut) return all;
    }
    return {};
  }
  // Whether its norms of heads can be computed by ranks with some of them.
  bool can_normalise(const Attention& a) const {
    if (a.latent) return true;
    const bool q = spans_heads(a.q_norm, a.heads, a.head, a.own_head_norms);
    const bool k = spans_heads(a.k_norm, a.kv_heads, a.head, a.own_head_norms);
    const bool v = spans_heads(a.v_norm, a.kv_heads, a.value_head, false);
    return !v && (!q || can_be_across(a.q_norm)) && (!k || can_be_across(a.k_norm));
  }
  // One more small sum.
  static bool can_be_across(const Norm& norm) { return norm.kind == Norm::Kind::rms; }

  Attention cut(const Attention& a) {
    const std::vector<RankHeads> all = deal_heads_of(a);
    if (all.empty()) return a;
    const RankHeads& own = all[rank_];
    Attention to = a;
    to.partial = true;
    to.heads = uint32_t(count_of(own.heads));
    to.q = cuts_.rows(a.q, times(own.heads, a.q.rows / a.heads));
    to.q_bias = Cuts::values(a.q_bias, times(own.heads, a.head));
    to.gate = cuts_.rows(a.gate, times(own.heads, a.gate.rows / a.heads));
    to.sinks = Cuts::values(a.sinks, own.heads);
    to.slopes = Cuts::values(a.slopes, own.heads);
    to.output = cuts_.columns(a.output, times(own.heads, a.output_cols() / a.heads));
    to.output_bias = once(a.output_bias);
    if (a.latent) {
      const Slice& heads = own.heads.at(0);
      to.latent->k_up = some_experts(a.latent->k_up, heads);
      to.latent->v_up = some_experts(a.latent->v_up, heads);
      return to;
    }
    const Slices keys = times(own.keys, a.head), values = times(own.keys, a.value_head);
    to.kv_heads = uint32_t(count_of(own.keys));
    to.k = cuts_.rows(a.k, keys);
    to.v = a.values_are_keys() ? to.k : cuts_.rows(a.v, values);
    to.k_bias = Cuts::values(a.k_bias, keys);
    to.v_bias = Cuts::values(a.v_bias, values);
    to.q_norm = cut_norm(a.q_norm, a.heads, a.head, own.heads, a.own_head_norms, true);
    to.k_norm = cut_norm(a.k_norm, a.kv_heads, a.head, own.keys, a.own_head_norms, own.copy == 0);
    return to;
  }
  // Of a norm of heads that has weights for all of them, those of the ranges.
  static Norm cut_norm(const Norm& norm, uint64_t heads, uint64_t head, const Slices& own_heads, bool own,
                       bool counted) {
    if (heads == 1 || norm.weight.size() != heads * head) return norm;
    Norm to = norm;
    to.weight = Cuts::values(norm.weight, times(own_heads, head));
    to.bias = Cuts::values(norm.bias, times(own_heads, head));
    if (spans_heads(norm, heads, head, own)) to.across = Norm::Across{.size = heads * head, .counted = counted};
    return to;
  }

  // --- feed-forwards -------------------------------------------------------------------------------------------------
  // The inner values of a rank; unset: it is computed whole. Gates with a cutoff need all products of the gate.
  std::optional<Slices> inner_of(const Matrix& down) const {
    const uint64_t unit = column_unit(down.format, down.cols, ranks_);
    if (!can_deal(down.cols, unit, ranks_)) return {};
    return Slices{deal_in_units(down.cols, unit, rank_, ranks_)};
  }
  // Whether some rank has more than 5/4 of an even share of the columns.
  bool is_uneven(const Matrix& down) const {
    const uint64_t unit = column_unit(down.format, down.cols, ranks_);
    return deal_in_units(down.cols, unit, 0, ranks_).count * ranks_ * 4 > down.cols * 5;
  }
  FeedForward cut(const FeedForward& f) {
    const std::optional<Slices> inner = inner_of(f.down);
    if (!inner || f.cutoff || f.token_input || f.to_other_streams) return f;
    FeedForward to = f;
    to.partial = true;
    to.gate = cuts_.rows(f.gate, *inner);
    to.up = cuts_.rows(f.up, *inner);
    to.down = cuts_.columns(f.down, *inner);
    to.gate_bias = Cuts::values(f.gate_bias, *inner);
    to.up_bias = Cuts::values(f.up_bias, *inner);
    to.down_bias = once(f.down_bias);
    return to;
  }

  // --- mixtures ------------------------------------------------------------------------------------------------------
  Mixture cut(const Mixture& m) {
    const std::optional<Slices> inner = inner_of(m.down.all);
    const bool by_expert =
        can_deal(m.up.count, 1, ranks_) && (options_.expert_parallel || !inner || is_uneven(m.down.all));
    Mixture to = m;
    if (by_expert)
      take_experts(m, to);
    else if (inner)
      take_inner(m, *inner, to);
    else
      return m;
    to.partial = true;
    if (m.shared) take_shared(m, to);
    return to;
  }
  // Whole experts. The router is every rank's.
  void take_experts(const Mixture& m, Mixture& to) const {
    const Slice own = deal(m.up.count, rank_, ranks_);
    const auto part = [&](const Vector& bias) {
      return Cuts::values(bias, times({own}, bias.size() / std::max<uint64_t>(m.up.count, 1)));
    };
    to.first_expert = uint32_t(own.first);
    to.gate = some_experts(m.gate, own);
    to.up = some_experts(m.up, own);
    to.down = some_experts(m.down, own);
    to.gate_bias = part(m.gate_bias);
    to.up_bias = part(m.up_bias);
    to.down_bias = part(m.down_bias);
  }
  // A part of every expert.
  void take_inner(const Mixture& m, const Slices& inner, Mixture& to) {
    Slices of_all;
    for (uint64_t i = 0; i < m.up.count; ++i) of_all = joined(std::move(of_all), moved(inner, i * m.down.all.cols));
    to.gate = cuts_.rows(m.gate, inner);
    to.up = cuts_.rows(m.up, inner);
    to.down.all = cuts_.columns(m.down.all, inner);
    to.gate_bias = Cuts::values(m.gate_bias, of_all);
    to.up_bias = Cuts::values(m.up_bias, of_all);
    to.down_bias = once(m.down_bias);
  }
  // A shared expert that cannot be cut is the first rank's, unless its result is normalised by itself.
  void take_shared(const Mixture& m, Mixture& to) {
    to.shared = cut(*m.shared);
    if (to.shared->partial || m.adds_normalised()) return;
    if (is_first()) {
      to.shared->partial = true;
    } else {
      to.shared.reset();
      to.shared_router.clear();
    }
  }

  // --- sublayers with a state ----------------------------------------------------------------------------------------
  static bool has_norm(const Recurrence& r) {
    return r.gated_norm.kind == Norm::Kind::rms || r.gated_norm.kind == Norm::Kind::layer;
  }
  // The heads of all ranks, such that `values` values of the results stay together; empty: some rank would have none.
  std::vector<RankHeads> deal_heads_of(const Recurrence& r, uint64_t values) const {
    const HeadShape shape{
        .heads = r.heads, .key_heads = r.key_heads, .unit = things_for(values, r.value), .tiled = r.tiled};
    return deal_heads(shape, shape.key_unit(), ranks_);
  }
  // Values that are normalised together stay together, or all of a rank's are among them.
  Recurrence cut(const Recurrence& r) {
    const uint64_t block = quant::block_values(r.output.format);
    std::vector<RankHeads> all = deal_heads_of(r, has_norm(r) ? std::lcm(block, uint64_t(r.norm_size)) : block);
    const bool across = all.empty() && has_norm(r);
    if (across) {
      all = deal_heads_of(r, block);
      const bool in_one_group = std::all_of(all.begin(), all.end(), [&](const RankHeads& rank) {
        const uint64_t first = rank.heads[0].first * r.value, count = rank.heads[0].count * r.value;
        return rank.heads.size() == 1 && first / r.norm_size == (first + count - 1) / r.norm_size;
      });
      if (!in_one_group || !can_be_across(r.gated_norm)) return r;
    }
    if (all.empty()) return r;
    const RankHeads& own = all[rank_];
    Recurrence to = r;
    take_heads(r, own, to);
    if (across) {
      to.norm_size = uint32_t(to.values());
      to.gated_norm.across = Norm::Across{.size = r.norm_size,
                                          .group = uint32_t(own.heads[0].first * r.value / r.norm_size),
                                          .groups = uint32_t(r.values() / r.norm_size)};
    }
    return to;
  }
  void take_heads(const Recurrence& r, const RankHeads& own, Recurrence& to) {
    const Slices values = times(own.heads, r.value), keys = times(own.keys, r.key);
    const Slices of_values = moved(values, r.values_at()), of_keys = moved(keys, r.keys_at()),
                 of_queries = moved(keys, r.queries_at());
    const Slices mixed = r.rule == Recurrence::Rule::delta ? joined(joined(of_queries, of_keys), of_values)
                                                           : joined(joined(of_values, of_keys), of_queries);
    to.partial = true;
    to.heads = uint32_t(count_of(own.heads));
    to.key_heads = uint32_t(count_of(own.keys));
    to.mixed = cuts_.rows(r.mixed, mixed);
    to.convolution = cut(r.convolution, mixed);
    to.gate = cuts_.rows(r.gate, values);
    to.steps = cuts_.rows(r.steps, own.heads);
    to.step_bias = Cuts::values(r.step_bias, own.heads);
    to.rates = Cuts::values(r.rates, own.heads);
    to.betas = cuts_.rows(r.betas, own.heads);
    to.skip = Cuts::values(r.skip, own.heads);
    to.gated_norm.weight = Cuts::values(r.gated_norm.weight, values);
    to.gated_norm.bias = Cuts::values(r.gated_norm.bias, values);
    to.output = cuts_.columns(r.output, values);
  }
  static Convolution cut(const Convolution& c, const Slices& channels) {
    return {c.width, Cuts::values(c.weight, times(channels, c.width)), Cuts::values(c.bias, channels)};
  }

  ShortConvolution cut(const ShortConvolution& c) {
    const std::optional<Slices> own = inner_of(c.output);
    if (!own) return c;
    const uint64_t channels = c.output.cols;
    ShortConvolution to = c;
    to.partial = true;
    to.in = cuts_.rows(c.in, joined(joined(*own, moved(*own, channels)), moved(*own, 2 * channels)));
    to.convolution = cut(c.convolution, *own);
    to.output = cuts_.columns(c.output, *own);
    return to;
  }

  static Altup cut(const Altup& a) { return a; }
  static NextHead cut(const NextHead& h) { return h; }

  const Model& model_;
  const uint32_t rank_, ranks_;
  const ShardOptions options_;
  Cuts cuts_;
};

std::string_view kind_of(const Sublayer& sublayer) {
  return std::visit(
      Overloaded{[](const Attention&) { return "attention"; }, [](const FeedForward&) { return "feed-forward"; },
                 [](const Mixture&) { return "mixture"; }, [](const Recurrence&) { return "recurrence"; },
                 [](const ShortConvolution&) { return "convolution"; }, [](const Altup&) { return "AltUp"; },
                 [](const NextHead&) { return "next-token head"; }},
      sublayer);
}

}  // namespace

Model shard_of(const Model& model, uint32_t rank, uint32_t ranks, const ShardOptions& options) {
  check(ranks > 1 && rank < ranks && !is_shard(model), "a rank of several, and a model that is not cut yet");
  return Shard(model, rank, ranks, options).make();
}

bool is_shard(const Model& model) {
  if (!model.output_parts.empty()) return true;
  for (const Layer& layer : model.layers)
    if (std::any_of(layer.sublayers.begin(), layer.sublayers.end(), is_partial)) return true;
  return false;
}

std::vector<CutCount> count_cuts(const Model& shard) {
  std::vector<CutCount> counts;
  const auto count = [&](std::string_view kind, bool is_cut) {
    auto found = std::find_if(counts.begin(), counts.end(), [&](const CutCount& c) { return c.kind == kind; });
    if (found == counts.end()) found = counts.insert(found, CutCount{.kind = std::string(kind)});
    ++(is_cut ? found->cut : found->whole);
  };
  for (const Layer& layer : shard.layers)
    for (const Sublayer& sublayer : layer.sublayers) count(kind_of(sublayer), is_partial(sublayer));
  if (shard.output) count("output", !shard.output_parts.empty());
  return counts;
}

}  // namespace heddle::model
