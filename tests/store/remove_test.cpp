// What goes when a model goes, and what stays.
#include "store/remove.h"

#include <gtest/gtest.h>

#include "store/pull.h"
#include "tests/store/store_folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;
using test::put;

FoundModel only(const char* name, const fs::path& store) {
  const std::vector<FoundModel> found = models_named(name, find_models({{StoreKind::own, store}}));
  EXPECT_EQ(found.size(), 1u) << name;
  return found.at(0);
}

TEST(RemoveModel, TakesItsFilesAndEmptyFolders) {
  const test::Folder folder;
  const fs::path& store = folder.path();
  put(store / "hub/org/repo/big/m-Q8_0-00001-of-00002.gguf", "1234");
  put(store / "hub/org/repo/big/m-Q8_0-00002-of-00002.gguf", "1234");
  put(store / "hub/org/repo/m-Q4_0.gguf", "1");
  put(store / "hub/org/repo/m-Q4_0.gguf.part", "1");
  write_pulled(store / "hub/org/repo", {{"m-Q4_0.gguf", "sha256:a"}, {"big/m-Q8_0-00001-of-00002.gguf", "sha256:b"}});
  put(store / "registry/registry.ollama.ai/library/qwen3/0.6b/model.gguf", "12");
  put(store / "registry/registry.ollama.ai/library/qwen3/8b/model.gguf", "12");
  put(store / "mine.gguf", "12");
  put(store / "other.txt", "12");
  EXPECT_GT(remove_model(only("org/repo:Q8_0", store), store), 0u);
  EXPECT_FALSE(fs::exists(store / "hub/org/repo/big"));
  EXPECT_TRUE(fs::exists(store / "hub/org/repo/m-Q4_0.gguf"));
  EXPECT_EQ(read_pulled(store / "hub/org/repo").size(), 1u);
  remove_model(only("org/repo:Q4_0", store), store);
  EXPECT_FALSE(fs::exists(store / "hub"));
  remove_model(only("qwen3:0.6b", store), store);
  EXPECT_FALSE(fs::exists(store / "registry/registry.ollama.ai/library/qwen3/0.6b"));
  EXPECT_TRUE(fs::exists(store / "registry/registry.ollama.ai/library/qwen3/8b/model.gguf"));
  remove_model(only("qwen3:8b", store), store);
  EXPECT_FALSE(fs::exists(store / "registry"));
  remove_model(only("mine", store), store);
  EXPECT_FALSE(fs::exists(store / "mine.gguf"));
  EXPECT_TRUE(fs::exists(store / "other.txt"));
}

TEST(RemoveModel, WhatAPullLeft) {
  const test::Folder folder;
  const fs::path& store = folder.path();
  put(store / "hub/org/repo/m-Q4_0.gguf.part", "1234");
  put(store / "hub/org/repo/m-Q4_0.gguf.part.state", "x");
  put(store / "hub/org/repo/m-Q8_0.gguf.part", "1234");
  put(store / "registry/registry.ollama.ai/library/qwen3/latest/model.gguf.part", "1234");
  EXPECT_GT(remove_unfinished(read_remote_name("org/repo:Q4_0"), store), 0u);
  EXPECT_FALSE(fs::exists(store / "hub/org/repo/m-Q4_0.gguf.part.state"));
  EXPECT_TRUE(fs::exists(store / "hub/org/repo/m-Q8_0.gguf.part"));
  EXPECT_EQ(remove_unfinished(read_remote_name("org/repo:Q4_0"), store), 0u);
  EXPECT_GT(remove_unfinished(read_remote_name("org/repo"), store), 0u);
  EXPECT_FALSE(fs::exists(store / "hub"));
  EXPECT_GT(remove_unfinished(read_remote_name("qwen3"), store), 0u);
  EXPECT_FALSE(fs::exists(store / "registry"));
  EXPECT_EQ(remove_unfinished(read_remote_name("qwen3"), store), 0u);
}

TEST(RemoveModel, OfOtherProgramsIsRefused) {
  const auto refused = [](StoreKind store, const char* name) {
    return test::refusal(
        [&] { remove_model({.name = name, .store = store, .path = "/x/m.gguf", .files = {"/x/m.gguf"}}, "/own"); });
  };
  test::expect_says(refused(StoreKind::ollama, "qwen3:0.6b"),
                    {"qwen3:0.6b: is in the store of Ollama, which heddle does not change", "ollama rm qwen3:0.6b"});
  test::expect_says(refused(StoreKind::hugging_face, "org/repo:Q4_0"),
                    {"Hugging Face", "hf cache rm model/org/repo removes it"});
  test::expect_says(refused(StoreKind::lm_studio, "a/b:Q4_0"), {"LM Studio", "delete /x/m.gguf"});
  test::expect_says(refused(StoreKind::llama_cpp, "m"), {"llama.cpp", "delete /x/m.gguf"});
}

}  // namespace
}  // namespace heddle::store
