// Limits and deadlines over sockets, and TLS with a certificate that the test creates. The limits of framing are tested
// in request_reader_test.cpp.
#include "server/http/connection.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "server/api/api_error.h"
#include "tests/server/http/http_fixture.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

class HttpLimitsTest : public HttpTest {
 protected:
  void expect_refused(const std::string& bytes, unsigned status) {
    Client c = client();
    c.send(bytes);
    const Response r = response(c);
    EXPECT_EQ(r.status(), status) << bytes.substr(0, 100);
    EXPECT_TRUE(r.says("Connection: close\r\n"));
    EXPECT_TRUE(r.says("Content-Type: application/json\r\n"));
    EXPECT_TRUE(r.body.starts_with("{\"error\":{\"message\":\"")) << r.body;
    EXPECT_NE(r.body.find("\"type\":\"invalid_request_error\",\"param\":null"), r.body.npos) << r.body;
    EXPECT_TRUE(c.at_end());
  }
};

TEST_F(HttpLimitsTest, RefusesAndCloses) {
  std::mutex mutex;
  std::vector<unsigned> refused;
  std::vector<std::string> paths;
  open({.max_body = 1000,
        .max_header = 2000,
        .refuse = [&](const HttpRequest& head, const std::shared_ptr<Responder>& responder, const ApiError& why) {
          const std::lock_guard lock(mutex);
          refused.push_back(why.status);
          paths.push_back(head.path);
          EXPECT_TRUE(head.peer.starts_with("127.0.0.1:")) << head.peer;
          responder->send(error_response(why));
        }});
  expect_refused("nonsense\r\n\r\n", 400);
  expect_refused("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505);
  expect_refused(get("/", "Transfer-Encoding: br\r\n"), 501);
  expect_refused(get("/", "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), 400);
  expect_refused(get("/", "X: " + std::string(3000, 'x') + "\r\n"), 431);
  expect_refused(post("/echo", std::string(1001, 'x')), 413);
  expect_refused(get("/", "Transfer-Encoding: chunked\r\n") + "3e9\r\n", 413);
  EXPECT_EQ(handled_, 0);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(refused, (std::vector<unsigned>{400, 505, 501, 400, 431, 413, 413}));
  EXPECT_EQ(paths[0], "");
  EXPECT_EQ(paths[5], "/echo");
}

TEST_F(HttpLimitsTest, RefusesBeforeTheBodyIsRead) {
  open({.admit = [](const HttpRequest& head) {
    if (head.path == "/echo" && !head.header("x-key")) throw ApiError(401, "invalid_api_key", "", "no key");
  }});
  expect_refused(post("/echo", "body").substr(0, post("/echo", "body").size() - 4), 401);
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpLimitsTest, LimitsAllBodiesTogether) {
  open({.max_bodies = 3000});
  const std::string whole = post("/echo", std::string(2000, 'x')), part = whole.substr(0, whole.size() - 1);
  Client first = client();
  first.send(part);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Client second = client();
  second.send(part);
  const Response refused = response(second);
  EXPECT_EQ(refused.status(), 503u);
  EXPECT_TRUE(refused.says("Retry-After: 1\r\n"));
  first.send("x");
  EXPECT_EQ(response(first).status(), 200u);
  Client third = client();  // refused and complete requests do not count
  third.send(whole);
  EXPECT_EQ(response(third).status(), 200u);
}

// The client gets the response although the rest of its body is not read.
TEST_F(HttpLimitsTest, RefusesALargeBodyWhileItIsSent) {
  open({.max_body = 1000});
  for (int i = 0; i < 20; ++i) {
    Client c = client();
    std::thread sender([&] { c.send(post("/echo", std::string(1 << 20, 'x'))); });
    EXPECT_EQ(response(c).status(), 413u);
    sender.join();
    EXPECT_TRUE(c.at_end());
  }
}

TEST_F(HttpLimitsTest, RespondsToWhatCameBeforeABadRequest) {
  open();
  Client c = client();
  c.send(get("/hello") + "nonsense\r\n\r\n");
  EXPECT_EQ(response(c).body, "hello");
  EXPECT_EQ(response(c).status(), 400u);
  EXPECT_TRUE(c.at_end());
}

TEST_F(HttpLimitsTest, RefusesAnIncompleteRequest) {
  open();
  for (const std::string& text : {std::string("GET / HT"), post("/echo", "body").substr(0, 50)}) {
    Client c = client();
    c.send(text);
    c.half_close();
    EXPECT_EQ(response(c).status(), 400u);
    EXPECT_TRUE(c.at_end());
  }
  Client nothing = client();
  nothing.half_close();
  EXPECT_TRUE(nothing.at_end());
}

TEST_F(HttpLimitsTest, RefusesLateHeadersAndBodies) {
  open({.header_seconds = 0.2, .body_seconds = 0.4, .idle_seconds = 5});
  Client header = client(), body = client(), trickle = client(), silent = client();
  auto start = Clock::now();
  header.send("GET / HTTP/1.1\r\n");
  body.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(response(header).status(), 408u);
  EXPECT_GT(seconds_since(start), 0.15);
  EXPECT_TRUE(header.at_end());
  EXPECT_TRUE(silent.at_end());  // without a request there is no response
  const Response r = response(body);
  EXPECT_EQ(r.status(), 408u);
  EXPECT_NE(r.body.find("the body of the request did not arrive in time"), r.body.npos);
  EXPECT_GT(seconds_since(start), 0.35);
  Client slow = client();  // single bytes do not extend the deadline
  start = Clock::now();
  const std::string text = get("/hello", "X-Long: " + std::string(200, 'x') + "\r\n");
  for (size_t i = 0; i < text.size() && seconds_since(start) < 2; ++i) {
    if (!slow.send(text.substr(i, 1))) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (seconds_since(start) > 0.3) break;
  }
  EXPECT_EQ(response(slow).status(), 408u);
}

TEST_F(HttpLimitsTest, TheDeadlineOfAHeaderBeginsWithItsFirstByte) {
  open({.header_seconds = 0.3, .idle_seconds = 5});
  Client c = client();
  for (int i = 0; i < 2; ++i) {
    c.send(get("/hello"));
    EXPECT_EQ(response(c).body, "hello");
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // within the idle limit
  }
  c.send(get("/hold"));
  const auto responder = held();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // a response has no deadline
  responder->send({.body = "late"});
  EXPECT_EQ(response(c).body, "late");
}

TEST_F(HttpLimitsTest, ClosesIdleConnections) {
  open({.idle_seconds = 0.2});
  Client c = client();
  c.send(get("/hello"));
  EXPECT_EQ(response(c).body, "hello");
  const auto start = Clock::now();
  EXPECT_TRUE(c.at_end());
  EXPECT_GT(seconds_since(start), 0.15);
}

TEST_F(HttpLimitsTest, RefusesConnectionsAboveTheLimit) {
  open({.max_connections = 3});
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(client());
  for (Client& c : clients) {
    c.send(get("/hello"));
    EXPECT_EQ(response(c).body, "hello");
  }
  for (int i = 0; i < 5; ++i) {
    Client more = client();
    more.send(get("/hello"));
    const Response r = response(more);
    EXPECT_EQ(r.status(), 503u);
    EXPECT_TRUE(r.says("Retry-After: 1\r\n"));
    EXPECT_NE(r.body.find("\"code\":\"too_many_connections\""), r.body.npos) << r.body;
    EXPECT_TRUE(more.at_end());
  }
  EXPECT_EQ(handled_, 3);
  clients.pop_back();
  EXPECT_TRUE(soon([&] { return server_->connections() < 3; }));
  Client again = client();
  again.send(get("/hello"));
  EXPECT_EQ(response(again).body, "hello");
}

struct KeyPair {
  std::string certificate, key;
};

KeyPair make_key_pair(const test::Folder& folder, const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  X509_sign(certificate, key, EVP_sha256());
  KeyPair pair{folder.file(name + ".crt"), folder.file(name + ".key")};
  FILE* file = std::fopen(pair.certificate.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(pair.key.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

// A blocking client.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int version = 0) : context_(SSL_CTX_new(TLS_client_method())) {
    if (version) {
      SSL_CTX_set_min_proto_version(context_, version);
      SSL_CTX_set_max_proto_version(context_, version);
      SSL_CTX_set_security_level(context_, 0);
    }
    ssl_ = SSL_new(context_);
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    SSL_set_fd(ssl_, socket_);
    connected_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    if (socket_ >= 0) ::close(socket_);
  }
  bool connected() const { return connected_; }
  void send(const std::string& text) { EXPECT_EQ(SSL_write(ssl_, text.data(), int(text.size())), int(text.size())); }
  std::string until(const std::string& end) {
    while (rest_.find(end) == rest_.npos) {
      char bytes[4096];
      const int count = SSL_read(ssl_, bytes, sizeof bytes);
      if (count <= 0) return rest_ + " and no more";
      rest_.append(bytes, size_t(count));
    }
    std::string taken = rest_.substr(0, rest_.find(end) + end.size());
    rest_.erase(0, taken.size());
    return taken;
  }
  // The connection ended with a close_notify alert: it was not truncated.
  bool at_end() {
    char byte;
    const int count = SSL_read(ssl_, &byte, 1);
    return count == 0 && SSL_get_error(ssl_, count) == SSL_ERROR_ZERO_RETURN;
  }
  std::string fingerprint() const {  // of the server's certificate
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (certificate) X509_digest(certificate, EVP_sha256(), digest, &size);
    X509_free(certificate);
    return {reinterpret_cast<const char*>(digest), size};
  }
  void half_close() { SSL_shutdown(ssl_); }
  void drop() {
    ::close(socket_);
    socket_ = -1;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  int socket_ = -1;
  bool connected_ = false;
  std::string rest_;
};

class HttpTlsTest : public HttpTest {
 protected:
  void open_tls(HttpOptions options = {}) {
    options.tls_certificate = pair_.certificate;
    options.tls_key = pair_.key;
    open(std::move(options));
  }
  test::Folder folder_;
  KeyPair pair_ = make_key_pair(folder_, "one");
};

TEST_F(HttpTlsTest, NewConnectionsGetTheReloadedCertificate) {
  open_tls();
  TlsClient before(server_->port());
  ASSERT_TRUE(before.connected());
  const KeyPair other = make_key_pair(folder_, "other");
  for (const auto& [from, to] : {std::pair(other.certificate, pair_.certificate), {other.key, pair_.key}})
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  server_->reload_tls();
  EXPECT_TRUE(soon([&] { return TlsClient(server_->port()).fingerprint() != before.fingerprint(); }));
  before.send(get("/hello"));  // goes on with the old one
  EXPECT_NE(before.until("hello").find("200 OK"), std::string::npos);
  std::filesystem::remove(pair_.key);
  EXPECT_REFUSED(server_->reload_tls(), pair_.key, "cannot be read");
  EXPECT_TRUE(TlsClient(server_->port()).connected());
}

TEST_F(HttpTlsTest, RoundTrips) {
  open_tls();
  EXPECT_TRUE(server_->address().starts_with("https://127.0.0.1:"));
  for (const int version : {0, TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient c(server_->port(), version);
    ASSERT_TRUE(c.connected()) << version;
    c.send(get("/hello") + get("/hold"));
    EXPECT_TRUE(c.until("hello").starts_with("HTTP/1.1 200 OK\r\n"));
    const auto responder = held();
    responder->start({.type = "text/event-stream"});
    std::thread writer([&] {
      for (int i = 0; i < 2000; ++i) responder->write(std::to_string(i % 10));
      responder->finish();
    });
    std::string digits;
    for (const char c_ : c.until("0\r\n\r\n")) digits += c_;
    writer.join();
    EXPECT_NE(digits.find("1\r\n7\r\n1\r\n8\r\n"), digits.npos);
    c.send(post("/echo", std::string(100'000, 'x'), "Connection: close\r\n"));
    EXPECT_NE(c.until("xxx").find("Connection: close"), std::string::npos);
    const std::string rest = c.until(std::string(1, 'x') + std::string(99'996, 'x'));
    EXPECT_EQ(rest.size(), 99'997u);
    EXPECT_TRUE(c.at_end()) << version;
    c.half_close();
  }
}

TEST_F(HttpTlsTest, RefusesOldVersionsAndGarbage) {
  open_tls({.header_seconds = 0.3});
  EXPECT_FALSE(TlsClient(server_->port(), TLS1_1_VERSION).connected());
  Client plain = client();
  plain.send(get("/hello"));
  EXPECT_EQ(plain.all().find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(plain.ended());
  Client garbage = client();
  garbage.send(std::string("\x16\x03\x01\x40\x00", 5) + std::string(20'000, '\xff'));
  garbage.all();
  EXPECT_TRUE(garbage.ended());
  Client silent = client();
  EXPECT_TRUE(silent.at_end());
  TlsClient good(server_->port());
  good.send(get("/hello"));
  EXPECT_TRUE(good.until("hello").starts_with("HTTP/1.1 200 OK"));
  EXPECT_EQ(handled_, 1);
}

TEST_F(HttpTlsTest, NoticesDisconnectedClients) {
  open_tls();
  for (const bool with_shutdown : {false, true}) {
    TlsClient c(server_->port());
    c.send(get("/hold"));
    const auto responder = held();
    std::atomic<int> gone = 0;
    responder->on_disconnect([&] { ++gone; });
    responder->start({.body = "x"});
    c.until("x\r\n");
    if (with_shutdown) c.half_close();
    c.drop();
    EXPECT_TRUE(soon([&] { return gone == 1; })) << with_shutdown;
    responder->finish();
  }
}

TEST_F(HttpTlsTest, RefusesConnectionsAboveTheLimit) {
  open_tls({.max_connections = 1});
  TlsClient first(server_->port());
  first.send(get("/hello"));
  first.until("hello");
  TlsClient second(server_->port());
  second.send(get("/hello"));
  EXPECT_TRUE(second.until("}}").starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  second.half_close();
}

TEST_F(HttpTlsTest, SaysWhatIsWrongWithItsCertificate) {
  const auto handler = [](HttpRequest, std::shared_ptr<Responder>) {};
  const KeyPair other = make_key_pair(folder_, "other");
  const std::string text = folder_.write("text.pem", "not a certificate").string();
  const auto with = [&](const std::string& certificate, const std::string& key) {
    HttpOptions options;
    options.port = 0;
    options.tls_certificate = certificate;
    options.tls_key = key;
    HttpServer server(options, handler);
  };
  EXPECT_REFUSED(with(pair_.certificate, ""), "TLS key", "expected a PEM file");
  EXPECT_REFUSED(with("", pair_.key), "TLS certificate", "expected a PEM file");
  EXPECT_REFUSED(with(folder_.file("none").string(), pair_.key), "none: cannot be read");
  EXPECT_REFUSED(with(text, pair_.key), text, "expected a certificate");
  EXPECT_REFUSED(with(pair_.certificate, text), text, "expected a private key");
  EXPECT_REFUSED(with(pair_.certificate, other.key), other.key, "belongs to the certificate");
}

}  // namespace
}  // namespace heddle::server
