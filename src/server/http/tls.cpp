// OpenSSL is told what to speak, and with which papers.
#include "server/http/tls.h"

#include <openssl/err.h>

#include <fstream>

#include "base/error.h"

namespace heddle::server {
namespace {

namespace asio = boost::asio;
using Failed = boost::system::error_code;

void expect_readable(const char* option, const std::string& path) {
  if (path.empty()) throw Error("{}: expected a PEM file, found none: certificate and key go together", option);
  if (!std::ifstream(path)) throw Error("{}: cannot be read", path);
}

void expect(const Failed& error, const std::string& path, const char* expected) {
  if (!error) return;
  ERR_clear_error();
  throw Error("{}: expected {} in PEM, found none that can be used: {}", path, expected, error.message());
}

}  // namespace

asio::ssl::context tls_context(const std::string& certificate, const std::string& key) {
  expect_readable("TLS certificate", certificate);
  expect_readable("TLS key", key);
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  // A key that asks for a password would have the server wait for somebody at its terminal.
  context.set_password_callback([](size_t, asio::ssl::context::password_purpose) { return std::string(); });
  Failed error;
  context.use_certificate_chain_file(certificate, error);
  expect(error, certificate, "a certificate");
  context.use_private_key_file(key, asio::ssl::context::pem, error);
  expect(error, key, "a private key that belongs to the certificate and has no password");
  return context;
}

}  // namespace heddle::server
