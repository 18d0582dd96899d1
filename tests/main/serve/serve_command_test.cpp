// heddle serve as its users see it: a process that prints, answers and ends.
#include "main/serve/serve_command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "main/device/device_memory.h"
#include "main/device/running_model.h"
#include "tests/main/small_model.h"
#include "tests/server/http/http_client.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

using server::Client;
using server::Response;

std::string get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + more + "\r\n";
}
std::string post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
// weft writes on and on.
std::string long_stream() {
  return post("/v1/completions", R"({"prompt":"Once","max_tokens":450,"ignore_eos":true,"stream":true})");
}

class Serve : public testing::Test {
 protected:
  Response ask(const ServerProcess& server, const std::string& request) {
    Client client(server.port());
    client.send(request);
    return response(client);
  }
  std::string refused(std::vector<std::string> with) {
    with.insert(with.begin(), {"serve", "--port", "0"});
    const Result result = heddle(with);
    EXPECT_EQ(result.status, 1) << result.err;
    return result.err;
  }
  Folder folder_;
};

TEST_F(Serve, NamesTheModelByItsFile) {
  const auto path = folder_.path() / "of my own.gguf";
  std::filesystem::copy_file(std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf", path);
  ServerProcess server(program_path(), {path.string(), "--device", "cpu"});
  ASSERT_TRUE(server.up()) << server.err();
  EXPECT_EQ(nlohmann::json::parse(ask(server, get("/v1/models")).body)["data"][0]["id"], "of my own");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Serve, SaysWhatItHasAndAnswers) {
  ServerProcess server(program_path(), {"--device", "cpu", "--alias", "spun", "--kv-tokens", "1000", "--rows", "64"});
  ASSERT_TRUE(server.up()) << server.err();
  EXPECT_EQ(ask(server, get("/health/live")).status(), 200u);
  EXPECT_EQ(ask(server, get("/health/ready")).status(), 200u);
  EXPECT_NE(ask(server, get("/v1/models")).body.find("\"spun\""), std::string::npos);
  const Response answer = ask(server, post("/v1/completions", R"({"prompt":"Once","max_tokens":5})"));
  EXPECT_EQ(answer.status(), 200u) << answer.body;
  EXPECT_EQ(nlohmann::json::parse(answer.body)["usage"]["completion_tokens"], 5);
  const auto config = nlohmann::json::parse(ask(server, get("/v1/effective-config")).body)["config"];
  EXPECT_EQ(config["model"]["name"], "spun");
  EXPECT_EQ(config["model"]["architecture"], "llama");
  EXPECT_EQ(config["device"], "cpu");
  EXPECT_EQ(config["kv"]["tokens"], 1024);  // whole blocks
  EXPECT_EQ(config["kv"]["format"], "f16");
  EXPECT_EQ(config["rows"], 64);
  EXPECT_EQ(config["limits"]["max_queue"], 1024);
  EXPECT_EQ(config["limits"]["drain_seconds"], 30);
  EXPECT_EQ(config["prefix_cache"], true);
  EXPECT_TRUE(config["draft"].is_null());
  EXPECT_EQ(config["deterministic"], true);
  EXPECT_GT(config["measured"]["load_seconds"], 0);
  EXPECT_GT(config["measured"]["peak_memory_bytes_at_load"], 0);
  EXPECT_GT(config["planned_memory"]["total"], 0);
  EXPECT_EQ(config["http"]["tls"], false);
  EXPECT_EQ(config["http"]["idle_seconds"], 120);
  EXPECT_EQ(server.stop(), 0);
  expect_says(server.err(),
              {"listening  http://127.0.0.1:", "model      spun: llama", "device     cpu", "context    512",
               "KV cache   1024 tokens", "f16", "memory ", "weights", "ready ", "stopping: 0", "stopped"});
  const std::string log = server.out();  // a line for each request
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5) << log;
  for (size_t at = 0; at < log.size(); at = log.find('\n', at) + 1)
    EXPECT_EQ(nlohmann::json::parse(log.substr(at, log.find('\n', at) - at))["status"], 200);
}

