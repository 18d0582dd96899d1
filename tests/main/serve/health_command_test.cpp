// heddle health: its exit status against heddle serve and against servers that are not ready.
#include <gtest/gtest.h>

#include "tests/main/models/own_stores.h"
#include "tests/store/test_hub.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

TEST(Health, OfAServer) {
  ServerProcess server(program_path(), {"--device", "cpu", "--api-key", "secret", "--kv-tokens", "1000"});
  ASSERT_TRUE(server.up()) << server.err();
  const std::string address = server.address();
  const Result ready = heddle({"health", address});
  EXPECT_EQ(ready.status, 0) << ready.err;
  EXPECT_EQ(ready.out, address + " is ready\n");
  EXPECT_EQ(heddle({"health", address + "/"}).status, 0);
  {
    OwnStores environment;
    environment.set("http_proxy", "http://127.0.0.1:1");  // no server listens there
    EXPECT_EQ(heddle({"health", address}).status, 0);
  }
  EXPECT_EQ(server.stop(), 0);
  const Result gone = heddle({"health", address});
  EXPECT_EQ(gone.status, 1);
  EXPECT_EQ(gone.out, "");
  expect_says(gone.err, {address + "/health/ready: "});
}

TEST(Health, OfWhatIsNotReady) {
  TestServer server([](const TestServer::Request& request) {
    if (request.path == "/slow/health/ready") return TestServer::Reply{.body = std::string(9000, 'x'), .delay = 2};
    return TestServer::Reply{.status = request.path == "/health/ready" ? 503 : 404, .body = "{}"};
  });
  const Result loading = heddle({"health", server.address()});
  EXPECT_EQ(loading.status, 1);
  expect_says(loading.err, {"the server answered 503"});
  expect_says(heddle({"health", server.address() + "/v1"}).err, {"the server answered 404"});
  expect_says(heddle({"health", server.address() + "/slow", "--timeout", "0.5"}).err, {"no byte came for 0.5 s"});
  expect_says(heddle({"health", "127.0.0.1:8080"}).err, {"expected an address that begins with http:// or https://"});
  expect_says(heddle({"health", "--timeout", "0"}).err, {"--timeout: expected more than 0 seconds, found 0"});
}

}  // namespace
}  // namespace heddle::test
