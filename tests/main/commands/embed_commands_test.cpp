// heddle embed and heddle rerank on tiny models, and what they refuse; heddle bench of an encoder.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/main/heddle_command.h"
#include "tests/model/encoder_fixture.h"
#include "tests/text/letters_tokenizer.h"

namespace heddle::test {
namespace {

// The folder of a model with a tokenizer of letters.
struct TinyEncoder {
  explicit TinyEncoder(const std::string& name) : fixture(name), path(fixture.write_in(folder).string()) {
    folder.write(name + "/tokenizer.json", letters_json());
  }
  // By the reference backend.
  std::vector<float> result(const std::vector<uint32_t>& ids, const std::vector<uint32_t>& types) const {
    const model::Model model = model::load(formats::open_checkpoint(path));
    const model::Limits limits{.rows = 64, .kv_blocks = 2};
    const auto backend = cpu::make_reference(model, limits);
    std::vector<std::vector<uint32_t>> all_types;
    if (!types.empty()) all_types.push_back(types);
    return result_of(model, states_of(model, *backend, limits, {ids}, all_types)[0], fixture.ranks);
  }
  Folder folder;
  EncoderFixture fixture;
  std::string path;
};

TEST(EmbedCommand, PrintsAVectorForEachText) {
  const TinyEncoder tiny("bert-cls");
  const Result result = heddle({"embed", tiny.path, "cat", "a dog", "--device", "cpu", "--exact"});
  EXPECT_EQ(result.status, 0) << result.err;
  std::istringstream lines(result.out);
  const text::Tokenizer tokenizer = letters_tokenizer();
  for (const char* text : {"cat", "a dog"}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto found = parse_json(line, "line").get<std::vector<float>>();
    const std::vector<float> expected = tiny.result(tokenizer.encode(text), {});
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3);
  }
  // lines of standard input, cut and scaled
  const Result cut = heddle({"embed", tiny.path, "--dimensions", "3", "--device", "cpu", "--exact"}, "cat\n\na dog\n");
  EXPECT_EQ(std::count(cut.out.begin(), cut.out.end(), '\n'), 2) << cut.out << cut.err;
  const auto three = parse_json(cut.out.substr(0, cut.out.find('\n')), "line").get<std::vector<double>>();
  ASSERT_EQ(three.size(), 3u);
  EXPECT_NEAR(three[0] * three[0] + three[1] * three[1] + three[2] * three[2], 1, 1e-6);
  EXPECT_NE(heddle({"embed", tiny.path, "cat", "--dimensions", "41"}).err.find("at most 40"), std::string::npos);
  EXPECT_NE(heddle({"embed", tiny.path, std::string(100, 'x')}).err.find("at most 64 tokens"), std::string::npos);
  EXPECT_NE(heddle({"run", tiny.path, "-p", "cat"}).err.find("bert-cls generates no text"), std::string::npos);
}

TEST(RerankCommand, PrintsTheBestFirst) {
  const TinyEncoder tiny("bert-rank");
  const std::vector<std::string> documents{"a cat", "dog", "zebra"};
  const Result result = heddle(
      {"rerank", tiny.path, "--query", "what cat", "a cat", "dog", "zebra", "--json", "--device", "cpu", "--exact"});
  EXPECT_EQ(result.status, 0) << result.err;
  const text::Tokenizer tokenizer = letters_tokenizer();
  std::istringstream lines(result.out);
  double last = 1;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json found = parse_json(line, "line");
    const std::string document = documents.at(found["index"].get<size_t>());
    EXPECT_EQ(found["document"], document);
    const text::EncodedPair pair = tokenizer.encode_pair("what cat", document);
    const double score = found["score"].get<double>();
    EXPECT_NEAR(score, 1 / (1 + std::exp(-double(tiny.result(pair.ids, pair.types)[0]))), 1e-3);
    EXPECT_LE(score, last);
    last = score;
  }
  EXPECT_EQ(count, 3u);
  const Result top = heddle({"rerank", tiny.path, "--query", "what cat", "--top", "1"}, "a cat\ndog\nzebra\n");
  EXPECT_EQ(std::count(top.out.begin(), top.out.end(), '\n'), 1) << top.out << top.err;
  const TinyEncoder other("bert");
  EXPECT_NE(heddle({"rerank", other.path, "--query", "a", "b"}).err.find("bert is not a reranker"), std::string::npos);
  EXPECT_NE(heddle({"embed", tiny.path, "cat"}).err.find("gives no embeddings"), std::string::npos);
}

TEST(BenchCommand, OfAnEncoderCountsTexts) {
  const TinyEncoder tiny("bert");
  const Result result = heddle({"bench", tiny.path, "-p", "7,30", "-b", "5", "-r", "2", "--json", "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = parse_json(result.out, "bench");
  ASSERT_EQ(json["results"].size(), 2u);
  const Json& row = json["results"][1];
  EXPECT_EQ(row["test"], "embed");
  EXPECT_EQ(row["tokens"], 30u);
  EXPECT_EQ(row["batch"], 5u);
  EXPECT_NEAR(row["tokens_per_second"].get<double>(), 30 * row["texts_per_second"].get<double>(), 1e-6 * 1e9);
  EXPECT_EQ(row["runs"].size(), 2u);
  EXPECT_NE(heddle({"bench", tiny.path, "-p", "65", "--device", "cpu"}).err.find("at most 64 tokens"),
            std::string::npos);
  const Result table = heddle({"bench", tiny.path, "-p", "7", "-r", "1", "--device", "cpu"});
  EXPECT_NE(table.out.find("embed 7 x 64"), std::string::npos) << table.out << table.err;
}

}  // namespace
}  // namespace heddle::test
