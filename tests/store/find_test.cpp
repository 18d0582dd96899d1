// Models in the layouts of every store, and the names that mean them.
#include "store/find.h"

#include <gtest/gtest.h>

#include "tests/store/store_folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

using test::put;

std::vector<std::string> names_of(const std::vector<FoundModel>& models) {
  std::vector<std::string> names;
  for (const FoundModel& model : models) names.push_back(model.name);
  return names;
}
using Names = std::vector<std::string>;

std::vector<FoundModel> found_in(StoreKind store, const test::Folder& folder,
                                 std::vector<std::string>* notes = nullptr) {
  return find_models({{store, folder.path()}}, notes);
}

TEST(Places, FollowTheEnvironment) {
  std::map<std::string, std::string> set{{"HOME", "/h"}};
  const Environment environment = [&](const char* name) { return set.contains(name) ? set[name].c_str() : nullptr; };
  const auto folders = [&](StoreKind store) {
    Names result;
    for (const Place& place : model_places(environment))
      if (place.store == store) result.push_back(place.folder.string());
    return result;
  };
  EXPECT_EQ(own_store(environment), "/h/.local/share/heddle/models");
  EXPECT_EQ(folders(StoreKind::own), Names{"/h/.local/share/heddle/models"});
  EXPECT_EQ(folders(StoreKind::hugging_face), Names{"/h/.cache/huggingface/hub"});
  EXPECT_EQ(folders(StoreKind::ollama), (Names{"/h/.ollama/models", "/usr/share/ollama/.ollama/models"}));
  EXPECT_EQ(folders(StoreKind::lm_studio), (Names{"/h/.lmstudio/models", "/h/.cache/lm-studio/models"}));
  EXPECT_EQ(folders(StoreKind::llama_cpp), Names{"/h/.cache/llama.cpp"});
  set = {{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}, {"XDG_DATA_HOME", "/d"}, {"OLLAMA_MODELS", "/o"}};
  EXPECT_EQ(own_store(environment), "/d/heddle/models");
  EXPECT_EQ(folders(StoreKind::hugging_face), Names{"/c/huggingface/hub"});
  EXPECT_EQ(folders(StoreKind::ollama), Names{"/o"});
  EXPECT_EQ(folders(StoreKind::llama_cpp), Names{"/c/llama.cpp"});
  set["HF_HOME"] = "/hf";
  EXPECT_EQ(folders(StoreKind::hugging_face), Names{"/hf/hub"});
  EXPECT_EQ(hugging_face_home(environment), "/hf");
  set["HF_HUB_CACHE"] = "/hub";
  set["LLAMA_CACHE"] = "/hub/";  // one folder is searched once
  EXPECT_EQ(folders(StoreKind::hugging_face), Names{"/hub"});
  set["LLAMA_CACHE"] = "/l";
  EXPECT_EQ(folders(StoreKind::llama_cpp), Names{"/l"});
  set.clear();
  EXPECT_EQ(model_places(environment).size(), 1u);  // that of Ollama's service
  EXPECT_REFUSED(own_store(environment), "expected XDG_DATA_HOME or HOME", "found neither");
}

TEST(Places, LmStudioSaysWhereItKeepsItsModels) {
  const test::Folder home;
  const std::string folder = home.path();
  const Environment environment = [&](const char* name) {
    return std::string_view(name) == "HOME" ? folder.c_str() : nullptr;
  };
  const auto found = [&] {
    Names result;
    for (const Place& place : model_places(environment))
      if (place.store == StoreKind::lm_studio) result.push_back(place.folder.string());
    return result;
  };
  const Names usual{folder + "/.lmstudio/models", folder + "/.cache/lm-studio/models"};
  EXPECT_EQ(found(), usual);
  const auto settings = home.file(".lmstudio/settings.json");
  for (const char* text : {"", "{", "[]", "{}", R"({"downloadsFolder": 1})", R"({"downloadsFolder": ""})",
                           R"({"downloadsFolder": "relative/folder"})", "{\"downloadsFolder\": \"\xff\"}"}) {
    put(settings, text);
    EXPECT_EQ(found(), usual) << text;
  }
  put(settings, R"({"language": "en", "downloadsFolder": "/data/models"})");
  EXPECT_EQ(found(), (Names{"/data/models", usual[0], usual[1]}));
  put(settings, fmt::format(R"({{"downloadsFolder": "{}/"}})", usual[0]));
  EXPECT_EQ(found().size(), 3u);
  std::filesystem::remove(settings);
  for (const char* text : {"", "\n", "relative\n"}) {
    put(home.file(".lmstudio-home-pointer"), text);
    EXPECT_EQ(found(), usual) << text;
  }
  put(home.file(".lmstudio-home-pointer"), folder + "/moved \r\n");
  put(home.file("moved/settings.json"), R"({"downloadsFolder": "/data/others"})");
  EXPECT_EQ(found(), (Names{"/data/others", folder + "/moved/models", usual[0], usual[1]}));
  put(home.file(".lmstudio-home-pointer"), folder + "/.cache/lm-studio");
  EXPECT_EQ(found(), (Names{usual[1], usual[0]}));
}

