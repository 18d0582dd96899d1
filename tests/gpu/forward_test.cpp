// Whole plans by value: every architecture and option through every path of the backend, interpreted and compared with
// the reference.
#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/cpu/small_model.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"
#include "tests/support/windows.h"

namespace heddle::gpu {
namespace {

using model::KvFormat;
using quant::Format;

// Keys, values and, where the matrix units multiply, activations are rounded to f16: 5e-4 each.
constexpr double f16_bound = 4e-3, exact_bound = 2e-3;

class Plans : public InterpretedGpu {};
class SlowPlansOfArchitectures : public Plans, public testing::WithParamInterface<std::string> {
 protected:
  model::Model load(const test::Folder& folder) {
    const test::Fixture fixture(GetParam());
    fixture.write(folder, fixture.config, Format::f16);
    return model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  }
  const model::Limits limits_{.rows = 80, .kv_blocks = 40, .block_tokens = 16, .state_slots = 8};
};

// Of all models but those that have more tests below: one row, two, and more than 16; a prompt in chunks, and streams
// beside it.
TEST_P(SlowPlansOfArchitectures, GiveTheReferencesLogits) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted(), f16_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 5}});
  both.feed({{0, 1}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{1, 1}, {3, 14}, {0, 2}}, BesideReference::last);
}
std::vector<std::string> others_of_their_classes() {
  std::vector<std::string> all = test::Fixture::names_of_text_models();
  for (const std::string& name : test::Fixture::one_of_each_class()) std::erase(all, name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfArchitectures, testing::ValuesIn(others_of_their_classes()),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Of one model of each class, all numbers of rows that matter: one row, two, three, five, nine, 17 and more than 64;
// the same step again; and other options.
class SlowPlansOfClasses : public SlowPlansOfArchitectures {};
TEST_P(SlowPlansOfClasses, GiveTheReferencesLogits) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted(), f16_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 5}});
  both.feed({{0, 1}});
  both.feed({{0, 1}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{0, 1}, {2, 1}, {1, 1}});
  both.feed({{0, 4}, {1, 5}}, BesideReference::last);
  both.feed({{2, 1}, {3, 14}, {1, 2}}, BesideReference::last);
  both.feed({{4, 26}, {5, 26}, {2, 1}, {3, 12}}, BesideReference::last);
}

TEST_P(SlowPlansOfClasses, GiveThemExactly) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted({.exact = true}), exact_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 3}});
  both.feed({{0, 1}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{0, 1}, {2, 7}, {1, 1}}, BesideReference::last);
}

TEST_P(SlowPlansOfClasses, GiveThemDeterministically) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted({.deterministic = true}), f16_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 3}});
  both.feed({{0, 1}});
  both.feed({{0, 1}, {2, 7}, {1, 1}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfClasses, testing::ValuesIn(test::Fixture::one_of_each_class()),
                         [](const auto& one) { return test::as_test_name(one.param); });

// A q8 cache with norms of values, values that are keys, and layers that share it. With activations of f32: a value
// that is rounded to another int8 than the reference's is off by 1/127.
class SlowPlansOfSmallCaches : public SlowPlansOfArchitectures {};
TEST_P(SlowPlansOfSmallCaches, GiveTheReferencesLogits) {
  const test::Folder folder;
  const model::Model model = load(folder);
  model::Limits limits = limits_;
  limits.kv = KvFormat::q8;
  BesideReference both(model, limits, interpreted({.exact = true}), exact_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 5}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{1, 1}, {3, 14}, {0, 2}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfSmallCaches, testing::Values("gemma4", "gemma4-inputs", "gemma3n-streams"),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Steps that follow one another, the first of them a text's first token; and texts that part from another.
class SlowPlansOfStates : public SlowPlansOfArchitectures {};
TEST_P(SlowPlansOfStates, FollowAndPart) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted(), f16_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 6}});
  both.pick({1, 0}, 2);
  both.copy(0, 2);
  both.feed({{0, 3}, {2, 1}}, BesideReference::last);
  both.feed({{2, 2}, {0, 1}}, BesideReference::last);
}
// A prompt of two chunks; one of a chunk beside a step and a prompt that is too short for one; steps after both.
TEST_P(SlowPlansOfStates, TakePromptsInChunks) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, interpreted(), f16_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed_many({{0, 70}});
  both.feed_many({{0, 1}, {1, 32}, {2, 3}});
  both.feed({{2, 1}, {0, 1}, {1, 1}});
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfStates,
                         testing::ValuesIn(test::Fixture::with_states(test::Fixture::one_of_each_class(), true)),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Two layers whose heads the fast kernels take: the first with q, k and v in one product, the second with norms of q
