// run, logits and perplexity by their words, on a model whose logits are all 0 and on one that tells stories.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "formats/safetensors.h"
#include "tests/main/small_model.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

struct ModelCommands : testing::Test {
  Folder folder;
  std::string model = write_small_model(folder, "zero.gguf", true);
};

TEST_F(ModelCommands, RunStreamsTextAndEndsWithFigures) {
  for (const char* backend : {"cpu", "reference"}) {
    // all tokens are equally likely, so that the first is taken: <unk>, which is no text
    const Result greedy = heddle({"run", model, "-p", "hi", "-n", "3", "--temp", "0", "--backend", backend});
    EXPECT_EQ(greedy.status, 0) << greedy.err;
    EXPECT_EQ(greedy.out, "\n");
    EXPECT_NE(greedy.err.find("prompt 2 tokens"), std::string::npos) << greedy.err;
    EXPECT_NE(greedy.err.find("generated 3 tokens"), std::string::npos) << greedy.err;
    const std::vector<std::string> seeded{"run", model,     "-n", "30",        "--seed",
                                          "7",   "--top-k", "0",  "--backend", backend};
    const Result one = heddle(seeded, "hi"), two = heddle(seeded, "hi");
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(one.out, two.out);
  }
}

TEST_F(ModelCommands, WhatDoesNotFitIsSaid) {
  const std::string long_text(400, 'x');
  const Result too_long = heddle({"run", model, "-p", long_text});
  EXPECT_EQ(too_long.status, 1);
  EXPECT_EQ(too_long.out, "");
  EXPECT_NE(too_long.err.find("expected fewer than 128 tokens"), std::string::npos) << too_long.err;
  EXPECT_NE(heddle({"run", model, "-p", "x", "--backend", "tpu"}).err.find("\"tpu\""), std::string::npos);
  EXPECT_NE(heddle({"run", model, "-p", "x", "--cpu-isa", "mmx"}).err.find("mmx"), std::string::npos);
  EXPECT_NE(heddle({"run", model, "-p", "x", "--top-p", "2"}).err.find("top_p"), std::string::npos);
  EXPECT_EQ(heddle({"run", folder.file("none.gguf"), "-p", "x"}).status, 1);
}

TEST_F(ModelCommands, AMessageGoesThroughTheTemplate) {
  const Result result = heddle({"run", model, "--chat", "--system", "i", "-p", "hi", "-n", "1", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string shown = "<s>[system] i</s>\n[user] hi</s>\n[assistant]";
  const std::string ids = heddle({"tokenize", model, shown, "--no-special"}).out;
  const auto count = 1 + std::count(ids.begin(), ids.end(), ' ');
  EXPECT_NE(result.err.find(fmt::format("prompt {} tokens", count)), std::string::npos) << result.err;
}

TEST_F(ModelCommands, LogitsOfEveryToken) {
  const std::string out = folder.file("l.safetensors");
  const Result result = heddle({"logits", model, "--ids", "1,262 263", "--out", out});
  EXPECT_EQ(result.status, 0) << result.err;
  const MappedFile file(out);
  const auto tensors = formats::read_safetensors(file.bytes(), out);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "logits");
  EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{265, 3}));
  EXPECT_TRUE(std::all_of(tensors[0].view.begin(), tensors[0].view.end(), [](uint8_t byte) { return byte == 0; }));
  for (const char* ids : {"", "265", "x"})
    EXPECT_EQ(heddle({"logits", model, "--ids", ids, "--out", out}).status, 1) << ids;
}

TEST_F(ModelCommands, PerplexityOfOneThatKnowsNothingIsTheVocabulary) {
  const std::string text = folder.write("t.txt", std::string(300, 'h'));
  for (const char* method : {"windows", "sliding"}) {
    const Result result = heddle({"perplexity", model, text, "--window", "64", "--method", method, "--kl", model});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("perplexity 265.0000 +- 0.0000"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("mean 0.000000, largest 0.0000; top-1 agreement 100.00 %"), std::string::npos)
        << result.out;
  }
  EXPECT_NE(heddle({"perplexity", model, text, "--window", "4096"}).err.find("at least 4096 tokens"),
            std::string::npos);
  EXPECT_NE(heddle({"perplexity", model, text, "--method", "x"}).err.find("windows or sliding"), std::string::npos);
}

// Trained weights that are always there.
TEST(ModelCommandsOnWeft, SaysWhatHeddleIs) {
  const std::string weft = std::string(HEDDLE_SOURCE_DIR) + "/models/weft/weft-q8_0.gguf";
  const Result result = heddle({"run", weft, "--chat", "-p", "What is heddle?", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("heddle is a program that runs language models"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("the model ended"), std::string::npos) << result.err;
}

TEST(ModelCommandsOnStories, TheTwoHundredStepsOfLlama2c) {
  SHARED_DATA(model, "weights/stories260K-f32.gguf");
  SHARED_DATA(expected, "weights/stories260K.karpathy-expected-200steps.txt");
  std::string text(MappedFile(expected).text());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (const char* backend : {"reference", "cpu"}) {
    const Result result = heddle(
        {"run", model.string(), "-p", "", "-n", "200", "--ctx", "512", "--temp", "0", "--exact", "--backend", backend});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out.substr(0, text.size()), text) << backend;
  }
}

TEST(ModelCommandsOnStories, PerplexityIsTheOneOfLlamaCpp) {
  SHARED_DATA(model, "weights/stories260K-f32.gguf");
  SHARED_DATA(book, "text/moby-dick.txt");
  const Folder folder;
  const std::string text = folder.write("t.txt", std::string(MappedFile(book).text().substr(0, 100'000)));
  const Result result = heddle({"perplexity", model.string(), text, "--window", "128", "--windows", "64"});
  EXPECT_EQ(result.status, 0) << result.err;
  double value = 0;
  ASSERT_EQ(std::sscanf(result.out.c_str(), "perplexity %lf", &value), 1) << result.out;
  EXPECT_NEAR(value, 65.67, 0.05);
}

}  // namespace
}  // namespace heddle::test
