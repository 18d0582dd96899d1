// Several models behind one server, as its users see it.
#include "main/serve/served_names.h"

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/main/small_model.h"
#include "tests/server/http/http_client.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

using server::Client;
using server::Response;
using Json = nlohmann::json;

class ServedNames : public testing::Test {
 protected:
  ServedNames() {
    std::filesystem::copy_file(weft_, folder_.path() / "one.gguf");
    const Result made =
        heddle({"quantize", weft_.string(), two().string(), "--type", "Q2_K", "--allow-requantize", "--threads", "1"});
    EXPECT_EQ(made.status, 0) << made.err;
  }
  std::filesystem::path one() const { return folder_.path() / "one.gguf"; }
  std::filesystem::path two() const { return folder_.path() / "two.gguf"; }

  static Json ask(const ServerProcess& server, const std::string& path, const std::string& body = "") {
    Client client(server.port());
    const std::string method = body.empty() ? "GET " : "POST ";
    client.send(method + path + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    return Json::parse(response(client).body);
  }
  static std::string question(const std::string& model, const std::string& prompt) {
    return Json{{"model", model}, {"prompt", prompt}, {"max_tokens", 30}, {"temperature", 0}}.dump();
  }
  static std::string answer(const ServerProcess& server, const std::string& model, const std::string& prompt) {
    const Json json = ask(server, "/v1/completions", question(model, prompt));
    return json.contains("choices") ? json["choices"][0]["text"].get<std::string>() : json.dump();
  }
  // What the model answers alone.
  std::string alone(const std::filesystem::path& model, const std::string& prompt) const {
    const Result result =
        heddle({"run", model.string(), "--device", "cpu", "--temp", "0", "--tokens", "30", "--prompt", prompt});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out.substr(0, result.out.size() - 1);  // a line break comes last
  }
  static uint64_t resident(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    uint64_t all = 0, pages = 0;
    file >> all >> pages;
    return pages * 4096;
  }
  std::string refused(std::vector<std::string> with) {
    with.insert(with.begin(), {"serve", "--port", "0"});
    const Result result = heddle(with);
    EXPECT_EQ(result.status, 1) << result.err;
    return result.err;
  }

  const std::filesystem::path weft_ = std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf";
  Folder folder_;
};

TEST_F(ServedNames, OfAFolder) {
  std::ofstream(folder_.path() / "broken.gguf") << "GGUF, but not really";
  ServerProcess server(program_path(), {folder_.path().string(), "--device", "cpu"});
  ASSERT_TRUE(server.up()) << server.err();
  expect_says(server.err(), {"broken: cannot be served", "one: llama, Q8_0", "two: llama, Q2_K", "up to 3 at a time"});
  const Json models = ask(server, "/v1/models")["data"];
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0]["status"]["value"], "failed");
  EXPECT_EQ(models[1]["status"]["value"], "unloaded");
  EXPECT_EQ(models[1]["max_model_len"], 512);
  EXPECT_EQ(ask(server, "/v1/completions", question("broken", "a"))["error"]["code"], "model_not_loaded");
  EXPECT_EQ(answer(server, "one", "Once"), answer(server, "one:latest", "Once"));
  EXPECT_EQ(ask(server, "/v1/models/one")["status"]["value"], "loaded");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(ServedNames, OfModelsInTurnsUnderLoadWithMemoryForOne) {
  const std::vector<std::string> prompts{"Once upon a time", "The cat", "A long way", "Hello"};
  std::map<std::pair<std::string, std::string>, std::string> expected;
  for (const std::string& prompt : prompts) {
    expected[{"one", prompt}] = alone(one(), prompt);
    expected[{"two", prompt}] = alone(two(), prompt);
  }
  EXPECT_NE((expected[{"one", prompts[1]}]), (expected[{"two", prompts[1]}]))
      << "or the test could not tell them apart";
  ServerProcess server(program_path(), {one().string(), two().string(), "--device", "cpu", "--threads", "1",
                                        "--cpu-memory", "26MB", "--kv-tokens", "2048"});
  ASSERT_TRUE(server.up()) << server.err();
  std::atomic<int> wrong = 0;
  const auto round = [&](int turns) {
    std::vector<std::thread> clients;
    for (int client = 0; client < 4; ++client)
      clients.emplace_back([&, client] {
        for (int i = 0; i < turns; ++i) {
          const std::string name = (client + i) % 2 ? "two" : "one", &prompt = prompts[size_t(client + i / 2) % 4];
          if (answer(server, name, prompt) != expected.at({name, prompt})) ++wrong;
        }
      });
    for (std::thread& client : clients) client.join();
  };
  round(4);
  const uint64_t first = resident(server.process());
  round(12 / shorter);
  const uint64_t last = resident(server.process());
  EXPECT_EQ(wrong, 0);
  if (shorter == 1) {  // the address sanitizer keeps what was freed for a while
    EXPECT_LT(last, first + (uint64_t(40) << 20)) << "of models that were unloaded";
  }
  size_t loads = 0, unloads = 0;
  const std::string said = server.err();
  for (size_t at = 0; (at = said.find("\nloaded ", at)) != said.npos; ++at) ++loads;
  for (size_t at = 0; (at = said.find("\nunloaded ", at)) != said.npos; ++at) ++unloads;
  EXPECT_GE(unloads, 3u) << said;
  EXPECT_LE(loads - 1, unloads + 1) << "one at a time: the first line that begins with loaded is not of a model";
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(ServedNames, WhatIsRefused) {
  const std::string first = one().string(), second = two().string();
  expect_says(refused({first, second, "--alias", "x"}), {"--alias", "one model", "found 2"});
  expect_says(refused({first, second, "--draft", first}), {"--draft", "one model", "found 2"});
  expect_says(refused({first, folder_.file("none.gguf").string()}), {"none.gguf"});
  expect_says(refused({first, first}), {"different names", "\"one\""});
}

}  // namespace
}  // namespace heddle::test