// and k, a window and capped scores.
test::Builder wide_model(uint32_t head, Format format = Format::f16) {
  test::Builder builder({.format = format, .width = 64, .heads = 4, .kv_heads = 2, .head = head, .inner = 96});
  builder.model().context = 128;
  auto& second = builder.model().layers[1].get<model::Attention>();
  second.q_norm = builder.norm(head);
  second.k_norm = builder.norm(head);
  second.window = 11;
  second.softcap = 5;
  return builder;
}

constexpr uint32_t without_wgmma = 100;  // compute capability

struct KindOfPlan {
  uint32_t head;
  KvFormat kv;
  Options options;
  uint32_t sm = 90;
  std::string name() const {
    return fmt::format("{}_{}{}{}{}", head, kv == KvFormat::q8 ? "q8" : "f16", options.exact ? "_exact" : "",
                       options.deterministic ? "_deterministic" : "", sm == without_wgmma ? "_without_wgmma" : "");
  }
};
std::vector<KindOfPlan> kinds_of_plans() {
  std::vector<KindOfPlan> all;
  const Options exact{.exact = true}, deterministic{.deterministic = true};
  for (KvFormat kv : {KvFormat::f16, KvFormat::q8}) {
    for (const Options& options : {Options{}, deterministic}) all.push_back({32, kv, options});  // any_attention
    for (const Options& options : {Options{}, exact, deterministic}) all.push_back({64, kv, options});
    all.push_back({128, kv, {}});
    all.push_back({512, kv, {}});
    all.push_back({64, kv, {}, without_wgmma});
  }
  for (uint32_t head : {18u, 80u}) all.push_back({head, KvFormat::q8, {}});  // groups of less than 32 values
  return all;
}

class SlowPlansOfAttention : public Plans, public testing::WithParamInterface<KindOfPlan> {};
TEST_P(SlowPlansOfAttention, GiveTheReferencesLogits) {
  const KindOfPlan& kind = GetParam();
  control().sm = kind.sm;
  test::Builder builder = wide_model(kind.head);
  const model::Limits limits{.rows = 80, .kv_blocks = 64, .block_tokens = 16, .kv = kind.kv};
  BesideReference both(builder.model(), limits, interpreted(kind.options), f16_bound);
  both.feed({{0, 5}});
  both.feed({{0, 1}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{0, 1}, {2, 1}, {1, 1}});
  both.feed({{0, 1}, {3, 17}, {1, 2}}, BesideReference::last);
  if (kind.options.exact || kind.options.deterministic) return;
  both.feed({{3, 1}, {4, 65}, {1, 10}}, BesideReference::last);
  both.feed({{4, 1}, {1, 1}});
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfAttention, testing::ValuesIn(kinds_of_plans()),
                         [](const auto& one) { return one.param.name(); });

