// Whole models on the reference backend against logits that others computed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/support/closeness.h"
#include "tests/support/folder.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

TEST_P(HfArch, LogitsAndGreedyTokensAreThoseOfTransformers) {
  SHARED_DATA(folder, HfArch::folder());
  const Values expected = read_values(folder / "ref.safetensors");
  const std::vector<uint32_t>& ids = expected.ids.at("input_ids");
  EXPECT_LT(worst(expected.f32.at("logits"), Running(folder).all_logits(ids)), 2e-6);
  EXPECT_EQ(Running(folder).greedy(ids, 40), expected.ids.at("greedy_ids"));
}

TEST_P(HfArch, APromptMayComeInPieces) {
  SHARED_DATA(folder, HfArch::folder());
  const std::vector<uint32_t> ids = read_values(folder / "ref.safetensors").ids.at("input_ids");
  const std::vector<float> whole = Running(folder).all_logits(ids);
  EXPECT_EQ(Running(folder, 0, 7).all_logits(ids), whole);
  Running twice(folder);
  twice.session.feed(ids);
  twice.session.rewind(5);
  const std::vector<float> rest = twice.all_logits({ids.begin() + 5, ids.end()});
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 5 * twice.model.vocabulary));
}

TEST_P(HfArch, AConvertedFileSaysTheSameToTheBit) {
  SHARED_DATA(folder, HfArch::folder());
  const Values expected = read_values(folder / "ref.safetensors");
  const std::vector<uint32_t>& ids = expected.ids.at("input_ids");
  const Folder temporary;
  const auto file = converted(folder, temporary.file("m.gguf"));
  EXPECT_EQ(Running(file).all_logits(ids), Running(folder).all_logits(ids));
  EXPECT_EQ(Running(file).greedy(ids, 40), expected.ids.at("greedy_ids"));
}

HEDDLE_FOR_ALL_OF_HF_ARCH();

// The prompts, greedy ids and logits of <name>-ref.json; `rows` of logits: all of the prompt, or its last.
void compare_stories(const std::filesystem::path& model, const std::filesystem::path& folder, const std::string& name) {
  const MappedFile file(folder / (name + "-ref.json"));
  const Json reference = parse_json(file.text(), name);
  const Values expected = read_values(folder / (name + "-ref-logits.safetensors"));
  for (size_t i = 0; i < reference["prompts"].size(); ++i) {
    const Json& prompt = reference["prompts"][i];
    const auto ids = prompt["ids_with_bos"].get<std::vector<uint32_t>>();
    const auto greedy = prompt["greedy_ids"].get<std::vector<uint32_t>>();
    std::vector<float> logits = Running(model, 256).all_logits(ids);
    const std::vector<float>& wanted = expected.f32.at("logits." + std::to_string(i));
    logits.erase(logits.begin(), logits.end() - long(wanted.size()));
    EXPECT_LT(worst(wanted, logits), 1e-5) << name << " " << i;
    EXPECT_EQ(Running(model, 256).greedy(ids, greedy.size()), greedy) << name << " " << i;
  }
}

TEST(Stories, OfAQuarterMillionParameters) {
  SHARED_DATA(folder, "weights");
  for (const char* model : {"stories260K-f32.gguf", "stories260K-hf-f32", "stories260K-hf-f32-sharded"})
    compare_stories(folder / model, folder, "stories260K");
}

TEST(Stories, OfFifteenMillionParametersInQ4_0Slow) {
  SHARED_DATA(folder, "weights");
  compare_stories(folder / "stories15M-Q4_0.gguf", folder, "stories15M-Q4_0");
}

}  // namespace
}  // namespace heddle::test
