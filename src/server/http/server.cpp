// The listener, the threads, the open connections, and TLS.
#include <fcntl.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "server/http/connection.h"
#include "server/http/http.h"

namespace heddle::server {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Failed = boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<tcp, Strand>;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Strand>;

constexpr size_t max_refused = 64;  // connections above the limit that get a response at the same time
constexpr auto accept_pause = std::chrono::milliseconds(50);  // when there are no descriptors left

// The open connections, by a number each. A connection holds a slot, which takes it off the list.
class Connections : public std::enable_shared_from_this<Connections> {
 public:
  std::shared_ptr<void> reserve(uint64_t number) {
    const std::lock_guard lock(mutex_);
    connections_.emplace(number, std::weak_ptr<Connection>());
    return {nullptr, [self = shared_from_this(), number](std::nullptr_t) { self->release(number); }};
  }
  void add(uint64_t number, const std::shared_ptr<Connection>& connection) {
    const std::lock_guard lock(mutex_);
    if (const auto found = connections_.find(number); found != connections_.end()) found->second = connection;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }
  std::vector<std::shared_ptr<Connection>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [number, weak] : connections_)
      if (auto connection = weak.lock()) all.push_back(std::move(connection));
    return all;
  }

 private:
  void release(uint64_t number) {
    const std::lock_guard lock(mutex_);
    connections_.erase(number);
  }

  mutable std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Connection>> connections_;
};

void expect_readable(const char* option, const std::string& path) {
  if (path.empty()) throw Error("{}: expected a PEM file, found none: certificate and key go together", option);
  if (!std::ifstream(path)) throw Error("{}: cannot be read", path);
}

void expect_usable(const Failed& error, const std::string& path, const char* expected) {
  if (!error) return;
  ERR_clear_error();
  throw Error("{}: expected {} in PEM, found none that can be used: {}", path, expected, error.message());
}

// TLS 1.2 and later. Throws an Error that names the file and what is wrong with it.
asio::ssl::context tls_context(const std::string& certificate, const std::string& key) {
  expect_readable("TLS certificate", certificate);
  expect_readable("TLS key", key);
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  // Without this, a key with a password would make the server wait for input at its terminal.
  context.set_password_callback([](size_t, asio::ssl::context::password_purpose) { return std::string(); });
  Failed error;
  context.use_certificate_chain_file(certificate, error);
  expect_usable(error, certificate, "a certificate");
  context.use_private_key_file(key, asio::ssl::context::pem, error);
  expect_usable(error, key, "a private key that belongs to the certificate and has no password");
  return context;
}

tcp::endpoint endpoint_of(asio::io_context& io, const HttpOptions& options) {
  std::string host = options.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Failed error;
  const auto found = tcp::resolver(io).resolve(host, std::to_string(options.port),
                                               tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty())
    throw Error("{}: expected an address or a name of this machine: {}", in_quotes(options.host), error.message());
  return found.begin()->endpoint();
}

// Closed with it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  int get() const { return number_; }
  void reset() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;  // below 0: none
};

Descriptor open_spare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void send_refusal(int socket) {
  const HttpResponse response =
      error_response({503, "too_many_connections", "", "the server has no descriptors left: try again later"});
  const std::string text = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nServer: heddle\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
      response.type, response.body.size(), response.body);
  // a new socket has room for it; if it is gone, so is the client
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  ::shutdown(socket, SHUT_WR);
  char unread[4096];  // with input that was not read, the system would reset the connection
  while (::recv(socket, unread, sizeof unread, MSG_DONTWAIT) > 0) continue;
}

}  // namespace

class HttpServer::State {
 public:
  State(HttpOptions options, RequestHandler handler)
      : shared_{.options = std::move(options), .handler = std::move(handler)},
        has_tls_(!shared_.options.tls_certificate.empty() || !shared_.options.tls_key.empty()),
        acceptor_(asio::make_strand(io_)),
        timer_(acceptor_.get_executor()) {
    const HttpOptions& with = shared_.options;
    check(with.threads > 0, "a server has threads");
    if (has_tls_) shared_.tls = make_tls();
    listen();
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (uint32_t i = 0; i < with.threads; ++i) threads_.emplace_back([this] { io_.run(); });
  }