// What a token sees, and what its scores are given, on every path of attention.
struct KindOfSight {
  std::string name;
  bool sinks = false, slopes = false, causal = true;
  uint32_t first_window = 0, first_chunk = 0;  // of the first layer
};
std::vector<KindOfSight> kinds_of_sight() {
  return {{.name = "sinks", .sinks = true, .first_window = 11},
          {.name = "slopes", .slopes = true, .first_window = 11},
          {.name = "chunks", .first_chunk = 7},
          {.name = "sloped_chunks_and_sinks", .sinks = true, .slopes = true, .first_chunk = 16},
          {.name = "both_directions", .causal = false, .first_window = 8},
          {.name = "sloped_both_directions", .sinks = true, .slopes = true, .causal = false}};
}
class SlowPlansOfSight : public Plans, public testing::WithParamInterface<std::tuple<KindOfSight, KindOfPlan>> {};
TEST_P(SlowPlansOfSight, GiveTheReferencesLogits) {
  const auto& [sight, kind] = GetParam();
  control().sm = kind.sm;
  test::Builder builder(
      {.format = Format::f16, .width = 64, .heads = 4, .kv_heads = 2, .head = kind.head, .inner = 96});
  builder.model().context = 128;
  for (model::Layer& layer : builder.model().layers) {
    auto& a = layer.get<model::Attention>();
    if (sight.sinks) a.sinks = builder.random(4, 1);
    if (sight.slopes) a.slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
    a.causal = sight.causal;
  }
  auto& first = builder.model().layers[0].get<model::Attention>();
  first.window = sight.first_window;
  first.chunk = sight.first_chunk;
  const model::Limits limits{.rows = 80, .kv_blocks = 64, .block_tokens = 16, .kv = kind.kv};
  model::Limits with_windows = limits;  // as few as it takes: blocks that were given back are written to by others
  if (sight.causal) with_windows.window_blocks = 14;
  auto backend = make_gpu(builder.model(), with_windows, interpreted(kind.options));
  if (sight.causal) backend = std::make_unique<test::WithWindows>(builder.model(), with_windows, std::move(backend));
  BesideReference both(builder.model(), limits, std::move(backend), f16_bound);
  both.feed({{0, 20}});
  both.feed({{1, 1}});
  both.feed({{2, 1}, {3, 17}, {4, 9}, {5, 1}});  // one of them alone, among others
  if (!kind.options.exact && !kind.options.deterministic) both.feed({{6, 70}}, BesideReference::last);
  if (!sight.causal) return;  // whole texts alone
  both.feed({{0, 1}});
  both.feed({{3, 1}, {0, 1}, {2, 1}});
  both.feed({{0, 1}, {4, 12}, {1, 2}}, BesideReference::last);
  if (kind.options.exact || kind.options.deterministic) return;
  both.feed({{6, 1}, {3, 20}}, BesideReference::last);
  both.feed({{6, 1}, {3, 5}}, BesideReference::last);
  both.pick({3, 0}, 7);  // batches that follow one another, from one block to the next
}
INSTANTIATE_TEST_SUITE_P(
    All, SlowPlansOfSight,
    testing::Combine(testing::ValuesIn(kinds_of_sight()),
                     testing::Values(KindOfPlan{64, KvFormat::f16, {}}, KindOfPlan{64, KvFormat::q8, {}},
                                     KindOfPlan{64, KvFormat::f16, {.exact = true}},
                                     KindOfPlan{64, KvFormat::f16, {.deterministic = true}},
                                     KindOfPlan{64, KvFormat::f16, {}, without_wgmma},
                                     KindOfPlan{32, KvFormat::f16, {}})),
    [](const auto& one) { return std::get<0>(one.param).name + "_" + std::get<1>(one.param).name(); });

// More query heads to a kv head than cluster_attention computes at once: groups of six and five.
TEST_F(Plans, SlowManyHeadsToAKvHeadGiveTheReferencesLogits) {
  test::Builder builder({.format = Format::f16, .width = 64, .heads = 11, .kv_heads = 1, .head = 64, .inner = 96});
  builder.model().context = 128;
  for (const Options& options : {Options{}, Options{.deterministic = true}}) {
    BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16}, interpreted(options),
                         f16_bound);
    both.feed({{0, 20}});
    both.feed({{0, 1}, {1, 1}});
    both.feed({{1, 1}, {2, 9}, {0, 2}}, BesideReference::last);
  }
}