TEST_F(Serve, ADraftGivesTheSameAnswers) {
  // with time for all proposals, however slow the machine is
  ServerProcess server(program_path(), {"--device", "cpu", "--kv-tokens", "2000", "--draft", "weft", "--no-log",
                                        "--max-stall-ms", "60000"});
  ASSERT_TRUE(server.up()) << server.err();
  const auto answer = [&](const std::string& speculate) {
    const Response found =
        ask(server, post("/v1/completions", R"({"prompt":"Once upon a time","max_tokens":80,"n":3,"seed":5,)"
                                            R"("ignore_eos":true,"speculate":")" +
                                                speculate + "\"}"));
    EXPECT_EQ(found.status(), 200u) << found.body;
    return nlohmann::json::parse(found.body)["choices"];
  };
  const auto counted = [&](const std::string& result) {
    const std::string text = ask(server, get("/metrics")).body,
                      line = "heddle_draft_tokens_total{model=\"weft\",result=\"" + result;
    return std::stod(text.substr(text.find(' ', text.find(line))));
  };
  const auto plain = answer("off");
  EXPECT_EQ(counted("proposed"), 0);
  EXPECT_EQ(answer("on"), plain);
  EXPECT_GT(counted("proposed"), 100);
  EXPECT_EQ(counted("accepted"), counted("proposed"));  // it is the same model
  const auto config = nlohmann::json::parse(ask(server, get("/v1/effective-config")).body)["config"];
  EXPECT_EQ(config["draft"]["name"], "weft");
  EXPECT_EQ(config["draft"]["tokens"], 8);
  EXPECT_EQ(server.stop(), 0);
  expect_says(server.err(), {"draft      weft: ", " M parameters", "up to 8 tokens at once"});
}

TEST_F(Serve, ASignalLetsAnswersEnd) {
  ServerProcess server(program_path(), {"--device", "cpu", "--no-log"});
  ASSERT_TRUE(server.up()) << server.err();
  Client client(server.port()), idle(server.port());
  client.send(long_stream());
  client.until("data: ");
  server.signal(SIGTERM);
  EXPECT_TRUE(server.says("stopping: 1 requests running"));
  EXPECT_TRUE(idle.at_end());
  const Response late = ask(server, long_stream());  // a new connection learns why
  EXPECT_EQ(late.status(), 503u);
  EXPECT_NE(late.body.find("shutting down"), std::string::npos) << late.body;
  EXPECT_TRUE(late.says("Connection: close"));
  EXPECT_EQ(ask(server, get("/health/ready")).status(), 503u);
  const std::string rest = client.all(30);
  EXPECT_TRUE(client.ended());
  EXPECT_NE(rest.find("data: [DONE]\n\n\r\n0\r\n\r\n"), rest.npos) << rest.substr(rest.size() - 200);
  EXPECT_EQ(server.status(), 0);
  EXPECT_EQ(server.out(), "");
}

// Standard output has no reader: requests are answered, and a signal ends the server.
TEST_F(Serve, AReaderThatIsStuckDoesNotKeepIt) {
  const std::string fifo = folder_.file("fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ServerProcess server(program_path(), {"--device", "cpu"},
                       [&] { ::dup2(::open(fifo.c_str(), O_RDWR), STDOUT_FILENO); });
  ASSERT_TRUE(server.up()) << server.err();
  const std::string path(400, 'x');
  Client client(server.port());
  for (int i = 0; i < 300; ++i) {  // a pipe takes 64 KiB
    client.send(get("/" + path));
    ASSERT_EQ(response(client).status(), 404u);
  }
  const auto start = Clock::now();
  EXPECT_EQ(server.stop(), 0);
  EXPECT_LT(seconds_since(start), 10);
  expect_says(server.err(), {"stopping: 0", "stopped"});
}

