// Which names are understood, which are refused because they would leave their folder, and which type a file has.
#include "store/names.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"

namespace heddle::store {
namespace {

using Source = RemoteName::Source;

TEST(RemoteNames, OfTheHub) {
  const RemoteName plain{Source::hub, "", "unsloth", "Qwen3-8B-GGUF", ""};
  RemoteName typed = plain;
  typed.tag = "Q4_K_M";
  EXPECT_EQ(read_remote_name("unsloth/Qwen3-8B-GGUF"), plain);
  EXPECT_EQ(read_remote_name("unsloth/Qwen3-8B-GGUF:Q4_K_M"), typed);
  EXPECT_EQ(read_remote_name("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M"), typed);
  EXPECT_EQ(read_remote_name("huggingface.co/unsloth/Qwen3-8B-GGUF"), plain);
  EXPECT_EQ(read_remote_name("https://huggingface.co/unsloth/Qwen3-8B-GGUF"), plain);
  EXPECT_EQ(plain.text(), "unsloth/Qwen3-8B-GGUF");
  EXPECT_EQ(typed.text(), "unsloth/Qwen3-8B-GGUF:Q4_K_M");
  EXPECT_EQ(read_remote_name("a/b:sub/model-x").tag, "sub/model-x");
}

TEST(RemoteNames, OfARegistry) {
  EXPECT_EQ(read_remote_name("qwen3:0.6b"),
            (RemoteName{Source::registry, "registry.ollama.ai", "library", "qwen3", "0.6b"}));
  EXPECT_EQ(read_remote_name("qwen3").tag, "latest");
  EXPECT_EQ(read_remote_name("qwen3").text(), "qwen3:latest");
  EXPECT_EQ(read_remote_name("localhost:5000/me/tiny:q8"),
            (RemoteName{Source::registry, "localhost:5000", "me", "tiny", "q8"}));
  EXPECT_EQ(read_remote_name("localhost:5000/me/tiny:q8").text(), "localhost:5000/me/tiny:q8");
  EXPECT_EQ(read_remote_name("ollama.com/someone/model").text(), "registry.ollama.ai/someone/model:latest");
}

TEST(RemoteNames, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "/",
                           "a/",
                           "/a",
                           "../a",
                           "a/..",
                           "a/../b",
                           "./a",
                           "a/./b",
                           ".a/b",
                           "a/b/c",
                           "a/b/c/d",
                           "a b",
                           "a/b c",
                           "a\\b",
                           "a\nb",
                           "-a/b",
                           "a/b:",
                           "a/b:x y",
                           "a:b:c",
                           "qwen3:../../x",
                           "qwen3:a/b",
                           "localhost:99999999/a/b",
                           "local_host.x/a/b",
                           "https://example.com/a/b",
                           "a/b:x:y",
                           "~/m",
                           "a/b\x7f"}) {
    EXPECT_REFUSED(read_remote_name(text), "expected org/repo", "found ");
    EXPECT_FALSE(find_remote_name(text)) << text;
  }
  EXPECT_REFUSED(read_remote_name(std::string(200, 'a')), "the part");
  EXPECT_REFUSED(read_remote_name("not-a-host/a/b"), "the host \"not-a-host\"");
  EXPECT_FALSE(find_remote_name("model.gguf"));  // a path
  EXPECT_FALSE(find_remote_name("a/model.GGUF"));
  EXPECT_TRUE(find_remote_name("a/b"));
}

TEST(SafePaths, StayBelowTheirFolder) {
  for (const char* path : {"a", "a/b.gguf", "1_Pooling/config.json", "a..b", "..a/b", "a b/c"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", "..", "../a", "a/..", "a/../b", ".", "./a", "a\\b", "a\tb", "a\x7f", "\xff"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string(256, 'a')));
  EXPECT_FALSE(is_safe_path(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_sha256(std::string(64, 'a')));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
  EXPECT_FALSE(is_sha256(std::string(63, 'a')));
  EXPECT_FALSE(is_sha256("../" + std::string(61, 'a')));
}

TEST(GgufNames, SayTheirType) {
  EXPECT_EQ(type_in_name("Qwen3-8B-Q4_K_M"), "Q4_K_M");
  EXPECT_EQ(type_in_name("Qwen3-8B-UD-Q4_K_XL"), "UD-Q4_K_XL");
  EXPECT_EQ(type_in_name("llama.q8_0"), "Q8_0");
  EXPECT_EQ(type_in_name("m-iq4_xs"), "IQ4_XS");
  EXPECT_EQ(type_in_name("m-bf16"), "BF16");
  EXPECT_EQ(type_in_name("gpt-oss-20b-MXFP4"), "MXFP4");
  EXPECT_EQ(type_in_name("Q4_0"), "Q4_0");
  EXPECT_EQ(type_in_name("qwen3"), "");
  EXPECT_EQ(type_in_name("m-Q"), "");
  EXPECT_EQ(type_in_name("m-Instruct"), "");
  EXPECT_EQ(type_in_name(""), "");
}

TEST(GgufNames, SplitFilesAreOneModel) {
  const auto models = gguf_models_among({"README.md", "m-Q4_K_M.gguf", "big/m-Q8_0-00002-of-00002.gguf",
                                         "big/m-Q8_0-00001-of-00002.gguf", "mmproj-F16.gguf", "m-imatrix.gguf",
                                         "m-F16-00001-of-00002.gguf"});
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].label, "Q4_K_M");
  EXPECT_EQ(models[0].files, std::vector<size_t>{1});
  EXPECT_EQ(models[1].label, "Q8_0");
  EXPECT_EQ(models[1].stem, "big/m-Q8_0");
  EXPECT_EQ(models[1].files, (std::vector<size_t>{3, 2}));
  EXPECT_TRUE(models[1].complete);
  EXPECT_FALSE(models[2].complete);
  EXPECT_TRUE(gguf_models_among({}).empty());
}

TEST(GgufNames, AreLabelledSoThatTheyDiffer) {
  const auto models = gguf_models_among({"a-Q4_0.gguf", "b-Q4_0.gguf", "x/c.gguf", "y/c.gguf", "d-Q8_0.gguf"});
  ASSERT_EQ(models.size(), 5u);
  EXPECT_EQ(models[0].label, "a-Q4_0");
  EXPECT_EQ(models[2].label, "x/c");
  EXPECT_EQ(models[4].label, "Q8_0");
  EXPECT_TRUE(is_asked_for(models[0], "q4_0"));
  EXPECT_TRUE(is_asked_for(models[0], "a-q4_0.gguf"));
  EXPECT_TRUE(is_asked_for(models[2], "x/c"));
  EXPECT_FALSE(is_asked_for(models[2], "Q4_0"));
  EXPECT_FALSE(is_asked_for(models[2], ""));
  EXPECT_TRUE(is_asked_for(gguf_models_among({"m-UD-Q4_K_XL.gguf"})[0], "Q4_K_XL"));
}

}  // namespace
}  // namespace heddle::store
