// The program as several ranks: what it answers, and how it ends when one of them is lost.
#include "main/device/rank_group.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/clock.h"
#include "main/device/open_model.h"
#include "main/device/running_model.h"
#include "tests/main/heddle_command.h"
#include "tests/main/rank_process.h"
#include "tests/server/http/http_client.h"
#include "tests/support/folder.h"
#include "tests/support/free_port.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

using server::Client;
using server::Response;

std::string completion_request(const std::string& body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}
Response answer_of(const ServerProcess& server, const std::string& request) {
  Client client(server.port());
  client.send(request);
  return response(client);
}

bool gone_within(pid_t process, double seconds) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds;
       std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, state;
    if (!(stat >> number >> name >> state) || state == "Z") return true;
  }
  return false;
}

TEST(Ranks, ServeAnswersAsOneProcessDoes) {
  const std::string request =
      completion_request(R"({"prompt":"Once upon a time","max_tokens":40,"temperature":0,"ignore_eos":true})");
  const auto text = [&](const ServerProcess& server) {
    return nlohmann::json::parse(answer_of(server, request).body).at("choices").at(0).at("text");
  };
  ServerProcess one(program_path(), {"--device", "cpu", "--no-log", "--kv-tokens", "2000"});
  ServerProcess two(program_path(), {"--cpu-ranks", "2", "--no-log", "--kv-tokens", "2000", "--threads", "1"});
  ASSERT_TRUE(one.up() && two.up()) << one.err() << two.err();
  EXPECT_EQ(text(two), text(one));
  const Response metrics = answer_of(two, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_NE(metrics.body.find("\nheddle_ranks{"), std::string::npos) << metrics.body;
  const pid_t other = process_of_rank(two.process(), 1);
  EXPECT_GT(other, 0);
  EXPECT_EQ(two.stop(), 0) << two.err();
  EXPECT_TRUE(gone_within(other, 1));
  EXPECT_NE(two.err().find("\nranks      2"), std::string::npos) << two.err();
}

// With streams in progress, at a random moment.
void expect_end_of_group(int signal_number, uint32_t victim, const std::string& reason) {
  SCOPED_TRACE(fmt::format("signal {} to rank {}", signal_number, victim));
  ServerProcess server(program_path(), {"--cpu-ranks", "3", "--no-log", "--kv-tokens", "4000", "--threads", "1"});
  ASSERT_TRUE(server.up()) << server.err();
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(completion_request(R"({"prompt":"Once","max_tokens":450,"ignore_eos":true,"n":2,"stream":)" +
                                            std::string(i % 2 ? "true}" : "false}")));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(std::random_device{}() % 300));
  const pid_t process = process_of_rank(server.process(), victim);
  ASSERT_GT(process, 0);
  const auto start = Clock::now();
  ::kill(process, signal_number);
  std::vector<std::thread> reading;
  std::vector<std::string> answers(clients.size());
  for (size_t i = 0; i < clients.size(); ++i)
    reading.emplace_back([&, i] { answers[i] = clients[i]->until("(no such text)", 20); });  // until it is closed
  EXPECT_EQ(server.status(20), 1) << server.err();
  EXPECT_LT(seconds_since(start), 10);
  for (std::thread& thread : reading) thread.join();
  EXPECT_LT(seconds_since(start), 12);
  for (const std::string& answer : answers)
    EXPECT_NE(answer.find(fmt::format("rank {}", victim)), answer.npos) << answer;
  EXPECT_NE(server.err().find(fmt::format("rank {} {}", victim, reason)), std::string::npos) << server.err();
  EXPECT_TRUE(gone_within(process, 1));
}
TEST(Ranks, ARankThatIsKilledEndsAllAndIsNamed) { expect_end_of_group(SIGKILL, 2, "was ended by signal 9 (Killed)"); }
TEST(Ranks, ARankThatIsStoppedEndsAllAndIsNamedSlow) {
  expect_end_of_group(SIGSTOP, 1, "has given no sign of life for 5 s");
}

TEST(Ranks, ARankThatIsLostBetweenRequestsEndsAll) {
  ServerProcess server(program_path(), {"--cpu-ranks", "2", "--no-log", "--kv-tokens", "1000", "--threads", "1"});
  ASSERT_TRUE(server.up()) << server.err();
  ::kill(process_of_rank(server.process(), 1), SIGKILL);
  EXPECT_EQ(server.status(10), 1) << server.err();
  EXPECT_NE(server.err().find("the device failed: rank 1 was ended by signal 9 (Killed)"), std::string::npos)
      << server.err();
}

