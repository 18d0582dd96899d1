// libzmq, opened when the first socket is needed: the server runs where it is not installed.
#pragma once
#include <zmq.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::server {

struct Zmq {
  decltype(&zmq_ctx_new) ctx_new;
  decltype(&zmq_ctx_term) ctx_term;
  decltype(&zmq_socket) socket;
  decltype(&zmq_close) close;
  decltype(&zmq_bind) bind;
  decltype(&zmq_connect) connect;
  decltype(&zmq_setsockopt) setsockopt;
  decltype(&zmq_getsockopt) getsockopt;
  decltype(&zmq_send) send;
  decltype(&zmq_recv) recv;
  decltype(&zmq_poll) poll;
  decltype(&zmq_errno) error;
  decltype(&zmq_strerror) strerror;
};

Zmq open_zmq(const std::string& name);  // an Error says what to install
const Zmq& zmq();                       // that of this process

class ZmqContext {
 public:
  ZmqContext();
  ~ZmqContext();  // after its sockets; waits until what they sent is gone, for as long as they linger
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

// Used by one thread. Failures throw an Error.
class ZmqSocket {
 public:
  ZmqSocket(const ZmqContext& context, int type);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  void set(int option, int value);
  void set(int option, int64_t value);
  void subscribe(const std::string& topic);  // of a SUB
  void bind(const std::string& endpoint);
  void connect(const std::string& endpoint);
  std::string endpoint() const;  // that it was bound to, with the port that was chosen

  using Frame = std::vector<uint8_t>;
  // False: the peer does not take it now.
  bool send(std::span<const std::span<const uint8_t>> frames);
  bool readable(int milliseconds);
  // What of a message is beyond `max_frame` bytes in a frame is left out. Empty: there is no message now.
  std::vector<Frame> receive(size_t max_frame);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void* socket_;
};

}  // namespace heddle::server
