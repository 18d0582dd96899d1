#include "server/events/zmq.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using namespace server;

TEST(Zmq, SaysWhatToInstall) {
  EXPECT_REFUSED(open_zmq("libnothing.so.1"), "publishing KV events needs libzmq", "install libzmq5",
                 "libnothing.so.1");
  EXPECT_REFUSED(open_zmq("libc.so.6"), "libc.so.6", "expected the function zmq_ctx_new");
}

TEST(Zmq, NamesTheEndpointThatCannotBeUsed) {
  ZmqContext context;
  ZmqSocket socket(context, ZMQ_PUB), second(context, ZMQ_PUB);
  EXPECT_REFUSED(socket.bind("5557"), "5557: cannot be listened on", "Invalid argument");
  EXPECT_REFUSED(socket.connect("http://127.0.0.1:1"), "http://127.0.0.1:1: cannot be connected to", "not supported");
  socket.bind("tcp://127.0.0.1:*");
  EXPECT_TRUE(socket.endpoint().starts_with("tcp://127.0.0.1:"));
  EXPECT_REFUSED(second.bind(socket.endpoint()), "cannot be listened on", "in use");
}

}  // namespace
}  // namespace heddle::test
