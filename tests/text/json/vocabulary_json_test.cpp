#include "text/json/vocabulary_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/shared_data.h"
#include "tests/text/gguf_vocabulary.h"
#include "tests/text/json/json_fixture.h"
#include "text/split/regex.h"
#include "text/split/splitters.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

using Json = nlohmann::json;

// Byte-level BPE from a GGUF file as tokenizer.json would have it.
Json to_json(const Vocabulary& vocabulary) {
  Json vocab = Json::object(), added = Json::array(), merges = Json::array(), splits = Json::array();
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = vocabulary.types[id];
    if (type == TokenType::normal) {
      vocab[vocabulary.tokens[id]] = id;
    } else if (type != TokenType::unused) {
      added.push_back({{"id", id},
                       {"content", vocabulary.tokens[id]},
                       {"special", type == TokenType::control},
                       {"normalized", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"single_word", false}});
    }
  }
  for (const std::string& merge : vocabulary.merges) merges.push_back(merge);
  const PreTokenizer& pre = find_pre_tokenizer(vocabulary.pre, vocabulary.source);
  for (const std::string_view pattern : pre.patterns)
    splits.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  splits.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  Json post = nullptr;
  if (vocabulary.add_bos.value_or(pre.add_bos)) {
    const std::string& bos = vocabulary.tokens[*vocabulary.bos];
    post = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", Json::array()},
        {"special_tokens", {{bos, {{"id", bos}, {"ids", {*vocabulary.bos}}, {"tokens", {bos}}}}}}};
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", splits}}},
          {"post_processor", post},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}, {"ignore_merges", pre.ignore_merges}}}};
}

class VocabularyJsonGguf : public testing::TestWithParam<std::string> {};

