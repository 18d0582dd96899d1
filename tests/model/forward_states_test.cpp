// States behind the final norm, and how a model says that they are pooled.
#include <gtest/gtest.h>

#include <numeric>

#include "model/forward.h"
#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using model::Pooling;

struct Computed {
  std::vector<float> states, logits;
};
// Of one batch, with states and logits of these rows.
Computed compute(const model::Model& model, model::Backend& backend, const std::vector<uint32_t>& ids,
                 std::vector<uint32_t> states, std::vector<uint32_t> outputs) {
  const auto count = uint32_t(ids.size());
  model::Batch batch{.tokens = ids,
                     .positions = std::vector<uint32_t>(count),
                     .sequences = std::vector<uint32_t>(count),
                     .outputs = std::move(outputs),
                     .states = std::move(states)};
  std::iota(batch.positions.begin(), batch.positions.end(), 0u);
  batch.blocks.emplace_back(model::limits_for(model.context).kv_blocks);
  std::iota(batch.blocks[0].begin(), batch.blocks[0].end(), 0u);
  model::forward(model, backend, batch);
  const model::Result result = backend.result();
  return {{result.states.begin(), result.states.end()}, {result.logits.begin(), result.logits.end()}};
}

// The head by hand, in f64.
std::vector<float> logits_of(const model::Model& model, std::span<const float> state) {
  std::vector<float> row(model.width), logits;
  for (uint64_t token = 0; token < model.vocabulary; ++token) {
    const uint64_t bytes = model.output.row_bytes();
    quant::decode(model.output.format, model.output.data.data() + token * bytes, model.width, row.data());
    double sum = model.output_bias.empty() ? 0 : double(model.output_bias[token]);
    for (uint32_t i = 0; i < model.width; ++i) sum += double(row[i]) * state[i];
    sum *= double(model.logit_scale);
    const double cap = model.logit_softcap;
    logits.push_back(float(cap != 0 ? cap * std::tanh(sum / cap) : sum));
  }
  return logits;
}

class States : public testing::TestWithParam<std::string> {};

TEST_P(States, AreWhatTheHeadReads) {
  const Fixture fixture(GetParam());
  const Folder folder;
  fixture.write(folder, fixture.config);
  Running running(folder.path(), fixture.context);
  const model::Model& model = running.model;
  const auto last = uint32_t(fixture.ids.size() - 1);
  const Computed reference = compute(model, *running.backend, fixture.ids, {0, 2, last}, {2, last});
  ASSERT_EQ(reference.states.size(), 3 * model.width);
  const auto state = [&](size_t i) { return std::span(reference.states).subspan(i * model.width, model.width); };
  std::vector<float> expected = logits_of(model, state(1));
  for (const float logit : logits_of(model, state(2))) expected.push_back(logit);
  EXPECT_LT(worst(expected, reference.logits), 1e-6);

  const auto fast_backend = fast(true)(model, running.limits);
  const Computed found = compute(model, *fast_backend, fixture.ids, {0, 2, last}, {2, last});
  EXPECT_LT(worst(reference.states, found.states), 1e-3);
  // whatever else is wanted of a batch
  EXPECT_EQ(compute(model, *fast_backend, fixture.ids, {0, 2, last}, {}).states, found.states);
  EXPECT_EQ(compute(model, *fast_backend, fixture.ids, {}, {2, last}).logits, found.logits);
}

INSTANTIATE_TEST_SUITE_P(Some, States,
                         testing::Values("llama", "gpt2", "gemma2", "granite", "phi2", "olmo2", "qwen3moe"),
                         [](const auto& of) { return of.param; });

// A folder of a llama, with a 1_Pooling/config.json that has this in it.
model::Model pooled(const std::string& config) {
  const Fixture fixture("llama");
  const Folder folder;
  fixture.write(folder, fixture.config);
  if (!config.empty()) std::filesystem::create_directory(folder.file("1_Pooling"));
  if (!config.empty()) folder.write("1_Pooling/config.json", config);
  return model::load(formats::open_checkpoint(folder.path()));
}

