// The listener, the threads, and who is connected.
#include "server/http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/utf8.h"
#include "server/http/connection.h"
#include "server/http/tls.h"

namespace heddle::server {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Failed = boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<tcp, Strand>;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Strand>;

constexpr size_t most_refused = 64;                    // connections too many that are told so at the same time
constexpr auto pause = std::chrono::milliseconds(50);  // when there are no descriptors left

// Connections that are open, by the order in which they came. Each holds a seat, which takes it off the list.
class Guests : public std::enable_shared_from_this<Guests> {
 public:
  std::shared_ptr<void> seat(uint64_t number) {
    const std::lock_guard lock(mutex_);
    guests_.emplace(number, std::weak_ptr<Connection>());
    return {nullptr, [house = shared_from_this(), number](std::nullptr_t) { house->leave(number); }};
  }
  void enter(uint64_t number, const std::shared_ptr<Connection>& guest) {
    const std::lock_guard lock(mutex_);
    if (const auto found = guests_.find(number); found != guests_.end()) found->second = guest;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return guests_.size();
  }
  std::vector<std::shared_ptr<Connection>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [number, weak] : guests_)
      if (auto guest = weak.lock()) all.push_back(std::move(guest));
    return all;
  }

 private:
  void leave(uint64_t number) {
    const std::lock_guard lock(mutex_);
    guests_.erase(number);
  }

  mutable std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Connection>> guests_;
};

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

}  // namespace

class HttpServer::State {
 public:
  State(HttpOptions options, Handler handler)
      : house_{.options = std::move(options), .handler = std::move(handler)},
        acceptor_(asio::make_strand(io_)),
        timer_(acceptor_.get_executor()) {
    const HttpOptions& with = house_.options;
    check(with.threads > 0, "somebody serves");
    if (!with.tls_certificate.empty() || !with.tls_key.empty())
      house_.tls = &tls_.emplace(tls_context(with.tls_certificate, with.tls_key));
    listen();
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (uint32_t i = 0; i < with.threads; ++i) threads_.emplace_back([this] { io_.run(); });
  }

  // With nothing left to wait for, the threads end by themselves.
  ~State() {
    stop_accepting();
    for (const auto& guest : guests_->all()) asio::post(guest->strand(), [guest] { guest->close(); });
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
    for (const auto& guest : guests_->all()) asio::post(guest->strand(), [guest] { guest->end_soon(); });
  }

  size_t connections() const { return guests_->size(); }
  uint16_t port() const { return local_.port(); }
  std::string address() const {
    const std::string host = local_.address().to_string();
    const bool v6 = local_.address().is_v6();
    return fmt::format("{}://{}{}{}:{}", tls_ ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "", local_.port());
  }

 private:
  void listen() {
    const tcp::endpoint endpoint = endpoint_of(io_, house_.options);
    Failed error;
    const auto done = [&](const char* what) {
      if (error)
        throw Error("{} port {}: cannot {}: {}", house_.options.host, house_.options.port, what, error.message());
    };
    acceptor_.open(endpoint.protocol(), error), done("open a socket");
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error), done("set up the socket");
    acceptor_.bind(endpoint, error), done("take this address");
    acceptor_.listen(asio::socket_base::max_listen_connections, error), done("listen");
    local_ = acceptor_.local_endpoint();
  }

  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(asio::make_strand(io_), [this](Failed error, Socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) welcome(std::move(socket));
      if (!error || error == asio::error::connection_aborted) return accept();
      timer_.expires_after(pause);  // no descriptors, no memory: others may give some back
      timer_.async_wait([this](Failed) { accept(); });
    });
  }

  void welcome(Socket socket) {
    const size_t before = guests_->size(), most = house_.options.most_connections;
    if (before >= most + most_refused) return;  // closes it
    const uint64_t number = next_++;
    const auto guest = std::make_shared<Connection>(house_, std::move(socket), before >= most, guests_->seat(number));
    guests_->enter(number, guest);
    asio::post(guest->strand(), [guest] { guest->start(); });
  }

  HttpHouse house_;
  std::optional<asio::ssl::context> tls_;
  const std::shared_ptr<Guests> guests_ = std::make_shared<Guests>();
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_{io_.get_executor()};
  Acceptor acceptor_;
  Timer timer_;
  tcp::endpoint local_;
  uint64_t next_ = 0;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(HttpOptions options, Handler handler)
    : state_(std::make_unique<State>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->port(); }
std::string HttpServer::address() const { return state_->address(); }
size_t HttpServer::connections() const { return state_->connections(); }
void HttpServer::stop_accepting() { state_->stop_accepting(); }

}  // namespace heddle::server
