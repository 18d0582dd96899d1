// Every class and option that heddle reads, as tiny models whose logits transformers computed.
#include "model/architectures.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/model/encoder_fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

class Architectures : public testing::TestWithParam<std::string> {
 protected:
  // The logits at all positions, computed once for all tests.
  const std::vector<float>& whole() {
    static std::map<std::string, std::vector<float>> of_fixture;
    std::vector<float>& all = of_fixture[GetParam()];
    if (all.empty()) all = logits(folder.path());
    return all;
  }
  // Those of the model that lies in the folder or file.
  std::vector<float> logits(const std::filesystem::path& model, uint32_t rows = 64,
                            const MakeBackend& make = cpu::make_reference) {
    return Running(model, fixture.context, rows, make).all_logits(fixture.ids);
  }
  std::vector<float> logits_of(const Json& config, quant::Format format = quant::Format::f32) {
    const Folder other;
    fixture.write(other, config, format);
    return logits(other.path());
  }

  const Fixture fixture{GetParam()};
  const Folder folder;
  void SetUp() override { fixture.write(folder, fixture.config); }
};

TEST_P(Architectures, LogitsAreThoseOfTransformers) {
  EXPECT_LT(worst(fixture.logits(), fixture.chosen(whole())), 2e-6);
}

TEST_P(Architectures, GreedyTokensAreThoseOfTransformers) {
  if (!fixture.json.contains("greedy")) return;  // most fixtures have logits alone
  const auto greedy = fixture.json["greedy"].get<std::vector<uint32_t>>();
  EXPECT_GE(greedy.size(), 14u);
  std::vector<uint32_t> expected = fixture.ids;
  expected.insert(expected.end(), greedy.begin(), greedy.end());
  EXPECT_EQ(Running(folder.path(), fixture.context).greedy(fixture.ids, expected.size()), expected);
}

TEST_P(Architectures, APromptInPiecesAndAConvertedFileGiveTheSameBits) {
  EXPECT_EQ(logits(folder.path(), 7), whole());
  EXPECT_EQ(logits(folder.path(), 1), whole());
  EXPECT_EQ(logits(converted(folder.path(), folder.file("m.gguf")), 11), whole());
}

TEST_P(Architectures, WeightsOfHalfTheSizeGiveTheSameBits) {  // all of them are exact there
  EXPECT_EQ(logits_of(fixture.config, quant::Format::f16), whole());
  EXPECT_EQ(logits_of(fixture.config, quant::Format::bf16), whole());
}

// config.json as it was before transformers 5.
Json older(Json config) {
  Json& text = config.contains("text_config") ? config["text_config"] : config;
  if (!text.contains("rope_parameters") || text["model_type"] == "gemma4_text") return config;
  const Json ropes = text["rope_parameters"];
  text.erase("rope_parameters");
  const bool two = ropes.contains("full_attention");
  Json rope = two ? ropes["full_attention"] : ropes;
  if (two) text["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"];
  const bool neox = text["model_type"] == "gpt_neox";
  text[neox ? "rotary_emb_base" : "rope_theta"] = rope["rope_theta"];
  if (rope.contains("partial_rotary_factor"))
    text[neox ? "rotary_pct" : "partial_rotary_factor"] = rope["partial_rotary_factor"];
  const Json type = rope["rope_type"];
  for (const char* key : {"rope_type", "rope_theta", "partial_rotary_factor"}) rope.erase(key);
  rope["type"] = type == "longrope" ? "su" : type;
  text["rope_scaling"] = type == "default" ? Json() : rope;
  if (text["model_type"] == "gemma3_text") {
    const std::vector<std::string> types = text["layer_types"];
    const auto full = std::find(types.begin(), types.end(), "full_attention");
    if (full == types.begin()) return config;  // no period says that
    if (full != types.end()) text["sliding_window_pattern"] = full - types.begin() + 1;
    text.erase("layer_types");
  }
  if (text["model_type"] == "gemma2") text.erase("layer_types");
  return config;
}

TEST_P(Architectures, TheOlderSpellingOfOptionsGivesTheSameBits) {
  const Json config = older(fixture.config);
  if (config == fixture.config) return;  // it is spelled in one way only
  EXPECT_EQ(logits_of(config), whole());
}

TEST_P(Architectures, TheFastBackendIsClose) {
  const std::vector<float>& expected = whole();
  const size_t vocabulary = expected.size() / fixture.ids.size();
  const auto in_q8 = [](const MakeBackend& make) {
    return [make](const model::Model& model, model::Limits limits) {
      limits.kv = model::KvFormat::q8;
      return make(model, limits);
    };
  };
  // A cache of q8 is the same on both, but for values between two neighbours that are rounded to the other one. In 263
  // models on three instruction sets, these moved logits by 8e-4 and by a sixth of what q8 itself moves them at most.
  const std::vector<float> q8 = logits(folder.path(), 9, in_q8(cpu::make_reference));
  EXPECT_LT(worst(q8, logits(folder.path(), 9, in_q8(fast(true)))), std::clamp(worst(expected, q8) / 4, 1e-5, 1e-3));
  // Otherwise it is f16.
  EXPECT_LT(worst(expected, logits(folder.path(), 9, fast(true))), 1e-3);
  EXPECT_GT(least_cosine(expected, logits(folder.path(), 9, fast(false)), vocabulary), 0.999);
}

INSTANTIATE_TEST_SUITE_P(All, Architectures, testing::ValuesIn(fewer(Fixture::names())),
                         [](const auto& one) { return as_test_name(one.param); });

TEST(ArchitectureFixtures, ThereIsOneOfEachArchitecture) {
  std::set<std::string> found, expected;
  for (const std::string& name : Fixture::names()) {
    const Folder folder;
    const Fixture fixture(name);
    fixture.write(folder, fixture.config);
    found.insert(std::string(formats::open_checkpoint(folder.path()).architecture()));
  }
  for (const std::string& name : EncoderFixture::names()) {
    const Folder folder;
    found.insert(std::string(formats::open_checkpoint(EncoderFixture(name).write_in(folder)).architecture()));
  }
  for (const model::Architecture& one : model::all_architectures()) expected.emplace(one.name);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace heddle::test
