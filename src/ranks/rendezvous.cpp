// Each rank sends its number, its version, model and options; the leader compares these with its own and accepts or
// refuses it. A rank that joins by address also sends the port it listens on, and the leader replies with all ports.
#include "ranks/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/utf8.h"
#include "ranks/shared_memory.h"
#include "ranks/tcp.h"

namespace heddle::ranks {
namespace {

using Json = nlohmann::json;
using Kind = Message::Kind;
constexpr double answer_seconds = 10;  // for a message of a rank that is connected

class OwnedSocket {
 public:
  explicit OwnedSocket(int socket = -1) : socket_(socket) {}
  ~OwnedSocket() {
    if (socket_ >= 0) ::close(socket_);
  }
  OwnedSocket(OwnedSocket&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  OwnedSocket& operator=(OwnedSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  int get() const { return socket_; }
  int release() { return std::exchange(socket_, -1); }

 private:
  int socket_;
};

void send_at_once(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// On all interfaces, of IPv6 and IPv4.
OwnedSocket listen_at(uint16_t port, uint16_t& found) {
  for (const int family : {AF_INET6, AF_INET}) {
    OwnedSocket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) continue;
    const int yes = 1, no = 0;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_storage address{};
    socklen_t size = 0;
    if (family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      auto& six = reinterpret_cast<sockaddr_in6&>(address);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(port);
      size = sizeof six;
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(address);
      four.sin_family = AF_INET;
      four.sin_port = htons(port);
      size = sizeof four;
    }
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
      if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) continue;
      throw Error("port {} of the group: {}", port, std::strerror(errno));
    }
    if (::listen(socket.get(), 128) != 0) throw Error("port {} of the group: {}", port, std::strerror(errno));
    size = sizeof address;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    found = ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);  // at the same place in both
    return socket;
  }
  throw Error("port {} of the group: {}", port, std::strerror(errno));
}

// An unset socket: none came within this time.
OwnedSocket accept_within(int listener, double seconds) {
  pollfd wait{.fd = listener, .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, int(std::max(0.0, seconds) * 1000)) <= 0) return OwnedSocket();
  OwnedSocket socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.get() >= 0) send_at_once(socket.get());
  return socket;
}

std::string host_of_peer(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = {};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    throw Error("the address of a rank cannot be found: {}", std::strerror(errno));
  return host;
}

// Tries again until it is reached: the other side may not listen yet, nor its name be known.
OwnedSocket connect_to(const Address& to, double seconds) {
  std::string why;
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const int status = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &found);
    if (status != 0) why = ::gai_strerror(status);
    for (const addrinfo* one = found; one; one = one->ai_next) {
      OwnedSocket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (socket.get() >= 0 && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) {
        ::freeaddrinfo(found);
        send_at_once(socket.get());
        return socket;
      }
      why = std::strerror(errno);
    }
    if (found) ::freeaddrinfo(found);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error("{}:{} was not reached within {} s: {}", to.host, to.port, seconds, why);
}

Json options_json(const Terms& terms) {
  Json options = Json::object();
  for (const auto& [name, value] : terms.options) options[name] = value;
  return options;
}

Json hello_of(uint32_t rank, uint32_t ranks, const Terms& terms, uint16_t port) {
  return {{"heddle", terms.version},        {"rank", rank}, {"ranks", ranks}, {"model", terms.model},
          {"options", options_json(terms)}, {"port", port}};
}

Json parsed(const Message& message, Kind kind) {
  if (message.kind != kind) throw Error("expected another message");
  Json json = Json::parse(message.payload, nullptr, false);
  if (!json.is_object()) throw Error("expected a JSON object");
  return json;
}

