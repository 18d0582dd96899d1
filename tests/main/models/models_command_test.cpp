// The list of models, show and rm.
#include "main/models/models_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/load.h"
#include "tests/main/models/own_stores.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

TEST(ModelsCommand, ListsWhatIsThere) {
  OwnStores stores;
  expect_says(heddle({"models"}).out,
              {"no models in these folders; heddle pull NAME gets one:", "heddle", stores.own().string(), "Ollama"});
  EXPECT_EQ(heddle({"models", "--json"}).out, "[]\n");
  put(stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  put(stores.own() / "broken.gguf", "GGUF");
  put_ollama(stores.ollama(), "registry.ollama.ai/library/weft/latest", contents(weft));
  put(stores.ollama() / "manifests/registry.ollama.ai/library/wrong/latest", "{");
  const Result table = heddle({"models"});
  EXPECT_EQ(table.status, 0);
  expect_says(table.out, {"NAME",   "SIZE",   "TYPE", "ARCHITECTURE",          "CONTEXT", "STORE", "RUNS",
                          "broken", "4 B",    "no: ", "heddle/weft-GGUF:Q8_0", "8.8 MB",  "Q8_0",  "llama",
                          "512",    "heddle", "yes",  "weft:latest",           "Ollama",  "yes"});
  expect_says(table.err, {"wrong/latest: manifest"});
  const auto list = nlohmann::json::parse(heddle({"models", "--json"}).out);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["name"], "broken");
  EXPECT_EQ(list[0]["runs"], false);
  EXPECT_TRUE(list[0]["problem"].is_string());
  EXPECT_EQ(list[1]["name"], "heddle/weft-GGUF:Q8_0");
  EXPECT_EQ(list[1]["bytes"], std::filesystem::file_size(weft));
  EXPECT_EQ(list[1]["type"], "Q8_0");
  EXPECT_EQ(list[1]["architecture"], "llama");
  EXPECT_EQ(list[1]["context"], 512);
  EXPECT_EQ(list[1]["store"], "heddle");
  EXPECT_EQ(list[1]["path"], (stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf").string());
  EXPECT_EQ(list[1]["runs"], true);
  EXPECT_EQ(list[2]["name"], "weft:latest");
}

TEST(ModelsCommand, ListsNamesWithoutOpeningFiles) {
  OwnStores stores;
  EXPECT_EQ(heddle({"models", "--names"}).out, "weft\n");
  put(stores.own() / "hub/org/repo/m-Q8_0.gguf", "no model");
  put(stores.own() / "two\nlines.gguf", "1");
  put_ollama(stores.ollama(), "registry.ollama.ai/library/qwen3/0.6b", "GGUF");
  put(stores.ollama() / "manifests/registry.ollama.ai/library/wrong/latest", "{");
  const Result names = heddle({"models", "--names"});
  EXPECT_EQ(names.status, 0);
  EXPECT_EQ(names.out, "weft\norg/repo:Q8_0\nqwen3:0.6b\n") << "a name of two lines would be two names";
  EXPECT_EQ(names.err, "");
  EXPECT_EQ(heddle({"models", "--names", "--json"}).status, 2);
}

TEST(ModelsCommand, SaysWhatIsTooLarge) {
  const model::Model model = model::load(formats::open_checkpoint(weft));
  EXPECT_EQ(memory_problem(model, {.cpu = 1'000'000'000, .gpus = {}}), "");
  EXPECT_EQ(memory_problem(model, {.cpu = 0, .gpus = {}}), "");  // unknown
  expect_says(memory_problem(model, {.cpu = 1'000'000, .gpus = {}}), {"too large: it needs ", " MB, 1.0 MB are free"});
}

TEST(ShowCommand, SaysWhereItIsAndWhatItIs) {
  OwnStores stores;
  put(stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  const Result text = heddle({"show", "weft-GGUF"});
  EXPECT_EQ(text.status, 0) << text.err;
  expect_says(text.out, {"model          heddle/weft-GGUF:Q8_0", "store          heddle", "file           ",
                         "weft-Q8_0.gguf (GGUF, 8.8 MB)", "architecture   llama", "metadata",
                         "general.architecture = ", "\nchat template\n"});
  const auto json = nlohmann::json::parse(heddle({"show", "weft-GGUF", "--json"}).out);
  EXPECT_EQ(json["name"], "heddle/weft-GGUF:Q8_0");
  EXPECT_EQ(json["store"], "heddle");
  EXPECT_EQ(json["paths"].size(), 1u);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_FALSE(json["chat_template"].get<std::string>().empty());
  EXPECT_FALSE(json.contains("tensors"));
  expect_says(heddle({"show", "weft"}).out, {"model          weft", "store          none: in the program"});
  expect_says(heddle({"show", weft}).out, {"model          weft-q8_0", "store          none: a path"});
  EXPECT_EQ(heddle({"show"}).status, 2);
}

TEST(RmCommand, RemovesOnlyItsOwn) {
  OwnStores stores;
  put(stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf", contents(weft));
  put(stores.own() / "hub/heddle/half-GGUF/m-Q8_0.gguf.part", "1234");
  put_ollama(stores.ollama(), "registry.ollama.ai/library/qwen3/0.6b", "GGUF");
  const Result removed = heddle({"rm", "weft-GGUF"});
  EXPECT_EQ(removed.status, 0) << removed.err;
  expect_says(removed.out, {"removed heddle/weft-GGUF:Q8_0: 8.8 MB"});
  expect_says(heddle({"rm", "heddle/half-GGUF"}).out, {"removed what was pulled of heddle/half-GGUF"});
  EXPECT_FALSE(std::filesystem::exists(stores.own() / "hub"));
  const Result other = heddle({"rm", "qwen3:0.6b"});
  EXPECT_EQ(other.status, 1);
  expect_says(other.err, {"is in the store of Ollama, which heddle does not change; ollama rm qwen3:0.6b removes it"});
  expect_says(heddle({"rm", "weft-GGUF"}).err, {"no model of that name on this machine"});
  const Result own = heddle({"rm", "weft"});
  EXPECT_EQ(own.status, 1);
  EXPECT_EQ(own.err, "heddle: weft is a part of the program, and cannot be removed\n");
  expect_says(heddle({"rm", weft}).err, {"there is no such file or folder"});
  EXPECT_EQ(heddle({"rm"}).status, 2);
}

}  // namespace
}  // namespace heddle::test
