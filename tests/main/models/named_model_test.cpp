// Models of three stores by name: the same texts as by path.
#include "main/models/named_model.h"

#include <gtest/gtest.h>

#include "tests/main/models/own_stores.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

std::string text_by(const std::string& model) {
  const Result result = heddle({"run", model, "-p", "The old loom", "-n", "30", "--temp", "0", "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(NamedModel, ThreeStores) {
  OwnStores stores;
  // three models that say different things: weft, and weft with fewer bits
  const std::string q4 = stores.home.file("q4.gguf"), q2 = stores.home.file("q2.gguf");
  ASSERT_EQ(heddle({"quantize", weft, q4, "--type", "Q4_0", "--allow-requantize"}).status, 0);
  ASSERT_EQ(heddle({"quantize", weft, q2, "--type", "Q2_K", "--allow-requantize"}).status, 0);
  put(stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  put_hugging_face(stores.hugging_face(), "heddle/weft-small-GGUF", "weft-Q4_0.gguf", contents(q4));
  put_ollama(stores.ollama(), "registry.ollama.ai/library/weft-tiny/q4", contents(q2));

  const std::string first = text_by(weft), second = text_by(q4), third = text_by(q2);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
  EXPECT_EQ(text_by("heddle/weft-GGUF:Q8_0"), first);
  EXPECT_EQ(text_by("weft-gguf"), first);
  EXPECT_EQ(text_by("weft-Q8_0.gguf"), first);
  EXPECT_EQ(text_by("hf.co/heddle/weft-small-GGUF"), second);
  EXPECT_EQ(text_by("weft-tiny:q4"), third);
  EXPECT_EQ(text_by("weft-tiny"), third);

  // other commands know the names too
  for (const char* command : {"inspect", "plan", "tokenize", "show"}) {
    std::vector<std::string> words{command, "weft-tiny"};
    if (std::string(command) == "tokenize") words.push_back("Once");
    const Result result = heddle(words);
    EXPECT_EQ(result.status, 0) << command << result.err;
  }
  expect_says(heddle({"plan", "weft-tiny"}).out, {"weft-tiny:q4: context of 512 tokens"});
  expect_says(heddle({"weft-tiny"}).err, {"there is no command \"weft-tiny\"; did you mean heddle chat weft-tiny?"});
}

TEST(NamedModel, WhatIsRefused) {
  OwnStores stores;
  put(stores.own() / "hub/one/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  put(stores.own() / "hub/two/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  put(stores.own() / "hub/two/other-GGUF/other-Q8_0.gguf", contents(weft));
  const auto refused = [](const std::string& name) {
    const Result result = heddle({"run", name, "-p", "x"});
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  expect_says(
      refused("weft-GGUF"),
      {"weft-GGUF: expected the name of one model, found 2: one/weft-GGUF:Q8_0 (heddle), two/weft-GGUF:Q8_0 (heddle)"});
  expect_says(refused("two/othr-GGUF"),
              {"two/othr-GGUF: there is no such file or folder, and no model of that name on this machine",
               "did you mean two/other-GGUF? Or, to get it: heddle pull two/othr-GGUF"});
  expect_says(refused("qwen3:0.6b"), {"no model of that name on this machine; to get it: heddle pull qwen3:0.6b"});
  for (const char* path : {"./none", "/none", "none.gguf", "../none", "a/b/c"}) {
    const std::string message = refused(path);
    expect_says(message, {path, ": there is no such file or folder\n"});
  }
  expect_says(refused(""), {"found an empty name"});
  // a file is taken before a name
  std::filesystem::current_path(stores.home.path());
  put(stores.home.path() / "two/other-GGUF", "no model");
  expect_says(refused("two/other-GGUF"), {"two/other-GGUF: expected a GGUF or safetensors file"});
  std::filesystem::current_path("/");
  const std::string layer = R"(,{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:)" +
                            std::string(64, 'b') + R"(","size":3})";
  put_ollama(stores.ollama(), "registry.ollama.ai/library/tuned/latest", "GGUF", layer);
  expect_says(refused("tuned"), {"tuned:latest: cannot be run from the store of Ollama: it has an adapter"});
}

}  // namespace
}  // namespace heddle::test
