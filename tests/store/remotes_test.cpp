#include "store/remotes.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/store/store_folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

TEST(Remotes, FollowTheEnvironment) {
  std::map<std::string, std::string> set;
  const auto remotes = [&] {
    return remotes_of(
        [&](const char* name) -> const char* { return set.contains(name) ? set[name].c_str() : nullptr; });
  };
  EXPECT_EQ(remotes().hub, "https://huggingface.co");
  EXPECT_EQ(remotes().registry, "https://registry.ollama.ai");
  EXPECT_EQ(remotes().hub_token, "");
  EXPECT_FALSE(remotes().offline);
  EXPECT_EQ(remotes().registry_address("registry.ollama.ai"), "https://registry.ollama.ai");
  EXPECT_EQ(remotes().registry_address("example.com:5000"), "https://example.com:5000");
  EXPECT_EQ(remotes().registry_address("localhost:5000"), "http://localhost:5000");

  const test::Folder home;
  test::put(home.file("token"), "hf_file\n");
  set = {{"HF_ENDPOINT", "https://mirror.example/"},
         {"HF_HOME", home.path().string()},
         {"HEDDLE_OLLAMA_REGISTRY", "http://127.0.0.1:5"},
         {"HF_HUB_OFFLINE", "1"},
         {"SSL_CERT_FILE", "/ca.pem"}};
  EXPECT_EQ(remotes().hub, "https://mirror.example");
  EXPECT_EQ(remotes().hub_token, "hf_file");
  EXPECT_EQ(remotes().registry_address("registry.ollama.ai"), "http://127.0.0.1:5");
  EXPECT_TRUE(remotes().offline);
  EXPECT_EQ(remotes().ca_file, "/ca.pem");
  set["HF_TOKEN"] = "hf_set";
  EXPECT_EQ(remotes().hub_token, "hf_set");
  set["HF_TOKEN"] = "hf_a\r\nX-Evil: 1";
  EXPECT_REFUSED(remotes(), "HF_TOKEN: expected a token of printable ASCII characters");
  set = {{"HF_ENDPOINT", "mirror.example"}};
  EXPECT_REFUSED(remotes(),
                 "HF_ENDPOINT: expected an address that begins with http:// or https://, found \"mirror.example\"");
  set = {{"HEDDLE_OLLAMA_REGISTRY", "file:///x"}};
  EXPECT_REFUSED(remotes(), "HEDDLE_OLLAMA_REGISTRY: expected an address");
}

}  // namespace
}  // namespace heddle::store
