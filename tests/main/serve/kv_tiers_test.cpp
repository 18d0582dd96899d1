// Servers whose KV cache goes on in memory, on disk and in each other.
#include "main/serve/kv_tiers.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/main/rank_process.h"
#include "tests/main/small_model.h"
#include "tests/server/http/http_client.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"
#include "tests/tiers/damage.h"

namespace heddle::test {
namespace {

nlohmann::json completion_of(const ServerProcess& server, nlohmann::json body) {
  body.update({{"max_tokens", body.value("max_tokens", 20)}, {"temperature", 0}, {"ignore_eos", true}});
  const std::string text = body.dump();
  server::Client client(server.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(text.size()) + "\r\n\r\n" + text);
  return nlohmann::json::parse(response(client).body);
}
uint32_t cached_of(const nlohmann::json& answer) {
  return answer.at("usage").at("prompt_tokens_details").at("cached_tokens").get<uint32_t>();
}
std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "The weaver had " + std::to_string(i * 7) + " threads. ";
  return text.substr(0, 600);
}

TEST(KvTiers, APromptIsFoundOnDiskByTheNextProcess) {
  const Folder folder;
  const std::vector<std::string> with{"--device",  "cpu",  "--kv-tokens", "1000",
                                      "--kv-host", "50MB", "--kv-disk",   folder.path().string() + ",50MB"};
  nlohmann::json first;
  for (int process = 0; process < 3; ++process) {
    ServerProcess server(program_path(), with);
    ASSERT_TRUE(server.up()) << server.err();
    const nlohmann::json answer = completion_of(server, {{"prompt", long_prompt()}});
    if (process == 0) first = answer;
    EXPECT_EQ(answer.at("choices"), first.at("choices"));
    EXPECT_EQ(cached_of(answer) > 96, process > 0) << "process " << process;
    // the second is killed: what was written stays
    EXPECT_TRUE(process == 1 || server.stop() == 0);
  }
}

// Ranks that are killed, and of which one finds its files damaged: what is there for all of them is used.
TEST(KvTiers, RanksFindAPromptOnTheirDisks) {
  const Folder folder;
  const std::vector<std::string> with{"--cpu-ranks",
                                      "2",
                                      "--threads",
                                      "1",
                                      "--kv-tokens",
                                      "1000",
                                      "--no-log",
                                      "--kv-host",
                                      "50MB",
                                      "--kv-disk",
                                      folder.path().string() + ",50MB"};
  const std::vector<std::string> alone{"--device", "cpu", "--kv-tokens", "1000", "--no-log"};
  const nlohmann::json expected = [&] {
    const ServerProcess server(program_path(), alone);
    EXPECT_TRUE(server.up()) << server.err();
    return completion_of(server, {{"prompt", long_prompt()}}).at("choices");
  }();
  const auto of_rank_1 = [&] { return tiers::part_files(tiers::rank_folder(folder.path(), 1, 2)); };
  enum { computed, killed, found, damaged, again };
  for (const int process : {computed, killed, found, damaged, again}) {
    SCOPED_TRACE(fmt::format("process {}", process));
    if (process == damaged)
      for (const auto& file : of_rank_1()) tiers::damage_byte(file, 100, 1);
    ServerProcess server(program_path(), with);
    ASSERT_TRUE(server.up()) << server.err();
    const nlohmann::json answer = completion_of(server, {{"prompt", long_prompt()}});
    EXPECT_EQ(answer.at("choices"), expected);
    EXPECT_EQ(cached_of(answer) > 96, process != computed && process != damaged) << cached_of(answer);
    if (process == killed) {  // while it writes others
      for (int i = 0; i < 4; ++i) completion_of(server, {{"prompt", std::to_string(i) + long_prompt()}});
      std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device{}() % 20));
      ::kill(process_of_rank(server.process(), 1), SIGKILL);
      EXPECT_EQ(server.status(10), 1) << server.err();
    } else {
      EXPECT_EQ(server.stop(), 0) << server.err();
    }
    EXPECT_EQ(server.err().find("rank 1: " + tiers::rank_folder(folder.path(), 1, 2).string()) != std::string::npos,
              process == damaged)
        << server.err();
  }
}

TEST(KvTiers, OneServerGoesOnWithThePromptOfAnother) {
  const std::vector<std::string> with{"--device",  "cpu",  "--kv-tokens",   "1000",
                                      "--kv-host", "50MB", "--kv-transfer", "127.0.0.1:0"};
  ServerProcess prefill(program_path(), with), decode(program_path(), with);
  ASSERT_TRUE(prefill.up() && decode.up()) << prefill.err() << decode.err();
  const auto computed = completion_of(
      prefill, {{"prompt", long_prompt()}, {"max_tokens", 1}, {"kv_transfer_params", {{"do_remote_decode", true}}}});
  const auto answer =
      completion_of(decode, {{"prompt", long_prompt()}, {"kv_transfer_params", computed.at("kv_transfer_params")}});
  const auto alone = completion_of(prefill, {{"prompt", long_prompt()}, {"cache_prompt", false}});
  EXPECT_EQ(answer.at("choices"), alone.at("choices"));
  EXPECT_GT(cached_of(answer), 96u);
}

TEST(KvTiers, WhatCannotBeIsRefused) {
  const auto refused_with = [](std::vector<std::string> with) {
    with.insert(with.begin(), {"serve", "--port", "0"});
    const Result result = heddle(with);
    EXPECT_EQ(result.status, 1) << result.err;
    return result.err;
  };
  EXPECT_NE(refused_with({"--kv-disk", "folder"}).find("expected a folder and a size"), std::string::npos);
  EXPECT_NE(refused_with({"--kv-transfer", "8700"}).find("expected an address and a port"), std::string::npos);
  EXPECT_NE(refused_with({"--kv-transfer", "127.0.0.1:0", "--cpu-ranks", "2"})
                .find("--kv-transfer: expected one process, found several ranks"),
            std::string::npos);
  EXPECT_NE(refused_with({"--kv-disk", "folder", "--cpu-ranks", "2"}).find("expected a folder and a size"),
            std::string::npos);
  EXPECT_NE(refused_with({"--kv-host", "900TB"}).find("--kv-host: expected less than"), std::string::npos);
  EXPECT_NE(refused_with({"--kv-host", "1MB", "--no-prefix-cache"}).find("expected a prefix cache"), std::string::npos);
}

}  // namespace
}  // namespace heddle::test