// Mixtures: rows one by one, a few, and grouped by expert, with all that may surround the experts.
struct KindOfMixture {
  std::string name;
  Format format = Format::f16;
  bool norm = false;   // after the first layer's experts
  bool apart = false;  // gate and up have different formats
  uint32_t used = 2;
  Options options = {};
  uint32_t sm = 90;
  void (*change)(test::Builder&, model::Mixture&) = [](test::Builder&, model::Mixture&) {};
};
// As gpt-oss has them: a bias of the router, and of all matrices of an expert.
void set_biases(test::Builder& builder, model::Mixture& m) {
  m.activation = model::Activation::clamped_swiglu;
  m.router_bias = builder.random(6, 0.5);
  m.gate_bias = builder.random(6 * 256, 0.5);
  m.up_bias = builder.random(6 * 256, 0.5);
  m.down_bias = builder.random(6 * 256, 0.5);
}
// As DeepSeek has it: sigmoids, picked with a bias from two of three groups.
void set_groups(test::Builder& builder, model::Mixture& m) {
  m.routing.score = model::Routing::Score::sigmoid;
  m.routing.bias = builder.random(6, 0.3);
  m.routing.groups = 3;
  m.routing.groups_used = 2;
  m.routing.weights_sum_to_one = true;
  m.routing.scale = 2.5f;
}
void set_best_groups(test::Builder&, model::Mixture& m) {
  m.routing.groups = 3;
  m.routing.groups_used = 1;
  m.routing.groups_by_two = false;
  m.routing.scale = 1.5f;
}
void set_sparsemixer(test::Builder&, model::Mixture& m) {
  m.routing.score = model::Routing::Score::sparsemixer;
  m.routing.near = 0.7f;
}
// As Llama 4 has it.
void set_weighed_input(test::Builder& builder, model::Mixture& m) {
  m.routing.score = model::Routing::Score::sigmoid;
  m.routing.weights_sum_to_one = false;
  m.routing.weigh_input = true;
  m.up_bias = builder.random(6 * 256, 0.5);
}
std::vector<KindOfMixture> kinds_of_changed_mixtures() {
  return {{.name = "biases", .change = set_biases},
          {.name = "biases_without_wgmma", .norm = true, .sm = without_wgmma, .change = set_biases},
          {.name = "biases_apart", .apart = true, .change = set_biases},
          {.name = "biases_int8_sums", .format = Format::q8_0, .used = 5, .change = set_biases},
          {.name = "biases_exact", .options = {.exact = true}, .change = set_biases},
          {.name = "biases_deterministic", .options = {.deterministic = true}, .change = set_biases},
          {.name = "groups", .change = set_groups},
          {.name = "groups_without_wgmma", .sm = without_wgmma, .change = set_groups},
          {.name = "best_groups", .change = set_best_groups},
          {.name = "sparsemixer", .change = set_sparsemixer},
          {.name = "weighed_input", .change = set_weighed_input},
          {.name = "weighed_input_one", .used = 1, .sm = without_wgmma, .change = set_weighed_input},
          {.name = "weighed_input_apart", .apart = true, .change = set_weighed_input},
          {.name = "relu_squared",
           .change = [](test::Builder&, model::Mixture& m) { m.activation = model::Activation::relu_squared; }}};
}
std::vector<KindOfMixture> kinds_of_mixtures() {
  return {{.name = "f16"},
          {.name = "without_wgmma", .norm = true, .sm = without_wgmma},
          {.name = "without_wgmma_q8_0", .format = Format::q8_0, .used = 5, .sm = without_wgmma},
          {.name = "norm", .norm = true},
          {.name = "apart", .apart = true},
          {.name = "int8_sums", .format = Format::q8_0, .used = 5},
          {.name = "exact", .format = Format::q4_k, .options = {.exact = true}},
          {.name = "deterministic", .norm = true, .options = {.deterministic = true}}};
}
class SlowPlansOfMixtures : public Plans, public testing::WithParamInterface<KindOfMixture> {};
TEST_P(SlowPlansOfMixtures, GiveTheReferencesLogits) {
  const KindOfMixture& kind = GetParam();
  control().sm = kind.sm;
  test::Builder builder = test::mixture(kind.format);
  builder.model().context = 128;
  for (model::Layer& layer : builder.model().layers) {
    auto& m = layer.get<model::Mixture>();
    m.routing.used = kind.used;
    if (kind.apart) m.gate.all = builder.matrix(Format::f32, 6 * 256, 256, 1 / 16.0);
    kind.change(builder, m);
  }
  if (kind.norm) builder.model().layers[0].get<model::Mixture>().output_norm = builder.norm(256);
  BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16}, interpreted(kind.options),
                       f16_bound);
  both.feed({{0, 3}});
  both.feed({{0, 1}});
  both.feed({{0, 1}, {1, 1}});
  both.feed({{0, 1}, {2, 8}}, BesideReference::last);
  if (kind.options.exact || kind.options.deterministic) return;
  both.feed({{1, 60}, {0, 6}, {2, 1}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfMixtures, testing::ValuesIn(kinds_of_mixtures()),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Changed, SlowPlansOfMixtures, testing::ValuesIn(kinds_of_changed_mixtures()),
                         [](const auto& one) { return one.param.name; });

// What the layers of some architectures have, in all layers of a model.
struct KindOfLayers {
  std::string name;
  void (*change)(test::Builder&);
  KvFormat kv = KvFormat::f16;
  Options options = {};
  uint32_t sm = 90;
};
void each_layer(test::Builder& builder, auto&& change) {
  for (model::Layer& layer : builder.model().layers)
    change(layer.get<model::Attention>(), layer.get<model::FeedForward>());
}
// As BERT has them: norms of the embedding and of the residual stream, and none before a sublayer.
void set_residual_norms(test::Builder& builder) {
  constexpr auto kind = model::Norm::Kind::layer;
  builder.model().type_embeddings = builder.random(64, 0.5);
  builder.model().embedding_norm = builder.norm(64, kind);
  each_layer(builder, [&](model::Attention& a, model::FeedForward& f) {
    a.norm = f.norm = {};
    a.residual_norm = builder.norm(64, kind);
    f.residual_norm = builder.norm(64, kind);
  });
}
// Beside norms before sublayers, which late norms would begin.
void set_both_norms(test::Builder& builder) {
  builder.model().embedding_norm = builder.norm(64);
  builder.model().layers[0].get<model::Attention>().residual_norm = builder.norm(64);
}
void set_own_head_norms(test::Builder& builder) {
  each_layer(builder, [&](model::Attention& a, model::FeedForward& f) {
    a.q_norm = builder.norm(256, model::Norm::Kind::layer);
    a.k_norm = builder.norm(128, model::Norm::Kind::layer);
    a.own_head_norms = true;
    a.clamp_qkv = 1.5f;
    f.gate = {};
    f.activation = model::Activation::relu_squared;
  });
}
void set_norms_after_rope(test::Builder& builder) {
  each_layer(builder, [&](model::Attention& a, model::FeedForward& f) {
    a.q_norm = builder.norm(64);
    a.k_norm = builder.norm(64);
    a.norm_after_rope = true;
    a.rope.magnitude = 1.25;
    f.gate = {};
    f.activation = model::Activation::xielu;
    f.xielu = {.positive = 0.9f, .negative = 1.2f, .beta = 0.5f, .epsilon = -1e-6f};
  });
}
// Without a norm of q and k, the product would finish them.
void set_clamp_and_temperature(test::Builder& builder) {
  each_layer(builder, [](model::Attention& a, model::FeedForward& f) {
    a.clamp_qkv = 0.8f;
    a.temperature = {.scale = 0.7f, .length = 2, .offset = 1};
    f.activation = model::Activation::clamped_swiglu;
  });
  builder.model().layers[1].get<model::Attention>().rope = {};
}
std::vector<KindOfLayers> kinds_of_layers() {
  std::vector<KindOfLayers> all{{"residual_norms", set_residual_norms},
                                {"both_norms", set_both_norms},
                                {"own_head_norms", set_own_head_norms},
                                {"norms_after_rope", set_norms_after_rope},
                                {"clamp_and_temperature", set_clamp_and_temperature}};
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    KindOfLayers one = all[i];
    one.name += "_without_wgmma_q8";
    one.kv = KvFormat::q8;
    one.sm = without_wgmma;
    all.push_back(one);
  }
  all.push_back({.name = "deterministic", .change = set_clamp_and_temperature, .options = {.deterministic = true}});
  return all;
}
class SlowPlansOfLayers : public Plans, public testing::WithParamInterface<KindOfLayers> {};
TEST_P(SlowPlansOfLayers, GiveTheReferencesLogits) {
  const KindOfLayers& kind = GetParam();
  control().sm = kind.sm;
  test::Builder builder({.format = Format::f16, .width = 64, .heads = 4, .kv_heads = 2, .head = 64, .inner = 96});
  builder.model().context = 128;
  kind.change(builder);
  const model::Limits limits{.rows = 80, .kv_blocks = 64, .block_tokens = 16, .kv = kind.kv};
  BesideReference both(builder.model(), limits, interpreted(kind.options), f16_bound);
  both.feed({{0, 5}});
  both.feed({{0, 1}});
  both.feed({{0, 1}, {2, 1}, {1, 1}});
  both.feed({{0, 1}, {3, 19}, {1, 2}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfLayers, testing::ValuesIn(kinds_of_layers()),
                         [](const auto& one) { return one.param.name; });

// The paths of all GPUs, each with the text and the limits of its target.
class SlowPlansOfTargets : public Plans, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Plans::SetUp();
    control().sm = 120;
    cuda::treat_gpus_as(GetParam());
  }
  void TearDown() override {
    cuda::treat_gpus_as("");
    Plans::TearDown();
  }
};
TEST_P(SlowPlansOfTargets, GiveTheReferencesLogits) {
  test::Builder builder = wide_model(64, Format::q4_0);
  for (const Options& options : {Options{}, Options{.exact = true}, Options{.deterministic = true}}) {
    const KvFormat kv = options.exact ? KvFormat::q8 : KvFormat::f16;
    const model::Limits limits{.rows = 80, .kv_blocks = 64, .block_tokens = 16, .kv = kv};
    BesideReference both(builder.model(), limits, interpreted(options), f16_bound);
    both.feed({{0, 5}});
    both.feed({{0, 1}, {1, 1}});
    both.feed({{0, 1}, {3, 19}, {1, 2}}, BesideReference::last);
    if (!options.exact) both.pick({0, 1, 3}, 1);
  }
}
// Matrices of two formats in one product, int8 activations, experts.
TEST_P(SlowPlansOfTargets, GiveThoseOfMixtures) {
  test::Builder builder = test::mixture(Format::q4_k);
  builder.model().context = 64;
  auto& attention = builder.model().layers[1].get<model::Attention>();
  attention.v = builder.matrix(Format::q6_k, attention.v.rows, attention.v.cols, 1 / 16.0);
  for (model::Layer& layer : builder.model().layers) layer.get<model::Mixture>().routing.used = 5;
  BesideReference both(builder.model(), {.rows = 16, .kv_blocks = 16, .block_tokens = 16}, interpreted(), f16_bound);
  both.feed({{0, 3}});
  both.feed({{0, 1}});
  both.feed({{0, 1}, {1, 10}}, BesideReference::last);
}
// Biases of experts, sigmoids and groups.
TEST_P(SlowPlansOfTargets, GiveThoseOfChangedMixtures) {
  test::Builder builder = test::mixture(Format::q4_k);
  builder.model().context = 64;
  for (model::Layer& layer : builder.model().layers) {
    auto& m = layer.get<model::Mixture>();
    m.routing.used = 3;
    set_biases(builder, m);
    set_groups(builder, m);
  }
  BesideReference both(builder.model(), {.rows = 16, .kv_blocks = 16, .block_tokens = 16}, interpreted(), f16_bound);
  both.feed({{0, 3}});
  both.feed({{0, 1}});
  both.feed({{0, 1}, {1, 10}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowPlansOfTargets,
                         testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"));

// Steps that follow one another, with and without graphs; then rows of which only some are picked on the device.
TEST_F(Plans, SlowPicksAreTheReferences) {
  test::Builder builder = wide_model(64);
  for (bool graphs : {true, false}) {
    BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16},
                         interpreted({.graphs = graphs}), f16_bound);
    both.feed({{0, 5}, {1, 15}, {2, 1}}, BesideReference::last);
    both.pick({0}, 3);
    both.feed({{3, 4}});
  }
  BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16}, interpreted(), f16_bound);
  both.feed({{0, 5}, {1, 15}, {2, 1}}, BesideReference::last);
  both.pick({2, 0, 1}, 2);  // one of them into another block
  BesideReference mixed(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16}, interpreted(), f16_bound);
  mixed.feed({{0, 5}, {1, 15}, {2, 1}}, BesideReference::last);
  mixed.pick({2, 0, 1}, 0, {false, true, false});
}

