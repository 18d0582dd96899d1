// heddle tokenize, detokenize and template.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/main/small_model.h"

namespace heddle::test {
namespace {

struct TextCommands : testing::Test {
  Folder folder;
  std::string model = write_small_model(folder);
};

TEST_F(TextCommands, IdsAreSeparatedBySpaces) {
  const Result result = heddle({"tokenize", model, "hi hi"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "1 263 263\n");
  EXPECT_EQ(heddle({"tokenize", model, "hi hi", "--no-special"}).out, "263 263\n");
}

TEST_F(TextCommands, TheTextMayComeFromStandardInputByteForByte) {
  EXPECT_EQ(heddle({"tokenize", model}, "hi hi").out, "1 263 263\n");
  EXPECT_EQ(heddle({"tokenize", model}, "hi\n").out, "1 263 13\n");  // <0x0A> is id 13
  EXPECT_EQ(heddle({"tokenize", model}, std::string("hi\0\xff", 4)).out, "1 263 3 258\n");
  EXPECT_EQ(heddle({"tokenize", model}, "").out, "1\n");
  EXPECT_EQ(heddle({"tokenize", model, "--no-special"}, "").out, "\n");
  EXPECT_EQ(heddle({"tokenize", model, ""}, "not this").out, "1\n");  // an empty text is a text
}

TEST_F(TextCommands, SpecialTokensAreRecognisedUnlessPlain) {
  EXPECT_EQ(heddle({"tokenize", model, "<|turn|>", "--no-special"}).out, "264\n");
  const std::string plain = heddle({"tokenize", model, "<|turn|>", "--no-special", "--plain"}).out;
  EXPECT_EQ(plain.find("264"), std::string::npos) << plain;
  EXPECT_EQ(heddle({"detokenize", model}, plain).out, "<|turn|>");
}

TEST_F(TextCommands, PiecesAreShownWithTheirBytes) {
  EXPECT_EQ(heddle({"tokenize", model, "hi\xff", "--pieces"}).out,
            "       1  \"<s>\"\n     263  \" hi\"\n     258  [255]\n");
  const Result json = heddle({"tokenize", model, "hi\xff", "--pieces", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out),
            nlohmann::json::parse(R"({"ids": [1, 263, 258], "pieces": ["<s>", " hi", [255]]})"));
  EXPECT_EQ(heddle({"tokenize", model, "hi", "--json"}).out, "{\"ids\":[1,263]}\n");
}

TEST_F(TextCommands, DetokenizeIsTheInverseOfTokenize) {
  for (const std::string& text :
       {std::string("hi hi"), std::string("  h\ni "), std::string("hi<|turn|>"), std::string(),
        std::string("\xc3\xa4\xff\0x", 5), std::string("</s>"), std::string("<s>")}) {
    EXPECT_EQ(heddle({"detokenize", model}, heddle({"tokenize", model}, text).out).out, text) << text;
    EXPECT_EQ(heddle({"detokenize", model}, heddle({"tokenize", model, "--json"}, text).out.substr(7)).status, 1);
  }
  EXPECT_EQ(heddle({"detokenize", model, "1", "263", "263"}).out, "hi hi");
  EXPECT_EQ(heddle({"detokenize", model, "1,263", "[264]"}).out, "hi<|turn|>");
  EXPECT_EQ(heddle({"detokenize", model, "1", "263", "264", "--special"}).out, "<s> hi<|turn|>");
  EXPECT_EQ(heddle({"detokenize", model, "1", "263", "264", "--no-special"}).out, "hi");
}

// Neither weights nor a class that heddle knows are needed to see how a model reads a text.
TEST_F(TextCommands, AFolderWithATokenizerIsEnough) {
  const Folder texts;
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream(texts.path() / name, std::ios::binary) << text;
  };
  write("tokenizer.json", R"({"version": "1.0", "added_tokens": [{"id": 3, "content": "<s>", "special": true,
    "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}], "pre_tokenizer":
    {"type": "Whitespace"}, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
  const std::string name = texts.path().string();
  EXPECT_EQ(heddle({"tokenize", name, "ab<s>a"}).out, "2 3 0\n");
  EXPECT_EQ(heddle({"detokenize", name, "0"}).out, "a");
  write("config.json", R"({"architectures": ["NobodyKnowsForCausalLM"]})");
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "chat_template": "{{ bos_token }}{{ messages[0].content }}"})");
  write("messages.json", R"([{"role": "user", "content": "hi"}])");
  EXPECT_EQ(heddle({"tokenize", name, "ab"}).out, "2\n");
  const Result rendered = heddle({"template", name, "--messages", (texts.path() / "messages.json").string()});
  EXPECT_EQ(rendered.out, "<s>hi") << rendered.err;
  const Folder empty;
  const Result refused = heddle({"tokenize", empty.path().string(), "ab"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("found neither"), std::string::npos) << refused.err;
}

TEST_F(TextCommands, WhatIsNoIdIsNamed) {
  const Result word = heddle({"detokenize", model, "263", "cat"});
  EXPECT_EQ(word.status, 1);
  EXPECT_NE(word.err.find("\"cat\""), std::string::npos) << word.err;
  const Result beyond = heddle({"detokenize", model, "265"});
  EXPECT_EQ(beyond.status, 1);
  EXPECT_NE(beyond.err.find("265"), std::string::npos) << beyond.err;
  EXPECT_EQ(beyond.out, "");
}

TEST_F(TextCommands, AMissingModelIsOneClearLine) {
  for (const char* command : {"tokenize", "detokenize"}) {
    const Result result = heddle({command, folder.file("none.gguf"), "1"});
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find("none.gguf"), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(TextCommands, AModelsTemplateGetsItsOwnTokens) {
  const std::string messages = folder.write("m.json", R"([{"role": "user", "content": "hi"}])");
  const Result result = heddle({"template", model, "--messages", messages});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "<s>[user] hi</s>\n[assistant]");
  EXPECT_EQ(heddle({"template", model, "--messages", messages, "--no-generation-prompt"}).out, "<s>[user] hi</s>\n");
  EXPECT_EQ(heddle({"template", model, "--messages", "-"}, "[]").out, "<s>[assistant]");
}

TEST_F(TextCommands, ABareTemplateGetsThemFromTheCommandLine) {
  const std::string source = folder.write("t.jinja", small_template);
  const std::string messages = folder.write("m.json", R"([{"role": "user", "content": "hi"}])");
  const std::string tools = folder.write("tools.json", R"([{"type": "function"}, {"type": "function"}])");
  EXPECT_EQ(heddle({"template", source, "--messages", messages, "--tools", tools, "--bos", "<b>", "--eos", "<e>",
                    "--date", "2024-02-29", "--no-generation-prompt"})
                .out,
            "<b>[user] hi<e>\n2 tools on 2024-02-29\n");
  const std::string settings = folder.write("s.jinja", "{{ a + 1 }} {{ b }} {{ c }}");
  EXPECT_EQ(
      heddle({"template", settings, "--messages", messages, "--set", "a=41", "--set", "b=x=y", "--set", "c=true"}).out,
      "42 x=y True");
}

TEST_F(TextCommands, WhatATemplateRefusesOrCannotDoIsSaid) {
  const std::string messages = folder.write("m.json", R"([{"role": "user", "content": "hi"}])");
  const std::string source = folder.write("r.jinja", "{{ raise_exception('no such role') }}");
  const Result refused = heddle({"template", source, "--messages", messages});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("no such role"), std::string::npos) << refused.err;
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"{% if %}", "line 1"}, {"{{ 1 / 0 }}", "line 1"}, {"{% include 'x' %}", "include"}}) {
    const Result wrong = heddle({"template", folder.write("w.jinja", text), "--messages", messages});
    EXPECT_EQ(wrong.status, 1) << text;
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
  }
  for (const std::vector<std::string>& extra : {std::vector<std::string>{"--date", "2024-02-30"},
                                                {"--date", "yesterday"},
                                                {"--set", "novalue"},
                                                {"--tools", folder.file("none.json")}}) {
    std::vector<std::string> arguments{"template", folder.write("ok.jinja", "x"), "--messages", messages};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    const Result wrong = heddle(arguments);
    EXPECT_EQ(wrong.status, 1) << extra[1];
    EXPECT_NE(wrong.err.find(extra[1].substr(extra[1].rfind('/') + 1)), std::string::npos) << wrong.err;
  }
  const Result no_list = heddle({"template", folder.write("ok.jinja", "x"), "--messages", "-"}, "{}");
  EXPECT_EQ(no_list.status, 1);
  EXPECT_NE(no_list.err.find("list"), std::string::npos) << no_list.err;
}

}  // namespace
}  // namespace heddle::test
