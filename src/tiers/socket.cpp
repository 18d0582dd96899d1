#include "tiers/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace heddle::tiers {
namespace {

constexpr int patience_seconds = 10;

std::string socket_problem() {
  return errno == EAGAIN || errno == EWOULDBLOCK ? fmt::format("no answer for {} seconds", patience_seconds)
                                                 : std::generic_category().message(errno);
}

void set_patience(int number) {
  const timeval time{.tv_sec = patience_seconds, .tv_usec = 0};
  ::setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  const int on = 1;
  ::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The first of the addresses with which `use` succeeds.
int first_socket(const std::string& host, uint16_t port, int flags, const char* what, auto&& use) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) throw Error("{}:{}: {}: {}", host, port, what, ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* a = found; a; a = a->ai_next) {
    const int number = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (number < 0) continue;
    set_patience(number);
    if (use(number, *a)) return number;
    const int why = errno;
    ::close(number);
    errno = why;
  }
  throw Error("{}:{}: {}: {}", host, port, what, socket_problem());
}

}  // namespace

Socket::~Socket() {
  if (number_ >= 0) ::close(number_);
}

Socket Socket::connect(const std::string& host, uint16_t port) {
  return Socket(first_socket(host, port, 0, "cannot be reached", [](int number, const addrinfo& a) {
    return ::connect(number, a.ai_addr, a.ai_addrlen) == 0;
  }));
}

Socket Socket::listen(const std::string& host, uint16_t port) {
  return Socket(first_socket(host, port, AI_PASSIVE, "cannot listen there", [](int number, const addrinfo& a) {
    const int on = 1;
    ::setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return ::bind(number, a.ai_addr, a.ai_addrlen) == 0 && ::listen(number, SOMAXCONN) == 0;
  }));
}

uint16_t Socket::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(number_, reinterpret_cast<sockaddr*>(&address), &size) != 0) throw Error("{}", socket_problem());
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Socket Socket::accept(int milliseconds) const {
  pollfd one{.fd = number_, .events = POLLIN, .revents = 0};
  if (::poll(&one, 1, milliseconds) <= 0) return Socket();
  Socket accepted(::accept4(number_, nullptr, nullptr, SOCK_CLOEXEC));
  if (accepted) set_patience(accepted.number_);
  return accepted;
}

void Socket::send(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}", socket_problem());
    bytes = bytes.subspan(size_t(count));
  }
}

void Socket::receive(std::span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t count = ::recv(number_, to.data(), to.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}", socket_problem());
    if (count == 0) throw Error("the connection ended too early");
    to = to.subspan(size_t(count));
  }
}

}  // namespace heddle::tiers