// The same among tokens that masks allow, which come after the rest of a batch.
TEST_F(Plans, SlowPicksUnderMasksAreTheReferences) {
  test::Builder builder = wide_model(64);
  for (bool graphs : {true, false}) {
    BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16},
                         interpreted({.graphs = graphs}), f16_bound);
    both.feed({{0, 5}, {1, 15}, {2, 1}}, BesideReference::last);
    both.pick({2, 0, 1}, 3, {}, true);
    both.pick({1, 2}, 1, {}, true);  // a graph for the second time
  }
  BesideReference mixed(builder.model(), {.rows = 80, .kv_blocks = 64, .block_tokens = 16}, interpreted(), f16_bound);
  mixed.feed({{0, 5}, {1, 15}, {2, 1}}, BesideReference::last);
  mixed.pick({2, 0, 1}, 0, {false, true, false}, true);
}

// The same of more streams than the path of few rows takes.
TEST_F(Plans, SlowPicksOfACrowdAreTheReferences) {
  test::Builder builder = wide_model(64);
  constexpr uint32_t streams = 66;
  std::vector<NewRows> first;
  std::vector<uint32_t> sequences;
  for (uint32_t i = 0; i < streams; ++i) {
    first.push_back({i, 1});
    sequences.push_back(streams - 1 - i);
  }
  BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 8 * streams, .block_tokens = 16}, interpreted(),
                       f16_bound);
  both.feed(first);
  both.pick(sequences, 2);
}