TEST(FindModels, NothingIsFoundInNothing) {
  const test::Folder folder;
  std::vector<std::string> notes;
  for (const StoreKind store :
       {StoreKind::own, StoreKind::hugging_face, StoreKind::ollama, StoreKind::lm_studio, StoreKind::llama_cpp}) {
    EXPECT_TRUE(find_models({{store, folder.file("no")}}, &notes).empty());
    EXPECT_TRUE(found_in(store, folder, &notes).empty());
  }
  EXPECT_TRUE(notes.empty());
}

TEST(FindModels, InTheOwnStore) {
  const test::Folder folder;
  put(folder.file("hub/org/repo/m-Q4_K_M.gguf"), "1234");
  put(folder.file("hub/org/repo/m-Q8_0.gguf.part"), "not yet");
  put(folder.file("hub/org/repo/.lock"), "");
  put(folder.file("hub/org/whole/config.json"), "{}");
  put(folder.file("hub/org/whole/model.safetensors"), "12345");
  put(folder.file("hub/org/whole/m-Q8_0.gguf"), "12345");  // not a part of the folder's model
  put(folder.file("hub/org/half/config.json"), "{}");
  put(folder.file("hub/org/half/model-00001-of-00002.safetensors"), "1");
  put(folder.file("hub/org/half/model.safetensors.index.json"),
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  put(folder.file("registry/registry.ollama.ai/library/qwen3/0.6b/model.gguf"), "12");
  put(folder.file("registry/localhost:5000/me/tiny/q8/model.gguf"), "12");
  put(folder.file("mine.gguf"), "1");
  put(folder.file("own-folder/config.json"), "{}");
  put(folder.file("own-folder/model.safetensors"), "1");
  put(folder.file("types/Q8_0/m-Q8_0.gguf"), "1");  // a folder of its own for each type
  put(folder.file("types/README.md"), "");
  put(folder.file("me/tiny/tiny-Q8_0.gguf"), "1");
  put(folder.file("me/.DS_Store"), "");
  put(folder.file("me/whole/config.json"), "{}");
  put(folder.file("me/whole/model.safetensors"), "1");
  const std::vector<FoundModel> found = found_in(StoreKind::own, folder);
  EXPECT_EQ(names_of(found), (Names{"localhost:5000/me/tiny:q8", "me/tiny:Q8_0", "me/whole", "mine", "org/repo:Q4_K_M",
                                    "org/whole", "org/whole:Q8_0", "own-folder", "qwen3:0.6b", "types:Q8_0"}));
  EXPECT_EQ(found[4].path, folder.file("hub/org/repo/m-Q4_K_M.gguf"));
  EXPECT_EQ(found[4].bytes, 4u);
  EXPECT_EQ(found[5].path, folder.file("hub/org/whole"));
  EXPECT_EQ(found[5].bytes, 7u);
  EXPECT_EQ(found[5].files.size(), 2u);
}

TEST(FindModels, InHuggingFacesCache) {
  const test::Folder folder;
  test::put_hugging_face(folder.path(), "unsloth/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf", "12345");
  test::put_hugging_face(folder.path(), "unsloth/Qwen3-8B-GGUF", "BF16/Qwen3-8B-BF16-00001-of-00002.gguf", "123");
  test::put_hugging_face(folder.path(), "unsloth/Qwen3-8B-GGUF", "BF16/Qwen3-8B-BF16-00002-of-00002.gguf", "12");
  test::put_hugging_face(folder.path(), "unsloth/Qwen3-8B-GGUF", "mmproj-F16.gguf", "12");
  test::put_hugging_face(folder.path(), "Qwen/Qwen3-0.6B", "config.json", "{}");
  test::put_hugging_face(folder.path(), "Qwen/Qwen3-0.6B", "model.safetensors", "1234");
  test::put_hugging_face(folder.path(), "Qwen/only-tokenizer", "tokenizer.json", "{}");
  // an older snapshot, and a link whose blob is gone
  put(folder.file("models--unsloth--Qwen3-8B-GGUF/snapshots/older/Qwen3-8B-Q8_0.gguf"), "1");
  std::filesystem::create_symlink("../../blobs/gone",
                                  folder.file("models--unsloth--Qwen3-8B-GGUF/snapshots/0123abcd/Qwen3-8B-Q6_K.gguf"));
  put(folder.file("datasets--a--b/snapshots/x/m.gguf"), "1");
  const std::vector<FoundModel> found = found_in(StoreKind::hugging_face, folder);
  EXPECT_EQ(names_of(found), (Names{"Qwen/Qwen3-0.6B", "unsloth/Qwen3-8B-GGUF:BF16", "unsloth/Qwen3-8B-GGUF:Q4_K_M"}));
  EXPECT_EQ(found[1].bytes, 5u);
  EXPECT_EQ(found[1].files.size(), 2u);
  EXPECT_EQ(found[1].path.filename(), "Qwen3-8B-BF16-00001-of-00002.gguf");
  EXPECT_EQ(found[2].bytes, 5u);
}

TEST(FindModels, ASnapshotWithoutRefsAndWithARefThatLeads) {
  const test::Folder folder;
  put(folder.file("models--a--b/snapshots/one/m-Q8_0.gguf"), "1");
  put(folder.file("models--c--d/snapshots/../outside/m-Q8_0.gguf"), "1");
  put(folder.file("models--c--d/refs/main"), "../outside");
  EXPECT_EQ(names_of(found_in(StoreKind::hugging_face, folder)), Names{"a/b:Q8_0"});
}

TEST(FindModels, InOllamasStore) {
  const test::Folder folder;
  test::put_ollama(folder.path(), "registry.ollama.ai/library/qwen3/0.6b", "12345");
  test::put_ollama(folder.path(), "registry.ollama.ai/someone/model/latest", "123");
  test::put_ollama(folder.path(), "hf.co/org/repo/Q4_K_M", "12");
  const std::string layer = R"(,{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:)" +
                            std::string(64, 'b') + R"(","size":3})";
  test::put_ollama(folder.path(), "registry.ollama.ai/library/tuned/latest", "12", layer);
  test::put_ollama(folder.path(), "registry.ollama.ai/library/pulling/latest", "123456");
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("blobs")))
    if (std::filesystem::file_size(entry) == 6) put(entry.path(), "123");  // not all of it yet
  put(folder.file("manifests/registry.ollama.ai/library/broken/latest"), "{");
  put(folder.file("manifests/registry.ollama.ai/library/hostile/latest"),
      R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../etc/passwd","size":3}]})");
  std::vector<std::string> notes;
  const std::vector<FoundModel> found = found_in(StoreKind::ollama, folder, &notes);
  EXPECT_EQ(names_of(found), (Names{"hf.co/org/repo:Q4_K_M", "qwen3:0.6b", "someone/model:latest", "tuned:latest"}));
  EXPECT_EQ(found[1].bytes, 5u);
  EXPECT_EQ(test::contents(found[1].path), "12345");
  EXPECT_EQ(found[3].problem, "it has an adapter (LoRA), which heddle does not apply");
  ASSERT_EQ(notes.size(), 2u);
  test::expect_says(notes[0], {"broken/latest", "manifest"});
  test::expect_says(notes[1], {"hostile/latest", "digest: expected sha256: and 64 hexadecimal digits", "etc/passwd"});
}