// Why this rank cannot join; empty: it can.
std::string objection(const Json& hello, uint32_t ranks, const Terms& terms) {
  const auto differs = [&](const char* what, const std::string& name, const Json& wanted) -> std::string {
    const Json found = hello.contains(name) ? hello[name] : Json();
    if (found == wanted) return "";
    return fmt::format("{}: rank 0 has {}, this rank {}", what, wanted.dump(), found.dump());
  };
  for (const std::string& text :
       {differs("another version of heddle", "heddle", terms.version),
        differs("another number of ranks", "ranks", ranks), differs("another model", "model", terms.model)})
    if (!text.empty()) return text;
  const Json wanted = options_json(terms), found = hello.value("options", Json::object());
  for (const auto& [name, value] : wanted.items())
    if (!found.is_object() || !found.contains(name) || found[name] != value)
      return fmt::format("another {}: rank 0 has {}, this rank {}", name, value.dump(),
                         found.is_object() && found.contains(name) ? found[name].dump() : "none");
  for (const auto& [name, value] : found.items())
    if (!wanted.contains(name)) return fmt::format("another {}: rank 0 has none, this rank {}", name, value.dump());
  return "";
}

[[noreturn]] void refuse(Link& link, const std::string& who, const std::string& why) {
  try {
    link.send(Kind::refused, bytes_of(why), 1);
  } catch (const Error&) {  // it is said here, too
  }
  throw Error("{} was refused: {}", who, why);
}

// Reads the hello of a rank and answers nothing yet, unless it cannot join.
Json received_hello(Link& link, uint32_t ranks, const Terms& terms, const std::string& who, double seconds) {
  Json hello;
  try {
    hello = parsed(link.wait_for_one(seconds), Kind::hello);
    if (!hello.value("rank", Json()).is_number_unsigned()) throw Error("expected its number");
  } catch (const Error& error) {
    throw Error("{}: {}", who, error.what());
  }
  const std::string name = fmt::format("rank {}", hello["rank"].get<uint64_t>());
  if (const std::string why = objection(hello, ranks, terms); !why.empty()) refuse(link, name, why);
  const uint64_t rank = hello["rank"].get<uint64_t>();
  if (rank == 0 || rank >= ranks) refuse(link, name, fmt::format("expected a rank from 1 to {}", ranks - 1));
  return hello;
}

Json wait_for_welcome(Link& link, double seconds) {
  const Message answer = link.wait_for_one(seconds);
  if (answer.kind == Kind::refused) throw Error("rank 0 refuses this rank: {}", answer.text());
  return parsed(answer, Kind::welcome);
}

// Numbers that the ranks of a group know and others do not: a stray connection is not taken for one of theirs.
struct MeshHello {
  uint64_t secret;
  uint32_t rank;
  uint32_t zero = 0;
};

