// heddle run and logits: on a model whose logits are all 0, and on models that were trained.
#include "main/commands/run_command.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "formats/safetensors.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

struct RunCommand : testing::Test {
  Folder folder;
  std::string model = write_small_model(folder, "zero.gguf", true);
};

TEST_F(RunCommand, RunStreamsTextAndEndsWithFigures) {
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

TEST_F(RunCommand, WhatDoesNotFitIsSaid) {
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

TEST_F(RunCommand, WeightsInTheFileChangeNothingButTheTime) {
  const std::vector<std::string> arguments{"run", weft, "-p", "Once upon a time", "-n", "40", "--temp", "0"};
  const auto with = [&](std::initializer_list<const char*> more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return heddle(all);
  };
  const Result plain = with({"--device", "cpu"}), in_file = with({"--no-repack"});
  EXPECT_EQ(in_file.status, 0) << in_file.err;
  EXPECT_EQ(in_file.out, plain.out);
  EXPECT_NE(with({"--no-repack", "--device", "cuda:0"})
                .err.find("--no-repack is for the CPU: expected --device cpu or auto with it, found cuda:0"),
            std::string::npos);
  EXPECT_NE(with({"--no-repack", "--gpu-layers", "2"}).err.find("--gpu-layers is for GPUs"), std::string::npos);
  EXPECT_NE(with({"--no-repack", "--gpu-layers", "2"}).err.find("found --no-repack"), std::string::npos);
}

TEST_F(RunCommand, ADraftChangesNothingButTheTime) {
  const std::string smaller = folder.file("weft-q4.gguf");
  ASSERT_EQ(heddle({"quantize", weft, smaller, "--type", "Q4_0", "--allow-requantize"}).status, 0);
  for (const char* temperature : {"0", "0.9"}) {
    std::vector<std::string> arguments{"run",       "weft",   "-p", "Once upon a time", "-n", "120", "--temp",
                                       temperature, "--seed", "3",  "--device",         "cpu"};
    const Result plain = heddle(arguments);
    EXPECT_EQ(plain.err.find("draft"), std::string::npos) << plain.err;
    for (const std::string& draft : {std::string("weft"), smaller}) {
      std::vector<std::string> with = arguments;
      with.insert(with.end(), {"--draft", draft, "--draft-tokens", "3"});
      const Result drafted = heddle(with);
      EXPECT_EQ(drafted.status, 0) << drafted.err;
      EXPECT_EQ(drafted.out, plain.out);
      EXPECT_NE(drafted.err.find("; draft: "), std::string::npos) << drafted.err;
    }
  }
}

TEST_F(RunCommand, ADraftOfAnotherVocabularyIsRefused) {
  const auto refused = [](const std::string& model, const std::string& draft) {
    const Result result = heddle({"run", model, "-p", "hi", "--draft", draft, "--device", "cpu"});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  expect_says(refused("weft", model), {"draft " + model, "expected the vocabulary of weft, where token ", "found \""});
  const std::string padded = write_small_model(folder, "padded.gguf", true, 320);
  expect_says(refused(model, padded), {"draft " + padded, "with 265 tokens, found 320"});
  expect_says(refused(model, folder.file("none.gguf")), {"none.gguf"});
  expect_says(heddle({"run", model, "-p", "hi", "--draft", model, "--draft-tokens", "0"}).err,
              {"--draft-tokens: expected 1 to 64, found 0"});
}

TEST_F(RunCommand, AMessageGoesThroughTheTemplate) {
  const Result result = heddle({"run", model, "--chat", "--system", "i", "-p", "hi", "-n", "1", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string shown = "<s>[system] i</s>\n[user] hi</s>\n[assistant]";
  const std::string ids = heddle({"tokenize", model, shown, "--no-special"}).out;
  const auto count = 1 + std::count(ids.begin(), ids.end(), ' ');
  EXPECT_NE(result.err.find(fmt::format("prompt {} tokens", count)), std::string::npos) << result.err;
}

TEST_F(RunCommand, LogitsOfEveryToken) {
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

// Trained weights that are always there.
TEST(RunCommandOnWeft, SaysWhatHeddleIs) {
  const std::string weft = std::string(HEDDLE_SOURCE_DIR) + "/models/weft/weft-q8_0.gguf";
  const Result result = heddle({"run", weft, "--chat", "-p", "What is heddle?", "--temp", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("heddle is a program that runs language models"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("the model ended"), std::string::npos) << result.err;
}

TEST(RunCommandOnStories, TheTwoHundredStepsOfLlama2c) {
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

// Raises SIGINT as soon as something is written, as if the user had pressed Ctrl-C then.
struct Interrupting : std::stringbuf {
  bool pressed = false;
  int sync() override { return std::exchange(pressed, true) ? 0 : ::raise(SIGINT); }
};

TEST_F(RunCommand, CtrlCEndsItWithWhatThereIs) {
  Interrupting buffer;
  std::ostream out(&buffer);
  std::istringstream in;
  std::ostringstream err;
  const auto before = ::signal(SIGINT, SIG_DFL);
  const int status = run_command_line({"run", weft, "--chat", "-p", "hi", "--temp", "0"}, in, out, err);
  ::signal(SIGINT, before);
  EXPECT_EQ(status, 130);
  EXPECT_EQ(buffer.str(), "Hello\n");
  expect_says(err.str(), {"generated 1 tokens", "(interrupted)"});
}

TEST_F(RunCommand, StopsAndLogProbabilities) {
  const Result result =
      heddle({"run", weft, "--chat", "-p", "hi", "--temp", "0", "--stop", "tell you", "--logprobs", "2"});
  EXPECT_EQ(result.out, "Hello! I can \n");
  expect_says(result.err, {" \"Hello\"  of -", " \"Hello\", -", "\n", " \" I\"  of", "(a stop string came)"});
  const Result alone = heddle({"run", weft, "-p", "Once", "--temp", "0", "-n", "1", "--logprobs", "0"});
  expect_says(alone.err, {"-0.", " \" upon\"\nprompt"});
  // the most likely token forbidden: another one
  const std::string id = heddle({"tokenize", weft, "Hello", "--no-special"}).out;
  const Result banned = heddle({"run", weft, "--chat", "-p", "hi", "--temp", "0", "-n", "1", "--logit-bias",
                                id.substr(0, id.find('\n')) + "=false"});
  EXPECT_EQ(banned.status, 0) << banned.err;
  EXPECT_NE(banned.out, "Hello\n");
}

const std::vector<model::KernelTime> times{{"product", "qkv", 0, 0.001, 10e-6, 20'000'000},
                                           {"attention", "attend", 0, 0.00101, 4e-6, 0},
                                           {"product", "qkv", 1, 0.00102, 10e-6, 20'000'000},
                                           {"sample \"x\"", "", -1, 0.00103, 0, 8}};

TEST(KernelTrace, IsJsonForABrowser) {
  const auto file = nlohmann::json::parse(trace_json(times));
  const auto& events = file.at("traceEvents");
  ASSERT_EQ(events.size(), 4u);
  for (const auto& event : events) EXPECT_EQ(event.at("ph"), "X");
  EXPECT_EQ(events[0].at("name"), "qkv product");
  EXPECT_EQ(events[3].at("name"), "sample \"x\"");
  EXPECT_DOUBLE_EQ(events[1].at("ts"), 1010);
  EXPECT_DOUBLE_EQ(events[1].at("dur"), 4);
  EXPECT_EQ(events[2].at("args").at("layer"), 1);
  EXPECT_EQ(events[2].at("args").at("bytes"), 20'000'000);
  EXPECT_DOUBLE_EQ(events[2].at("args").at("GB/s"), 2000);
  EXPECT_EQ(events[3].at("args").at("GB/s"), 0);
  EXPECT_TRUE(nlohmann::json::parse(trace_json({})).at("traceEvents").empty());
}

TEST(KernelTrace, ATableByPhase) {
  const std::string table = trace_table(times);
  expect_says(table, {"phase", "calls", "GB/s", "\nqkv ", "2 ", "20.0 ", "40000000", "2000", "\nattend ", "\nall ",
                      "4 ", "24.0", "100.0%", "40000008"});
  expect_says(trace_table({}), {"\nall ", "0"});
}

}  // namespace
}  // namespace heddle::test