TEST_F(Serve, AHangupReloadsKeys) {
  const std::string file = folder_.write("keys", "first\n");
  ::chmod(file.c_str(), 0600);
  ServerProcess server(program_path(), {"--device", "cpu", "--api-key", "fixed", "--api-key-file", file});
  ASSERT_TRUE(server.up()) << server.err();
  const auto status = [&](const std::string& key) {
    return ask(server, get("/v1/models", "Authorization: Bearer " + key + "\r\n")).status();
  };
  EXPECT_EQ(status("first"), 200u);
  folder_.write("keys", "second\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.says("reloaded: API keys")) << server.err();
  EXPECT_EQ(status("first"), 401u);
  EXPECT_EQ(status("second"), 200u);
  EXPECT_EQ(status("fixed"), 200u);
  folder_.write("keys", "# none\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.says("not reloaded: API keys: ")) << server.err();
  EXPECT_EQ(status("second"), 200u);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Serve, SaysWhenThereAreNoDescriptors) {
  if (sanitized) GTEST_SKIP() << "the sanitizers need descriptors themselves";
  ServerProcess server(program_path(), {"--device", "cpu", "--no-log"}, [] {
    const rlimit few{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &few);
  });
  ASSERT_TRUE(server.up()) << server.err();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 80; ++i) clients.push_back(std::make_unique<Client>(server.port()));
  clients[0]->send(get("/health/live"));
  EXPECT_EQ(response(*clients[0]).status(), 200u);
  const Response refused = response(*clients.back());
  EXPECT_EQ(refused.status(), 503u);
  EXPECT_TRUE(server.says("warning: connections are refused: the process may have 64 open files")) << server.err();
  clients.resize(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::string metrics = ask(server, get("/metrics")).body, name = "\nheddle_http_connections_refused_total ";
  EXPECT_GT(std::atoi(metrics.substr(metrics.find(name) + name.size()).c_str()), 10) << metrics;
  EXPECT_EQ(server.stop(), 0);
}

// The model's file is cut while it is served: the server ends, and says why.
TEST_F(Serve, NamesAFileThatWasTruncated) {
  const auto path = folder_.path() / "short.gguf";
  std::filesystem::copy_file(std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf", path);
  ServerProcess server(program_path(), {path.string(), "--device", "cpu"});
  ASSERT_TRUE(server.up()) << server.err();
  std::filesystem::resize_file(path, 4096);
  Client client(server.port());
  client.send(post("/v1/completions", R"({"prompt":"Once upon a time","max_tokens":20})"));
  const std::string answer = client.until("}]", 20);
  if (answer.find("200 OK") != answer.npos) {  // all that is read of it was copied
    EXPECT_EQ(server.stop(), 0);
    return;
  }
  EXPECT_EQ(server.status(), 1);
  expect_says(server.err(), {path.string() + ": cannot be read any more", "truncated"});
}

TEST_F(Serve, SaysThatThereIsNotEnoughMemory) {
  if (sanitized) GTEST_SKIP() << "the sanitizers need more address space themselves";
  for (const rlim_t megabytes : {60, 100, 150}) {
    ServerProcess server(program_path(), {"--device", "cpu", "--threads", "2"}, [megabytes] {
      const rlimit little{megabytes << 20, megabytes << 20};
      ::setrlimit(RLIMIT_AS, &little);
    });
    const int status = server.status(5);
    if (status == -1) continue;  // it is enough
    EXPECT_EQ(status, 1) << megabytes;
    const std::string err = server.err();
    EXPECT_EQ(err.find("bug"), err.npos) << err;
    EXPECT_EQ(err.find("bad_alloc"), err.npos) << err;
    EXPECT_NE(err.find("memory"), err.npos) << megabytes << ": " << err;
  }
}

TEST_F(Serve, ADelayBeforeTheDrain) {
  ServerProcess server(program_path(), {"--device", "cpu", "--drain-delay", "1.5"});
  ASSERT_TRUE(server.up()) << server.err();
  EXPECT_EQ(ask(server, get("/health/ready")).status(), 200u);
  server.signal(SIGTERM);
  ASSERT_TRUE(server.says("stopping: not ready any more, requests are accepted for 1.5 s"));
  EXPECT_EQ(ask(server, get("/health/ready")).status(), 503u);
  EXPECT_EQ(ask(server, get("/health/live")).status(), 200u);
  const Response late = ask(server, post("/v1/completions", R"({"prompt":"Once","max_tokens":5})"));
  EXPECT_EQ(late.status(), 200u);
  EXPECT_TRUE(late.says("Connection: close"));
  EXPECT_EQ(server.status(), 0);
  expect_says(server.err(), {"not ready any more", "stopping: 0 requests running", "stopped"});
}

TEST_F(Serve, PatienceEnds) {
  ServerProcess server(program_path(), {"--device", "cpu", "--drain-seconds", "0"});
  ASSERT_TRUE(server.up()) << server.err();
  Client client(server.port());
  client.send(long_stream());
  client.until("data: ");
  server.signal(SIGINT);
  EXPECT_EQ(server.status(), 1);
  expect_says(server.err(), {"stopping: 1", "stopped: 1 requests were cut off"});
  client.all();
  EXPECT_TRUE(client.ended());
}

TEST_F(Serve, ASecondSignalEndsItAtOnce) {
  ServerProcess server(program_path(), {"--device", "cpu"});
  ASSERT_TRUE(server.up()) << server.err();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(long_stream());
  }
  clients[0]->until("data: ");
  server.signal(SIGTERM);
  ASSERT_TRUE(server.says("stopping: "));
  server.signal(SIGTERM);
  EXPECT_EQ(server.status(2), 1);
}

TEST_F(Serve, Keys) {
  const std::string file = folder_.write("keys", "# keys of the team\n\n  first \nsecond\r\n");
  ::chmod(file.c_str(), 0644);
  ServerProcess server(program_path(),
                       {"--device", "cpu", "--api-key", "third", "--api-key-file", file, "--api-key", "4"});
  ASSERT_TRUE(server.up()) << server.err();
  EXPECT_NE(server.err().find("keys is readable by other users"), std::string::npos);
  const auto status = [&](const std::string& key) {
    return ask(server, get("/v1/models", "Authorization: Bearer " + key + "\r\n")).status();
  };
  for (const char* key : {"first", "second", "third", "4"}) EXPECT_EQ(status(key), 200u) << key;
  for (const char* key : {"", "fifth", "# keys of the team", "firstsecond", "firs"})
    EXPECT_EQ(status(key), 401u) << key;
  EXPECT_EQ(ask(server, get("/v1/models")).status(), 401u);
}

TEST_F(Serve, RefusesKeysThatNobodyCouldSend) {
  std::ostringstream err;
  const std::string empty = folder_.write("empty", "\n# nothing\n"), odd = folder_.write("odd", "good\nwith space\n");
  EXPECT_REFUSED(api_keys({}, empty, err), "empty", "expected one key per line, found none");
  EXPECT_REFUSED(api_keys({}, odd, err), "odd line 2", "without spaces");
  EXPECT_REFUSED(api_keys({""}, "", err), "--api-key", "expected a key");
  EXPECT_REFUSED(api_keys({}, folder_.file("none").string(), err), "none", "cannot be read");
  EXPECT_EQ(err.str(), "");
  const std::string own = folder_.write("own", "a\nb");
  ::chmod(own.c_str(), 0600);
  EXPECT_EQ(api_keys({"c"}, own, err), (std::vector<std::string>{"c", "a", "b"}));
  EXPECT_EQ(err.str(), "");
}

TEST_F(Serve, WarnsWhereEverybodyMay) {
  ServerProcess server(program_path(), {"--device", "cpu", "--host", "0.0.0.0"});
  ASSERT_TRUE(server.up()) << server.err();
  EXPECT_NE(server.err().find("warning: 0.0.0.0 may be reached from other machines"), std::string::npos);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Serve, RefusesWhatCannotBe) {
  expect_says(refused({"--tls-cert", "a.pem"}), {"--tls-cert: expected --tls-key with it"});
  expect_says(refused({"--tls-key", "a.pem"}), {"--tls-key: expected --tls-cert with it"});
  expect_says(refused({"--tls-cert", "a.pem", "--tls-key", "b.pem"}), {"a.pem: cannot be read"});
  expect_says(refused({"--drain-delay", "-1"}), {"--drain-delay", "found -1"});
  expect_says(refused({"--drain-seconds", "-1"}), {"--drain-seconds", "found -1"});
  expect_says(refused({"--max-stall-ms", "0"}), {"--max-stall-ms"});
  expect_says(refused({"--speculate", "maybe"}), {"--speculate", "maybe"});
  expect_says(refused({"--max-body-mb", "0"}), {"--max-body-mb"});
  expect_says(refused({"--store-mb", "2000000"}), {"--store-mb", "2000000"});
  expect_says(refused({"--http-threads", "0"}), {"--http-threads"});
  expect_says(refused({"--max-connections", "0"}), {"--max-connections"});
  expect_says(refused({"--cors", "a b"}), {"--cors", "a b"});
  expect_says(refused({"--cors", "https://a.example/"}), {"--cors", "an origin", "https://a.example/"});
  expect_says(refused({"--heartbeat", "-1"}), {"--heartbeat", "found -1"});
  expect_says(refused({"--max-queue", "0"}), {"--max-queue", "at least 1", "found 0"});
  expect_says(refused({"--max-stall-ms", "inf"}), {"--max-stall-ms", "found inf"});
  expect_says(refused({"--host", "192.0.2.1"}), {"192.0.2.1"});
  expect_says(refused({"--keep-alive", "soon"}), {"--keep-alive", "such as 10m", "soon"});
  expect_says(refused({"--load-seconds", "0"}), {"--load-seconds", "found 0"});
  expect_says(refused({folder_.file("none.gguf").string()}), {"none.gguf: there is no such file or folder"});
  EXPECT_EQ(heddle({"serve", "--port", "70000"}).status, 2);
}

TEST_F(Serve, ACacheForManyIsWhatCanBeSpared) {
  const auto running = open_running("weft", {.device = "cpu"});
  const model::Model& model = running->model;  // of 512 tokens
  const DeviceOptions many{.device = "cpu", .many = true};
  const uint64_t one = memory_for(model, many, limits_for(many, model.context, 64)).total();
  model::Limits token{.kv_blocks = 1};
  const uint64_t block = model::kv_bytes(model, token);
  EXPECT_EQ(fit(model, many, 64, uint64_t(1) << 40).limits.kv_blocks, 8 * 512u / 32);
  EXPECT_EQ(fit(model, many, 64, 4 * 40 * block).limits.kv_blocks, 40u);  // a quarter
  EXPECT_EQ(fit(model, many, 64, one).limits.kv_blocks, 512u / 32);       // not less than one context
  EXPECT_EQ(fit(model, many, 64, 0).limits.kv_blocks, 512u / 32);         // unknown
  DeviceOptions given = many;
  given.cache_tokens = 3200;
  EXPECT_EQ(fit(model, given, 64, uint64_t(1) << 40).limits.kv_blocks, 100u);
}

}  // namespace
}  // namespace heddle::test