// One connection between every two ranks: to those before this one it connects, those after it come.
std::vector<int> make_mesh(int listener, uint32_t rank, const std::vector<Address>& addresses, uint64_t secret,
                           double seconds) {
  const auto start = Clock::now();
  std::vector<OwnedSocket> mesh(addresses.size());
  for (uint32_t other = 0; other < rank; ++other) {
    mesh[other] = connect_to(addresses[other], seconds);
    const MeshHello hello{.secret = secret, .rank = rank};
    if (::send(mesh[other].get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
      throw Error("rank {} is gone: {}", other, std::strerror(errno));
  }
  for (uint32_t missing = uint32_t(addresses.size()) - rank - 1; missing > 0;) {
    OwnedSocket socket = accept_within(listener, seconds - seconds_since(start));
    if (socket.get() < 0) throw Error("rank {}: {} ranks have not connected within {} s", rank, missing, seconds);
    timeval limit{.tv_sec = 2, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    MeshHello hello{};
    if (::recv(socket.get(), &hello, sizeof hello, MSG_WAITALL) != sizeof hello || hello.secret != secret ||
        hello.rank <= rank || hello.rank >= addresses.size() || mesh[hello.rank].get() >= 0)
      continue;  // none of ours
    mesh[hello.rank] = std::move(socket);
    --missing;
  }
  std::vector<int> sockets;
  for (OwnedSocket& socket : mesh) sockets.push_back(socket.release());
  return sockets;
}

Joined joined_by_mesh(uint32_t rank, uint32_t ranks, std::vector<std::unique_ptr<Link>> links, int listener,
                      const std::vector<Address>& addresses, uint64_t secret, GroupOptions options) {
  std::vector<int> mesh = make_mesh(listener, rank, addresses, secret, options.patience.silence * 4);
  Joined joined;
  joined.group = std::make_unique<Group>(rank, ranks, std::move(links), std::move(options));
  if (const uint32_t stages = joined.group->options().stages; stages > 1) {
    const uint32_t each = ranks / stages, first = rank / each * each;
    std::vector<int> sockets;  // sums and messages never go between the same two ranks
    for (uint32_t other = first; other < first + each; ++other)
      sockets.push_back(other == rank ? -1 : ::fcntl(mesh[other], F_DUPFD_CLOEXEC, 0));
    joined.of_stage =
        make_tcp(std::move(sockets), rank - first, joined.group->alarm(), joined.group->options().patience, first);
  }
  joined.collective = make_tcp(std::move(mesh), rank, joined.group->alarm(), joined.group->options().patience);
  return joined;
}

Joined joined_by_memory(uint32_t rank, uint32_t ranks, std::vector<std::unique_ptr<Link>> links, int memory,
                        GroupOptions options) {
  Joined joined;
  joined.group = std::make_unique<Group>(rank, ranks, std::move(links), std::move(options));
  if (const uint32_t stages = joined.group->options().stages; stages > 1) {
    const uint32_t each = ranks / stages;
    joined.of_stage = open_shared_memory(memory, rank, ranks, joined.group->alarm(), joined.group->options().patience,
                                         rank / each * each, each);
  }
  joined.collective = open_shared_memory(memory, rank, ranks, joined.group->alarm(), joined.group->options().patience);
  return joined;
}

}  // namespace

Address address_named(const std::string& text, const std::string& option) {
  Address address{.host = text, .port = default_port};
  const size_t colon = text.rfind(':');
  const bool brackets = text.starts_with('['),
             has_port = colon != text.npos && (brackets ? text[colon - 1] == ']' : text.find(':') == colon);
  if (has_port) {
    address.host = text.substr(0, colon);
    const std::string port = text.substr(colon + 1);
    const auto read = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (read.ec != std::errc() || read.ptr != port.data() + port.size() || address.port == 0)
      throw Error("{}: expected a port from 1 to 65535, found {}", option, in_quotes(port));
  }
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty()) throw Error("{}: expected HOST:PORT, found {}", option, in_quotes(text));
  return address;
}

Joined lead_children(std::vector<int> sockets, int memory, const Terms& terms, GroupOptions options) {
  const OwnedSocket of_memory(memory);
  const uint32_t ranks = uint32_t(sockets.size()) + 1;
  std::vector<std::unique_ptr<Link>> links;
  for (const int socket : sockets) links.push_back(std::make_unique<Link>(socket));
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const std::string who = fmt::format("rank {}", rank);
    const Json hello = [&] {
      try {
        return received_hello(*links[rank - 1], ranks, terms, who, options.patience.join);
      } catch (const Error& error) {
        const std::string fate = options.fate ? options.fate(rank) : "";
        if (fate.empty()) throw;
        throw Error("{} {}", who, fate);
      }
    }();
    if (hello["rank"] != rank) refuse(*links[rank - 1], who, fmt::format("expected rank {}", rank));
  }
  for (const auto& link : links) link->send(Kind::welcome, bytes_of("{}"), answer_seconds);
  return joined_by_memory(0, ranks, std::move(links), memory, std::move(options));
}