TEST(Ranks, TheOthersEndWithTheLeaderSlow) {
  for (const int signal_number : {SIGKILL, SIGSTOP}) {
    ServerProcess server(program_path(), {"--cpu-ranks", "3", "--no-log", "--kv-tokens", "1000", "--threads", "1"});
    ASSERT_TRUE(server.up()) << server.err();
    const pid_t processes[] = {process_of_rank(server.process(), 1), process_of_rank(server.process(), 2)};
    server.signal(signal_number);
    for (const pid_t process : processes) EXPECT_TRUE(gone_within(process, 10)) << signal_number;
    if (signal_number != SIGSTOP) continue;
    EXPECT_NE(server.err().find("heddle: rank 1: rank 0 (the leader) has given no sign of life for 5 s"),
              std::string::npos)
        << server.err();
    server.signal(SIGCONT);
    EXPECT_EQ(server.status(10), 1) << server.err();
  }
}

class RanksByAddress : public testing::Test {
 protected:
  // Runs both ranks of `heddle run` and gives what they print, rank 1 last.
  Ran run_both(const std::string& of_rank_0, const std::string& of_rank_1) {
    const std::string port = std::to_string(free_port());
    const auto command = [&](uint32_t rank, const std::string& more) {
      return fmt::format(
          "{} run -p 'Once upon a time' -n 12 --temp 0 --device cpu --threads 1 --world 2 --rank {} "
          "--leader localhost:{} --join-seconds 20 {}",
          program, rank, port, more);
    };
    const std::string of_other = shell_quoted(folder_.file("other"));
    return shell(fmt::format("{} >{} 2>&1 & {}; status=$?; wait $!; echo \"ended with $status and $?\"; cat {}",
                             command(1, of_rank_1), of_other, command(0, of_rank_0), of_other));
  }
  Folder folder_;
};
TEST_F(RanksByAddress, SayWhatOneProcessSays) {
  const Result one = heddle({"run", "-p", "Once upon a time", "-n", "12", "--temp", "0", "--device", "cpu"});
  const Ran both = run_both("", "");
  EXPECT_NE(both.out.find(one.out), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("ended with 0 and 0"), std::string::npos) << both.out;
}
TEST_F(RanksByAddress, OtherOptionsAreRefused) {
  const Ran both = run_both("--kv q8", "--kv f16");
  for (const char* text :
       {"heddle: rank 1 was refused: another --kv: rank 0 has \"q8\", this rank \"f16\"",
        "heddle: rank 1: rank 0 refuses this rank: another --kv: rank 0 has \"q8\", this rank", "ended with 1 and 1"})
    EXPECT_NE(both.out.find(text), std::string::npos) << both.out;
}

TEST(Ranks, OptionsThatExcludeEachOtherAreRefused) {
  const auto expect = [](RankOptions options, const char* what, const char* why) {
    EXPECT_REFUSED(rank_place(options), what, why);
  };
  expect({.cpu_ranks = 2, .gpus = {0, 1}}, "--gpus", "no --cpu-ranks with it");
  expect({.cpu_ranks = 2, .launcher = "auto"}, "--launcher", "no --cpu-ranks with it");
  expect({.rank = 1}, "--rank", "--world with it");
  expect({.world = 2}, "--world", "--rank with it");
  expect({.rank = 1, .world = 2}, "--rank", "--leader HOST:PORT with it");
  expect({.rank = 2, .world = 2, .leader = "a"}, "--rank", "below --world 2, found 2");
  expect({.leader = "a"}, "--leader", "--rank or --launcher");
  expect({.pipeline = 2}, "--pipeline", "divisor of 1 ranks, found 2");
  expect({.expert_parallel = true}, "--expert-parallel", "several processes");
  DeviceOptions alone{.device = "cpu"};
  alone.ranks.pipeline = 2;
  EXPECT_REFUSED(open_running(weft, alone), "--pipeline", "found 2");
  expect({.cpu_ranks = 3, .pipeline = 2}, "--pipeline", "divisor of 3 ranks, found 2");
  expect({.cpu_ranks = 300}, "256", "300");
  expect({.cpu_ranks = 2, .join_seconds = 0}, "--join-seconds", "0");
}

TEST(Ranks, AModelHasItsOwnFingerprint) {
  const std::string one = fingerprint(open_model(weft));
  EXPECT_EQ(fingerprint(open_model(weft)), one);
  const Folder folder;
  const auto path = folder.path() / "other.gguf";
  std::filesystem::copy_file(weft, path);
  formats::Checkpoint checkpoint = open_model(path.string());
  const auto offset = std::streamoff(checkpoint.tensors.back().view.data() - checkpoint.files[0]->bytes().data());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(offset).put('!');
  EXPECT_NE(fingerprint(open_model(path.string())), one);
}

}  // namespace
}  // namespace heddle::test
