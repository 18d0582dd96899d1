#include "server/events/zmq.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "base/error.h"

namespace heddle::server {

Zmq open_zmq(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error("publishing KV events needs libzmq: install libzmq5 (tried {})", why ? why : name.c_str());
  }
  Zmq zmq{};
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function) throw Error("{}: expected the function {}, found none: it is no libzmq", name, symbol);
  };
  find(zmq.ctx_new, "zmq_ctx_new");
  find(zmq.ctx_term, "zmq_ctx_term");
  find(zmq.socket, "zmq_socket");
  find(zmq.close, "zmq_close");
  find(zmq.bind, "zmq_bind");
  find(zmq.connect, "zmq_connect");
  find(zmq.setsockopt, "zmq_setsockopt");
  find(zmq.getsockopt, "zmq_getsockopt");
  find(zmq.send, "zmq_send");
  find(zmq.recv, "zmq_recv");
  find(zmq.poll, "zmq_poll");
  find(zmq.error, "zmq_errno");
  find(zmq.strerror, "zmq_strerror");
  return zmq;
}

const Zmq& zmq() {
  static const Zmq opened = open_zmq("libzmq.so.5");
  return opened;
}

ZmqContext::ZmqContext() : context_(zmq().ctx_new()) {
  if (!context_) throw Error("libzmq: {}", zmq().strerror(zmq().error()));
}
ZmqContext::~ZmqContext() {
  while (zmq().ctx_term(context_) != 0 && zmq().error() == EINTR) {
  }
}

ZmqSocket::ZmqSocket(const ZmqContext& context, int type) : socket_(zmq().socket(context.get(), type)) {
  if (!socket_) fail("a socket");
}
ZmqSocket::~ZmqSocket() { zmq().close(socket_); }

void ZmqSocket::fail(const std::string& what) const { throw Error("{}: {}", what, zmq().strerror(zmq().error())); }
void ZmqSocket::set(int option, int value) {
  if (zmq().setsockopt(socket_, option, &value, sizeof value) != 0) fail("an option of a socket");
}
void ZmqSocket::set(int option, int64_t value) {
  if (zmq().setsockopt(socket_, option, &value, sizeof value) != 0) fail("an option of a socket");
}
void ZmqSocket::subscribe(const std::string& topic) {
  if (zmq().setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size()) != 0) fail("subscribing");
}
void ZmqSocket::bind(const std::string& endpoint) {
  if (zmq().bind(socket_, endpoint.c_str()) != 0) fail(endpoint + ": cannot be listened on");
}
void ZmqSocket::connect(const std::string& endpoint) {
  if (zmq().connect(socket_, endpoint.c_str()) != 0) fail(endpoint + ": cannot be connected to");
}
std::string ZmqSocket::endpoint() const {
  std::string text(256, '\0');
  size_t size = text.size();
  if (zmq().getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) fail("the address of a socket");
  text.resize(size ? size - 1 : 0);
  return text;
}

bool ZmqSocket::send(std::span<const std::span<const uint8_t>> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    if (zmq().send(socket_, frames[i].data(), frames[i].size(), flags) >= 0) continue;
    if (zmq().error() == EAGAIN || zmq().error() == EHOSTUNREACH) return false;
    fail("sending");
  }
  return true;
}

bool ZmqSocket::readable(int milliseconds) {
  zmq_pollitem_t item{.socket = socket_, .fd = 0, .events = ZMQ_POLLIN, .revents = 0};
  return zmq().poll(&item, 1, milliseconds) > 0;
}

std::vector<ZmqSocket::Frame> ZmqSocket::receive(size_t max_frame) {
  std::vector<Frame> frames;
  for (int more = 1; more;) {
    Frame frame(max_frame);
    const int bytes = zmq().recv(socket_, frame.data(), frame.size(), ZMQ_DONTWAIT);
    if (bytes < 0 && zmq().error() == EAGAIN) return {};
    if (bytes < 0) fail("receiving");
    frame.resize(std::min(size_t(bytes), max_frame));
    frames.push_back(std::move(frame));
    size_t size = sizeof more;
    if (zmq().getsockopt(socket_, ZMQ_RCVMORE, &more, &size) != 0) fail("receiving");
  }
  return frames;
}

}  // namespace heddle::server