TEST_P(VocabularyJsonGguf, SlowSameIdsEveryWay) {
  SHARED_DATA(path, "vocab/ggml-vocab-" + GetParam() + ".gguf");
  const Vocabulary vocabulary = test::gguf_vocabulary(path);
  const std::string json = to_json(vocabulary).dump();
  const Json settings = {{"bos_token", vocabulary.tokens[*vocabulary.bos]},
                         {"eos_token", vocabulary.tokens[*vocabulary.eos]}};
  const std::string config = settings.dump();

  const Tokenizer from_json = Tokenizer::from_json(json, config, "x");
  const Vocabulary back = vocabulary_from_json(json, config, "x");
  EXPECT_EQ(back.model, vocabulary.model);
  EXPECT_EQ(back.pre, find_pre_tokenizer(vocabulary.pre, "").names.front());
  EXPECT_EQ(back.merges, vocabulary.merges);
  EXPECT_EQ(back.bos, vocabulary.bos);
  EXPECT_EQ(back.eos, vocabulary.eos);
  const Tokenizer from_vocabulary = Tokenizer::from_vocabulary(back);
  const auto texts = test::reference_texts(path);
  EXPECT_GE(texts.size(), 46u);
  for (const auto& [text, ids] : texts) {
    EXPECT_EQ(from_json.encode(text, {.add_special = false}), ids) << text;
    EXPECT_EQ(from_vocabulary.encode(text, {.add_special = false}), ids) << text;
    EXPECT_EQ(from_vocabulary.encode(text), from_json.encode(text)) << text;
    EXPECT_EQ(from_vocabulary.decode(ids), from_json.decode(ids)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, VocabularyJsonGguf, testing::Values("llama-bpe", "qwen2", "gpt-2"),
                         [](const auto& its) {
                           std::string name = its.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(VocabularyJson, Stories) {
  SHARED_DATA(folder, "weights/stories260K-hf-f32");
  const std::string json = test::read_text(folder / "tokenizer.json");
  const std::string config = test::read_text(folder / "tokenizer_config.json");
  const Vocabulary vocabulary = vocabulary_from_json(json, config, "stories");
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.add_space_prefix, true);
  EXPECT_EQ(vocabulary.unknown, TokenId(0));
  EXPECT_EQ(vocabulary.types[3], TokenType::byte);
  const Tokenizer one = Tokenizer::from_json(json, config, "stories");
  const Tokenizer other = Tokenizer::from_vocabulary(vocabulary);
  SHARED_DATA(texts, "vocab/ggml-vocab-llama-spm.gguf");
  for (const auto& [text, ids] : test::reference_texts(texts)) {
    EXPECT_EQ(other.encode(text), one.encode(text)) << text;
    EXPECT_EQ(other.decode(one.encode(text)), one.decode(one.encode(text))) << text;
  }
}

TEST(VocabularyJson, ByteLevelFixture) {
  const std::string json = test::fixture_text("byte-level-llama3.json");
  const Vocabulary vocabulary = vocabulary_from_json(json, "", "x");
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "llama-bpe");
  EXPECT_EQ(vocabulary.bos, TokenId(0));
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, false);
  EXPECT_EQ(vocabulary.types.back(), TokenType::control);
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  for (const auto& one : test::fixture_cases("byte-level-llama3")) {
    if (one.text.find("<mask>") != std::string::npos) continue;  // GGUF has no lstrip
    EXPECT_EQ(tokenizer.encode(one.text), one.ids) << one.text;
  }
}

TEST(VocabularyJson, WordPieceFixture) {
  const std::string json = test::fixture_text("wordpiece-bert.json");
  const Vocabulary vocabulary = vocabulary_from_json(json, "", "x");
  EXPECT_EQ(vocabulary.model, "bert");
  EXPECT_EQ(vocabulary.bos, TokenId(2));
  EXPECT_EQ(vocabulary.separator, TokenId(3));
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  for (const char* text : {"Hello, World!", "the quick brown fox", "don't", "\u4e00a", "zz\u00e9", ""})
    EXPECT_EQ(tokenizer.encode(text), Tokenizer::from_json(json, "", "x").encode(text)) << text;
}

TEST(VocabularyJson, UnigramFixture) {
  const std::string json = test::fixture_text("unigram-t5.json");
  const Vocabulary vocabulary = vocabulary_from_json(json, "", "x");
  EXPECT_EQ(vocabulary.model, "t5");
  EXPECT_FALSE(vocabulary.precompiled_charsmap.empty());
  EXPECT_TRUE(vocabulary.remove_extra_whitespaces);
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary);
  for (const char* text : {"Hello, World!", "the  quick brown fox ", "\ufb01ne", "e\u0301", " a", ""})
    EXPECT_EQ(tokenizer.encode(text), Tokenizer::from_json(json, "", "x").encode(text)) << text;
}

