// Bytes to a connection of a server, in pieces; what comes back has to be HTTP, and the connection has to end.
// The first byte says how large the pieces are and how the client ends. With libFuzzer: -detect_leaks=0, as it takes
// what the threads of the server allocate in between for leaks, and looks for them for seconds.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "server/api/api_error.h"
#include "server/http/http.h"
#include "server/http/request_reader.h"
#include "tests/fuzz/target.h"

namespace heddle::server {
namespace {

void answer(HttpRequest request, std::shared_ptr<Responder> answer) {
  if (request.path == "/throw") throw std::runtime_error("thrown");
  if (request.path == "/drop") return;
  if (request.path == "/stream") {
    answer->start({.type = "text/event-stream", .body = request.body});
    for (size_t i = 0; i < request.query.size(); ++i) answer->write(request.query.substr(i));
    return answer->finish();
  }
  answer->send({.headers = {{"X-Method", request.method}}, .body = request.path + request.query + request.body});
}

HttpServer& server() {
  static HttpServer server({.port = 0,
                            .threads = 1,
                            .max_body = 4096,
                            .max_header = 1024,
                            .header_seconds = 5,
                            .body_seconds = 5,
                            .idle_seconds = 5},
                           answer);
  return server;
}

[[noreturn]] void wrong(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s: %.*s\n", what, int(std::min<size_t>(text.size(), 2000)), text.data());
  std::abort();
}

// The requests that are whole, read in such pieces.
std::string requests(std::string_view bytes, size_t piece) {
  RequestReader reader(1024, 4096);
  std::string all, rest;
  try {
    while (!bytes.empty()) {
      const size_t here = std::min(piece, bytes.size());
      rest += bytes.substr(0, here);
      bytes.remove_prefix(here);
      while (reader.read(rest) == RequestReader::Stage::complete) {
        const HttpRequest request = reader.take();
        all += request.method + "|" + request.path + "|" + request.query + "|" + request.body;
        for (const Header& header : request.headers) all += "|" + header.name + "=" + header.value;
        all += '\n';
      }
    }
  } catch (const ApiError&) {
  }
  return all;
}

int connect() {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server().port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) wrong("no connection", "");
  return client;
}

}  // namespace

FUZZ_TARGET(http) {
  if (size == 0) return 0;
  const uint8_t how = data[0];
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = how % 4 == 0 ? bytes.size() + 1 : size_t(1) << (how % 16);
  if (requests(bytes, bytes.size() + 1) != requests(bytes, piece)) wrong("in pieces it is another", std::string(bytes));
  const int client = connect();
  std::string came;
  char buffer[4096];
  const auto receive = [&](int milliseconds) {  // false: the end
    pollfd state{.fd = client, .events = POLLIN};
    const int ready = ::poll(&state, 1, milliseconds);
    if (ready == 0) return milliseconds == 0;
    const ssize_t count = ::recv(client, buffer, sizeof buffer, 0);
    if (count > 0) came.append(buffer, size_t(count));
    return count > 0;
  };
  while (!bytes.empty()) {
    const size_t here = std::min(piece, bytes.size());
    if (::send(client, bytes.data(), here, MSG_NOSIGNAL) != ssize_t(here)) break;
    bytes.remove_prefix(here);
    if (!receive(0)) break;
  }
  if (how < 128) {  // otherwise it breaks off
    ::shutdown(client, SHUT_WR);
    const auto before = came.size();
    while (receive(2000)) {
    }
    pollfd state{.fd = client, .events = POLLIN};
    if (::poll(&state, 1, 0) == 0) wrong("the connection does not end", came.substr(before));
    if (!came.empty() && !came.starts_with("HTTP/1.1 ")) wrong("this is not HTTP", came);
  }
  const linger now{1, 0};
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(client);
  for (int i = 0; server().connections() > 0; ++i) {
    if (i == 5000) wrong("the connection is not given back", came);
    i < 100 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

}  // namespace heddle::server
