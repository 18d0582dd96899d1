#include "main/serve/kv_event_options.h"

#include <nlohmann/json.hpp>

#include "tests/server/events/block_reader.h"
#include "tests/server/http/http_client.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

TEST(KvEventOptions, RefuseWhatCannotBe) {
  EXPECT_REFUSED(check_events({.endpoint = "tcp://*:5557", .format = "list"}, 1, true),
                 "--kv-events-format: expected map or array", "list");
  EXPECT_REFUSED(check_events({.topic = "kv"}, 1, true), "--kv-events-topic: expected --kv-events");
  EXPECT_REFUSED(check_events({.replay = "tcp://*:5558"}, 1, true), "--kv-events-replay: expected --kv-events");
  EXPECT_REFUSED(check_events({.endpoint = "tcp://*:5557"}, 2, true), "--kv-events: expected one model, found 2");
  EXPECT_REFUSED(check_events({.endpoint = "tcp://*:5557"}, 1, false), "--kv-events", "--no-prefix-cache");
  check_events({}, 3, false);
  check_events({.endpoint = "tcp://*:5557", .topic = "kv", .replay = "tcp://*:5558"}, 1, true);
}

// A server as a process: its events name the prompt's tokens, and end with a cache that is empty.
TEST(KvEventOptions, MakeTheServerPublish) {
  ServerProcess process(program_path(), {"weft", "--kv-events", "tcp://127.0.0.1:*", "--kv-events-replay",
                                         "tcp://127.0.0.1:*", "--kv-events-topic", "kv"});
  ASSERT_TRUE(process.up()) << process.err();
  const std::string err = process.err(), mark = "KV events  at ";
  const size_t at = err.find(mark);
  ASSERT_NE(at, err.npos) << err;
  server::ZmqContext context;
  server::ZmqSocket subscriber(context, ZMQ_SUB);
  subscriber.subscribe("kv");
  subscriber.connect(err.substr(at + mark.size(), err.find(',', at) - at - mark.size()));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until the subscription has arrived
  std::string text;
  for (int i = 0; i < 40; ++i) text += "one and two ";
  const std::string body = R"({"max_tokens":1,"prompt":")" + text + "\"}";
  server::Client client(process.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto usage = nlohmann::json::parse(server::response(client).body)["usage"];
  const size_t prompt = usage["prompt_tokens"];
  BlockReader reader;
  // until all whole blocks of the prompt are announced
  const auto shortest = [&] { return reader.texts.empty() ? prompt : reader.all().begin()->size(); };
  while (reader.texts.size() < prompt / shortest() && subscriber.readable(5000)) {
    const auto frames = subscriber.receive(1 << 20);
    ASSERT_EQ(frames.size(), 3u);
    reader.read(frames[2]);
  }
  EXPECT_GE(prompt / shortest(), 2u) << "several blocks";
  EXPECT_EQ(reader.texts.size(), prompt / shortest());
  EXPECT_EQ(process.stop(), 0);
  while (subscriber.readable(500)) reader.read(subscriber.receive(1 << 20)[2]);
  EXPECT_TRUE(reader.texts.empty());
}

}  // namespace
}  // namespace heddle::test