std::string vocabulary_error(Json json) {
  try {
    vocabulary_from_json(json.dump(), "", "folder");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Tokenizers of classes whose two texts are joined by </s></s> keep that in GGUF; BERT's is always [SEP].
TEST(VocabularyJson, PairsStayTheSame) {
  Json unigram = Json::parse(test::fixture_text("unigram-t5.json"));
  const auto with_pair = [](Json json, const std::vector<std::string>& pair, const Json& tokens) {
    Json list = Json::array();
    for (const std::string& part : pair)
      list.push_back(part == "A" || part == "B" ? Json{{"Sequence", {{"id", part}, {"type_id", 0}}}}
                                                : Json{{"SpecialToken", {{"id", part}, {"type_id", 0}}}});
    json["post_processor"]["pair"] = list;
    if (!tokens.is_null()) json["post_processor"]["special_tokens"] = tokens;
    return json.dump();
  };
  for (const bool twice : {false, true}) {
    const std::vector<std::string> pair = twice ? std::vector<std::string>{"A", "</s>", "</s>", "B", "</s>"}
                                                : std::vector<std::string>{"A", "</s>", "B", "</s>"};
    const std::string json = with_pair(unigram, pair, nullptr);
    const Vocabulary vocabulary = vocabulary_from_json(json, "", "x");
    EXPECT_EQ(vocabulary.add_sep, twice ? std::optional<bool>(true) : std::nullopt);
    const EncodedPair one = Tokenizer::from_json(json, "", "x").encode_pair("the whale", "a fish");
    EXPECT_EQ(Tokenizer::from_vocabulary(vocabulary).encode_pair("the whale", "a fish").ids, one.ids);
  }
  const std::string bert = test::fixture_text("wordpiece-bert.json");
  const EncodedPair one = Tokenizer::from_json(bert, "", "x").encode_pair("the whale", "a fish");
  const EncodedPair other =
      Tokenizer::from_vocabulary(vocabulary_from_json(bert, "", "x")).encode_pair("the whale", "a fish");
  EXPECT_EQ(other.ids, one.ids);
  EXPECT_EQ(other.types, one.types);
}

TEST(VocabularyJson, WordPieceMayKeepCapitalsAndAccents) {
  Json json = Json::parse(test::fixture_text("wordpiece-bert.json"));
  for (const auto& [lower, accents, kept_lower, kept_accents] :
       std::vector<std::tuple<bool, Json, std::optional<bool>, std::optional<bool>>>{
           {true, nullptr, std::nullopt, std::nullopt},
           {false, nullptr, false, std::nullopt},
           {true, false, std::nullopt, false},
           {false, true, false, true}}) {
    json["normalizer"]["lowercase"] = lower;
    json["normalizer"]["strip_accents"] = accents;
    const Vocabulary vocabulary = vocabulary_from_json(json.dump(), "", "x");
    EXPECT_EQ(vocabulary.lower_case, kept_lower);
    EXPECT_EQ(vocabulary.strip_accents, kept_accents);
    const Tokenizer read = Tokenizer::from_json(json.dump(), "", "x"), written = Tokenizer::from_vocabulary(vocabulary);
    for (const char* text : {"Hello, World!", "the WHALE caf\u00e9", "\u00c9a e\u0301"})
      EXPECT_EQ(written.encode(text), read.encode(text)) << text;
  }
}

// The steps of the models' own tokenizer.json are found again under GGUF's names.
TEST(VocabularyJson, PreTokenizersHaveTheirNames) {
  Json file = Json::parse(test::fixture_text("byte-level-llama3.json"));
  const Json splits = Json::parse(test::fixture_text("splits.json"));
  for (const auto& [name, its] : splits["pre_tokenizers"].items()) {
    const PreTokenizer& expected = find_pre_tokenizer(name, "");
    file["pre_tokenizer"]["pretokenizers"] = its["pre_tokenizer"];
    file["model"]["ignore_merges"] = expected.ignore_merges;
    EXPECT_EQ(vocabulary_from_json(file.dump(), "", "x").pre, expected.names.front()) << name;
  }
}

// Line ends are written as such in some files and as escapes in others; ignore_merges counts only where it matters.
TEST(VocabularyJson, TheSamePreTokenizerMayBeWrittenDifferently) {
  Json json = Json::parse(test::fixture_text("byte-level-llama3.json"));
  auto& pattern = json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  std::string text = pattern.get<std::string>();
  for (const auto& [escape, character] : {std::pair("\\r", "\r"), std::pair("\\n", "\n")})
    for (size_t at; (at = text.find(escape)) != text.npos;) text.replace(at, 2, character);
  pattern = text;
  EXPECT_EQ(vocabulary_from_json(json.dump(), "", "x").pre, "llama-bpe");
  pattern = patterns::qwen35;
  EXPECT_EQ(vocabulary_from_json(json.dump(), "", "x").pre, "qwen35") << "the merges make every token";
  json["added_tokens"] = Json::array();
  json["post_processor"] = nullptr;
  json["model"]["vocab"]["zzzz"] = 500;
  EXPECT_NE(vocabulary_error(json).find("ignore_merges: true"), std::string::npos) << "but not this one";
}

TEST(VocabularyJson, RefusesWhatGgufCannotSay) {
  Json json = Json::parse(test::fixture_text("byte-level-llama3.json"));
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[abc]+";
  EXPECT_NE(vocabulary_error(json).find("[abc]+"), std::string::npos) << vocabulary_error(json);
  json = Json::parse(test::fixture_text("byte-level-llama3.json"));
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(vocabulary_error(json).find("Lowercase"), std::string::npos) << vocabulary_error(json);
  for (const char* name : {"word-level", "word-suffix", "byte-level-roberta"})
    EXPECT_NE(vocabulary_error(Json::parse(test::fixture_text(std::string(name) + ".json"))), "") << name;
  // trained there, so without all the merges that SentencePiece would make
  const std::string error = vocabulary_error(Json::parse(test::fixture_text("llama2.json")));
  EXPECT_NE(error.find("are not merged"), std::string::npos) << error;
}

// Gemma's steps with a list of merges that no scores stand for: GGUF's "gemma4", with the ids of transformers.
TEST(VocabularyJson, MergesOfCharactersAreGemma4) {
  Json json = Json::parse(test::fixture_text("gemma.json"));
  const Vocabulary vocabulary = vocabulary_from_json(json.dump(), "", "x");
  EXPECT_EQ(vocabulary.model, "gemma4");
  EXPECT_EQ(vocabulary.merges.front(), "\u2581 t");
  EXPECT_EQ(vocabulary.merges.size(), json["model"]["merges"].size());
  EXPECT_EQ(vocabulary.add_bos, true);
  Vocabulary without_bos = vocabulary;  // as the first converters wrote it
  without_bos.add_bos = false;
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary), other = Tokenizer::from_vocabulary(without_bos);
  EXPECT_GT(test::fixture_cases("gemma").size(), 100u);
  for (const auto& one : test::fixture_cases("gemma")) {
    EXPECT_EQ(tokenizer.encode(one.text), one.ids) << one.text;
    EXPECT_EQ(other.encode(one.text), one.ids) << one.text;
    if (one.text.find("<mask>") != std::string::npos) continue;  // a control token in GGUF
    EXPECT_EQ(tokenizer.decode(one.ids), one.decoded) << one.text;
  }
  // An added token may be what others are merged to, as runs of spaces and line ends are.
  json["added_tokens"][3]["content"] = "\u2581\u2581";
  json["added_tokens"][3]["normalized"] = false;
  json["added_tokens"].erase(4);
  json["model"]["vocab"]["\u2581\u2581"] = 480;
  json["model"]["merges"].push_back({"\u2581", "\u2581"});
  const Tokenizer file = Tokenizer::from_json(json.dump(), "", "x");
  const Tokenizer gguf = Tokenizer::from_vocabulary(vocabulary_from_json(json.dump(), "", "x"));
  for (const char* text : {"a  b", "a   b\n\n  c", "  ", "\u2581\u2581x"}) {
    EXPECT_EQ(gguf.encode(text), file.encode(text)) << text;
    EXPECT_EQ(gguf.decode(file.encode(text)), file.decode(file.encode(text))) << text;
  }
}

TEST(VocabularyJson, HolesArePadding) {
  Json json = Json::parse(test::fixture_text("byte-level-llama3.json"));
  json["added_tokens"] = Json::array();
  json["post_processor"] = nullptr;
  json["model"]["vocab"]["far"] = 500;
  const Vocabulary vocabulary = vocabulary_from_json(json.dump(), "", "x");
  ASSERT_EQ(vocabulary.tokens.size(), 501u);
  EXPECT_EQ(vocabulary.tokens[499], "[PAD499]");
  EXPECT_EQ(vocabulary.types[499], TokenType::unused);
}

}  // namespace
}  // namespace heddle::text