// Where a row fills whole slices, attention, activations and the residual stream are written as f16 in the order of the
// next product; where v has another format than q and k, so is the input of both.
TEST_F(Plans, SlowCrowdsWithWholeSlicesGiveTheReferencesLogits) {
  test::Builder builder({.format = Format::q4_k, .width = 256, .heads = 4, .kv_heads = 2, .head = 64, .inner = 512});
  builder.model().context = 128;
  builder.model().layers[1].get<model::Attention>().v = builder.matrix(Format::q6_k, 128, 256, 1 / 16.0);
  builder.model().layers[1].get<model::FeedForward>().down = builder.matrix(Format::q6_k, 256, 512, 1 / 22.0);
  struct Crowd {
    uint32_t streams;
    KvFormat kv;
    uint32_t sm = 90;
  };
  for (const auto& [streams, kv, sm] :
       {Crowd{19, KvFormat::f16}, {19, KvFormat::q8}, {5, KvFormat::f16}, {19, KvFormat::f16, without_wgmma}}) {
    control().sm = sm;
    std::vector<NewRows> rows;
    for (uint32_t i = 0; i < streams; ++i) rows.push_back({i, 1});
    BesideReference both(builder.model(), {.rows = 80, .kv_blocks = 8 * streams, .block_tokens = 16, .kv = kv},
                         interpreted(), f16_bound);
    for (int step = 0; step < 3; ++step) both.feed(rows);
    both.feed({{3, 20}, {0, 1}, {4, 2}}, BesideReference::last);  // a prompt beside streams
    const size_t before = launches();
    both.feed(rows);
    const std::vector<std::string> kernels = kernels_since(before);
    // those of the first norm, and of the head
    EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "half_rows"), 2) << fmt::format("{}", fmt::join(kernels, " "));
  }
}

}  // namespace
}  // namespace heddle::gpu