Joined join_parent(int socket, int memory, uint32_t rank, uint32_t ranks, const Terms& terms, GroupOptions options) {
  const OwnedSocket of_memory(memory);
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::make_unique<Link>(socket));
  links[0]->send(Kind::hello, bytes_of(hello_of(rank, ranks, terms, 0).dump()), answer_seconds);
  wait_for_welcome(*links[0], options.patience.join);
  return joined_by_memory(rank, ranks, std::move(links), memory, std::move(options));
}

Joined lead_by_address(uint16_t port, uint32_t ranks, const Terms& terms, GroupOptions options,
                       const std::function<void(uint16_t)>& listening) {
  uint16_t found = 0, mesh_port = 0;
  const OwnedSocket listener = listen_at(port, found), mesh = listen_at(0, mesh_port);
  if (listening) listening(found);
  std::vector<std::unique_ptr<Link>> links(ranks - 1);
  std::vector<Address> addresses(ranks);  // the leader's host is the one that the others have reached it by
  addresses[0].port = mesh_port;
  const auto start = Clock::now();
  for (uint32_t missing = ranks - 1; missing > 0;) {
    OwnedSocket socket = accept_within(listener.get(), options.patience.join - seconds_since(start));
    if (socket.get() < 0) {
      std::string names;
      for (uint32_t rank = 1; rank < ranks; ++rank)
        if (!links[rank - 1]) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
      throw Error("rank {} of {} did not join within {} s", names, ranks, options.patience.join);
    }
    const std::string host = host_of_peer(socket.get());
    auto link = std::make_unique<Link>(socket.release());
    Json hello;
    try {
      hello = received_hello(*link, ranks, terms, host, answer_seconds);
    } catch (const Error& error) {
      // what does not speak as a rank does is no rank; a rank that is refused ends the start for all
      if (std::string_view(error.what()).find(" was refused: ") == std::string_view::npos) continue;
      for (const auto& other : links)
        if (other) other->send(Kind::refused, bytes_of(error.what()), 1);
      throw;
    }
    const uint32_t rank = hello["rank"];
    if (links[rank - 1]) refuse(*link, fmt::format("rank {}", rank), "there is a rank of this number already");
    addresses[rank] = {.host = host, .port = hello.value("port", uint16_t(0))};
    links[rank - 1] = std::move(link);
    --missing;
  }
  const uint64_t secret = uint64_t(std::random_device{}()) << 32 | std::random_device{}();
  Json places = Json::array();
  for (const Address& address : addresses) places.push_back({{"host", address.host}, {"port", address.port}});
  const std::string welcome = Json{{"secret", secret}, {"addresses", places}}.dump();
  for (const auto& link : links) link->send(Kind::welcome, bytes_of(welcome), answer_seconds);
  return joined_by_mesh(0, ranks, std::move(links), mesh.get(), addresses, secret, std::move(options));
}

Joined join_by_address(const Address& leader, uint32_t rank, uint32_t ranks, const Terms& terms, GroupOptions options) {
  uint16_t mesh_port = 0;
  const OwnedSocket mesh = listen_at(0, mesh_port);
  OwnedSocket socket = connect_to(leader, options.patience.join);
  const std::string host = host_of_peer(socket.get());
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::make_unique<Link>(socket.release()));
  links[0]->send(Kind::hello, bytes_of(hello_of(rank, ranks, terms, mesh_port).dump()), answer_seconds);
  const Json welcome = wait_for_welcome(*links[0], options.patience.join);
  std::vector<Address> addresses;
  uint64_t secret = 0;
  try {
    secret = welcome.at("secret");
    for (const Json& place : welcome.at("addresses")) addresses.push_back({place.at("host"), place.at("port")});
  } catch (const Json::exception& error) {
    throw Error("the answer of rank 0 cannot be read: {}", error.what());
  }
  if (addresses.size() != ranks) throw Error("expected {} addresses, found {}", ranks, addresses.size());
  addresses[0].host = host;
  return joined_by_mesh(rank, ranks, std::move(links), mesh.get(), addresses, secret, std::move(options));
}

}  // namespace heddle::ranks