  // The threads end when nothing is left to wait for.
  ~State() {
    stop_accepting();
    for (const auto& one : connections_->all()) asio::post(one->strand(), [one] { one->close(); });
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  void stop_accepting() {
    std::promise<void> closed;
    asio::post(acceptor_.get_executor(), [this, &closed] {
      Failed error;
      acceptor_.close(error);
      timer_.cancel();
      closed.set_value();
    });
    closed.get_future().wait();
    for (const auto& one : connections_->all()) asio::post(one->strand(), [one] { one->close_soon(); });
  }

  void retire() { shared_.draining = true; }

  void drain() {
    retire();
    for (const auto& one : connections_->all()) asio::post(one->strand(), [one] { one->close_soon(); });
  }

  void reload_tls() {
    if (!has_tls_) return;
    asio::post(acceptor_.get_executor(), [this, tls = make_tls()] { shared_.tls = tls; });
  }

  size_t connections() const { return connections_->size(); }
  uint16_t port() const { return local_.port(); }
  std::string address() const {
    const std::string host = local_.address().to_string();
    const bool v6 = local_.address().is_v6();
    return fmt::format("{}://{}{}{}:{}", has_tls_ ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
                       local_.port());
  }

 private:
  void listen() {
    const tcp::endpoint endpoint = endpoint_of(io_, shared_.options);
    Failed error;
    const auto expect_done = [&](const char* what) {
      if (error)
        throw Error("{} port {}: cannot {}: {}", shared_.options.host, shared_.options.port, what, error.message());
    };
    acceptor_.open(endpoint.protocol(), error);
    expect_done("open a socket");
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    expect_done("set up the socket");
    acceptor_.bind(endpoint, error);
    expect_done("bind to this address");
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    expect_done("listen");
    local_ = acceptor_.local_endpoint();
  }

  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(asio::make_strand(io_), [this](Failed error, Socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error && !has_spare())
        refuse(socket.native_handle());  // it has the last one, which closing it gives back
      else if (!error)
        add(std::move(socket));
      if (!error || error == asio::error::connection_aborted) return accept();
      if (error == asio::error::no_descriptors) refuse_waiting();
      timer_.expires_after(accept_pause);  // no descriptors or no memory: other connections may release some
      timer_.async_wait([this](Failed) { accept(); });
    });
  }

  std::shared_ptr<asio::ssl::context> make_tls() const {
    const HttpOptions& with = shared_.options;
    return std::make_shared<asio::ssl::context>(tls_context(with.tls_certificate, with.tls_key));
  }

  // There are no descriptors left. The spare one is given to each connection that waits, for as long as it takes to
  // refuse it: otherwise its client would wait for a response, and not know why.
  void refuse_waiting() {
    if (!has_spare()) return;
    for (size_t count = 0; count < max_refused; ++count) {
      spare_.reset();
      const Descriptor taken(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (taken.get() < 0) break;
      refuse(taken.get());
    }
    has_spare();
  }

  // Another thread may have taken the descriptor in between: it is opened again as soon as that is possible.
  bool has_spare() {
    if (spare_.get() < 0) spare_ = open_spare();
    return spare_.get() >= 0;
  }

  void refuse(int socket) {
    if (shared_.options.on_no_descriptor) shared_.options.on_no_descriptor();
    if (!has_tls_) send_refusal(socket);
  }

  void add(Socket socket) {
    const size_t open = connections_->size(), limit = shared_.options.max_connections;
    if (open >= limit + max_refused) return;  // closes it
    const uint64_t number = next_++;
    const auto connection =
        std::make_shared<Connection>(shared_, std::move(socket), open >= limit, connections_->reserve(number));
    connections_->add(number, connection);
    asio::post(connection->strand(), [connection] { connection->start(); });
  }

  HttpShared shared_;
  const bool has_tls_;
  const std::shared_ptr<Connections> connections_ = std::make_shared<Connections>();
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_{io_.get_executor()};
  Acceptor acceptor_;
  Timer timer_;
  tcp::endpoint local_;
  uint64_t next_ = 0;
  Descriptor spare_ = open_spare();
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(HttpOptions options, RequestHandler handler)
    : state_(std::make_unique<State>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->port(); }
std::string HttpServer::address() const { return state_->address(); }
size_t HttpServer::connections() const { return state_->connections(); }
void HttpServer::retire() { state_->retire(); }
void HttpServer::drain() { state_->drain(); }
void HttpServer::stop_accepting() { state_->stop_accepting(); }
void HttpServer::reload_tls() { state_->reload_tls(); }

}  // namespace heddle::server