TEST(FindModels, InLmStudiosFolderAndLlamaCppsCache) {
  const test::Folder studio, llama;
  put(studio.file("lmstudio-community/gemma-GGUF/gemma-Q4_K_M.gguf"), "12");
  put(studio.file("lmstudio-community/gemma-GGUF/mmproj-model-f16.gguf"), "12");
  EXPECT_EQ(names_of(found_in(StoreKind::lm_studio, studio)), Names{"lmstudio-community/gemma-GGUF:Q4_K_M"});
  put(llama.file("ggml-org_gemma-3-1b-it-GGUF_gemma-3-1b-it-Q4_K_M.gguf"), "12");
  put(llama.file("ggml-org_gemma-3-1b-it-GGUF_gemma-3-1b-it-Q4_K_M.gguf.json"), "{}");
  put(llama.file("manifest=ggml-org=gemma-3-1b-it-GGUF=latest.json"), "{}");
  put(llama.file("plain.gguf"), "1");
  test::put_hugging_face(llama.path(), "org/new", "m-Q8_0.gguf", "1");
  EXPECT_EQ(names_of(found_in(StoreKind::llama_cpp, llama)),
            (Names{"ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "org/new:Q8_0", "plain"}));
}

TEST(ModelsNamed, WholeNamesThenShorterOnes) {
  const auto model = [](const char* name, const char* path) {
    return FoundModel{.name = name, .path = path, .files = {}};
  };
  const std::vector<FoundModel> models{model("unsloth/Qwen3-8B-GGUF:Q4_K_M", "/a/Qwen3-8B-Q4_K_M.gguf"),
                                       model("unsloth/Qwen3-8B-GGUF:Q8_0", "/a/Qwen3-8B-Q8_0-00001-of-00002.gguf"),
                                       model("bartowski/Qwen3-8B-GGUF:Q4_K_M", "/b/Qwen3-8B-Q4_K_M.gguf"),
                                       model("Qwen/Qwen3-0.6B", "/c"),
                                       model("qwen3:0.6b", "/o/sha256-1"),
                                       model("qwen3:latest", "/o/sha256-2"),
                                       model("gemma:1b", "/o/sha256-3"),
                                       model("hf.co/org/repo:Q4_0", "/o/sha256-4"),
                                       model("localhost:5000/me/tiny:q8", "/o/5"),
                                       model("qwen3:0.6b", "/other")};
  const auto named = [&](const char* name) { return names_of(models_named(name, models)); };
  EXPECT_EQ(named("unsloth/Qwen3-8B-GGUF:Q4_K_M"), Names{"unsloth/Qwen3-8B-GGUF:Q4_K_M"});
  EXPECT_EQ(named("hf.co/UNSLOTH/qwen3-8b-gguf:q8_0"), Names{"unsloth/Qwen3-8B-GGUF:Q8_0"});
  EXPECT_EQ(named("unsloth/Qwen3-8B-GGUF"), (Names{"unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth/Qwen3-8B-GGUF:Q8_0"}));
  EXPECT_EQ(named("Qwen3-8B-GGUF:Q4_K_M"), (Names{"unsloth/Qwen3-8B-GGUF:Q4_K_M", "bartowski/Qwen3-8B-GGUF:Q4_K_M"}));
  EXPECT_EQ(named("Qwen3-8B-Q8_0.gguf"), Names{"unsloth/Qwen3-8B-GGUF:Q8_0"});
  EXPECT_EQ(named("qwen3-8b-q8_0"), Names{"unsloth/Qwen3-8B-GGUF:Q8_0"});
  EXPECT_EQ(named("Qwen3-0.6B"), Names{"Qwen/Qwen3-0.6B"});
  EXPECT_EQ(named("qwen3"), Names{"qwen3:latest"});
  EXPECT_EQ(named("qwen3:0.6b"), Names{"qwen3:0.6b"});
  EXPECT_EQ(models_named("qwen3:0.6b", models)[0].path, "/o/sha256-1");  // the first store's
  EXPECT_EQ(named("gemma"), Names{"gemma:1b"});
  EXPECT_EQ(named("org/repo:Q4_0"), Names{"hf.co/org/repo:Q4_0"});
  EXPECT_EQ(named("org/repo"), Names{"hf.co/org/repo:Q4_0"});
  EXPECT_EQ(named("localhost:5000/me/tiny"), Names{"localhost:5000/me/tiny:q8"});
  EXPECT_EQ(named("tiny:q8"), Names{"localhost:5000/me/tiny:q8"});
  EXPECT_EQ(named("qwen3:0.7b"), Names{});
  EXPECT_EQ(named(""), Names{});
}

}  // namespace
}  // namespace heddle::store