TEST(Pooling, IsSaidByAFolder) {
  EXPECT_EQ(pooled("").pooling, Pooling::mean);
  EXPECT_EQ(pooled("{}").pooling, Pooling::mean);
  EXPECT_EQ(pooled(R"({"word_embedding_dimension": 32, "pooling_mode_cls_token": false,
                       "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})")
                .pooling,
            Pooling::mean);
  EXPECT_EQ(pooled(R"({"pooling_mode_cls_token": true})").pooling, Pooling::cls);
  EXPECT_EQ(pooled(R"({"pooling_mode_lasttoken": true, "include_prompt": true})").pooling, Pooling::last);
  EXPECT_EQ(pooled(R"({"pooling_mode": "lasttoken", "embedding_dimension": 32})").pooling, Pooling::last);
  EXPECT_REFUSED(pooled(R"({"pooling_mode": "max"})"), "1_Pooling/config.json", "pooling_mode", "mean, cls", "max");
  EXPECT_REFUSED(pooled(R"({"pooling_mode_max_tokens": true})"), "1_Pooling/config.json", "pooling_mode_max_tokens");
  EXPECT_REFUSED(pooled(R"({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": true})"),
                 "1_Pooling/config.json", "pooling_mode_lasttoken", "one mode of pooling");
  EXPECT_REFUSED(pooled(R"({"pooling_mode_mean_tokens": 1})"), "pooling_mode_mean_tokens");
  EXPECT_REFUSED(pooled("[]"), "1_Pooling/config.json");
}

TEST(Pooling, IsWhereTheModulesSay) {
  const auto loaded = [](const std::string& modules) {
    const Fixture fixture("llama");
    const Folder folder;
    fixture.write(folder, fixture.config);
    folder.write("modules.json", modules);
    for (const char* name : {"1_Pooling", "pooled"}) {
      std::filesystem::create_directory(folder.file(name));
      folder.write(std::string(name) + "/config.json",
                   name[0] == '1' ? R"({"pooling_mode_cls_token": true})" : R"({"pooling_mode_lasttoken": true})");
    }
    return model::load(formats::open_checkpoint(folder.path()));
  };
  EXPECT_EQ(loaded(R"([{"idx": 0, "type": "sentence_transformers.models.Transformer"},
                       {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                       {"idx": 2, "type": "sentence_transformers.models.Normalize"}])")
                .pooling,
            Pooling::cls);
  EXPECT_EQ(loaded(R"([{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "pooled"}])").pooling, Pooling::last);
  EXPECT_EQ(loaded(R"([{"type": "a.Transformer"}])").pooling, Pooling::mean);
  EXPECT_REFUSED(loaded(R"([{"type": "a.Transformer"}, {"type": "sentence_transformers.models.LSTM"}])"),
                 "modules.json", "[1].type", "Normalize", "sentence_transformers.models.LSTM");
  EXPECT_REFUSED(loaded(R"([{"type": "a.Transformer"}, {"type": "a.Dense", "path": "2_Dense"}])"), "modules.json",
                 "[1].type", "between Pooling and Normalize");
  EXPECT_REFUSED(loaded(R"([{"type": "a.Pooling", "path": "pooled"}, {"type": "a.Normalize"},
                            {"type": "a.Dense", "path": "2_Dense"}])"),
                 "modules.json", "[2].type", "between Pooling and Normalize");
  EXPECT_REFUSED(loaded(R"([{"type": "a.Pooling", "path": "../pooled"}])"), "modules.json", "a folder beside it",
                 "../pooled");
  EXPECT_REFUSED(loaded(R"([{"type": "a.Pooling", "path": "pooled"}, {"type": "a.Dense", "path": "1_Pooling"}])"),
                 "1_Pooling", "model.safetensors", "Dense module");
  EXPECT_REFUSED(loaded(R"([5])"), "modules.json", "[0].type");
  EXPECT_REFUSED(loaded("{}"), "modules.json", "expected a list", "object");
}

TEST(Pooling, IsSaidByAFile) {
  const Fixture fixture("llama");
  const Folder folder;
  fixture.write(folder, fixture.config);
  const auto loaded = [&](const formats::Value& type) {
    formats::Checkpoint checkpoint = formats::open_checkpoint(folder.path());
    checkpoint.metadata.set("llama.pooling_type", type);
    return model::load(std::move(checkpoint)).pooling;
  };
  const Pooling all[] = {Pooling::none, Pooling::mean, Pooling::cls, Pooling::last, Pooling::rank};
  for (uint32_t type = 0; type < 5; ++type) EXPECT_EQ(loaded(type), all[type]);
  EXPECT_REFUSED(loaded(uint32_t{5}), "pooling_type", "0 to 4", "5");
  EXPECT_REFUSED(loaded(std::string("mean")), "pooling_type");
}

}  // namespace
}  // namespace heddle::test
