// Addresses, headers and retries without a server; tests/store/pull_test.cpp has the rest.
#include "store/http_client.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "store/curl.h"
#include "tests/store/test_hub.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

TEST(Origins, HaveSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://huggingface.co/a/b"), "https://huggingface.co:443");
  EXPECT_EQ(origin_of("HTTPS://HuggingFace.co"), "https://huggingface.co:443");
  EXPECT_EQ(origin_of("http://h:8080?x"), "http://h:8080");
  EXPECT_EQ(origin_of("http://[::1]/"), "http://[::1]:80");
  EXPECT_EQ(origin_of("http://[::1]:81/"), "http://[::1]:81");
  EXPECT_NE(origin_of("http://a.b"), origin_of("https://a.b"));
  for (const char* url : {"", "a", "ftp://a", "file:///a", "http://", "http:///a", "http://user@host/", "http://a b/",
                          "://a", "http://a\n/"})
    EXPECT_REFUSED(origin_of(url), "expected an address that begins with http:// or https://");
}

TEST(HttpHeaders, AreRead) {
  const auto range = read_content_range("bytes 10-19/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->range, (ByteRange{10, 20}));
  EXPECT_EQ(range->total, 100u);
  for (const char* text :
       {"", "bytes", "bytes 1-2", "bytes 2-1/10", "bytes 0-10/10", "bytes */10", "bytes 0-1/*", "bytes -1/10",
        "items 0-1/10", "bytes 0-1/10x", "bytes 0-99999999999999999999/10", "bytes 0/1-10"})
    EXPECT_FALSE(read_content_range(text)) << text;
  EXPECT_EQ(read_retry_after("120"), 120.0);
  EXPECT_EQ(read_retry_after("0"), 0.0);
  for (const char* text : {"", "-1", "soon", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT", "99999999999"})
    EXPECT_FALSE(read_retry_after(text));
  EXPECT_EQ(percent_encoded_path("a/b c+%\xc3\xa9?.gguf"), "a/b%20c%2B%25%C3%A9%3F.gguf");
}

TEST(HttpClient, GetsTexts) {
  test::TestServer server([](const test::TestServer::Request& request) {
    if (request.path == "/none") return test::TestServer::Reply{.status = 200, .body = ""};
    if (request.path.starts_with("/teapot"))
      return test::TestServer::Reply{.status = 418, .body = std::string(9000, 'x')};
    return test::TestServer::Reply{.body = request.header("accept") + "|" + request.header("user-agent")};
  });
  HttpClient client({});
  const std::string text = client.get_text({.url = server.address() + "/a", .headers = {"Accept: text/x"}}, 100);
  EXPECT_TRUE(text.starts_with("text/x|heddle/")) << text;
  EXPECT_EQ(client.get_text({.url = server.address() + "/none"}, 0), "");
  EXPECT_REFUSED(client.get_text({.url = server.address() + "/a"}, 3), "/a: expected up to 3 bytes, found more");
  try {
    client.get_text({.url = server.address() + "/teapot?key=secret"}, 100);
    FAIL() << "nothing was thrown";
  } catch (const HttpFailure& failure) {
    EXPECT_EQ(failure.status, 418);
    EXPECT_FALSE(failure.again);
    EXPECT_EQ(failure.body.size(), 4096u);
    EXPECT_EQ(std::string(failure.what()), server.address() + "/teapot: the server answered 418");
  }
}

// The openssl program answers one connection with a file that is a whole response.
TEST(HttpClient, DoesNotFollowHttpsToHttp) {
  if (std::system("openssl version >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs the program openssl";
  test::TestServer plain([](const test::TestServer::Request&) { return test::TestServer::Reply{.body = "secret"}; });
  const test::Folder folder;
  const std::string enter = "cd '" + folder.path().string() + "' && ";
  ASSERT_EQ(std::system((enter + "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 "
                                 "-keyout key.pem -out certificate.pem -subj /CN=127.0.0.1 "
                                 "-addext subjectAltName=IP:127.0.0.1 2>/dev/null")
                            .c_str()),
            0);
  std::ofstream(folder.file("away"), std::ios::binary)
      << fmt::format("HTTP/1.1 302 Found\r\nLocation: {}/x\r\nContent-Length: 0\r\n\r\n", plain.address());
  FILE* server = ::popen((enter + "exec timeout 60 openssl s_server -accept 127.0.0.1:0 -naccept 1 -HTTP "
                                  "-key key.pem -cert certificate.pem 2>&1")
                             .c_str(),
                         "r");
  ASSERT_TRUE(server);
  std::string address;
  for (char line[256]; address.empty() && std::fgets(line, sizeof line, server);)
    if (const std::string text = line; text.starts_with("ACCEPT "))
      address = "https://" + text.substr(7, text.find_last_not_of(" \r\n") - 6);
  {
    HttpClient client({.ca_file = folder.file("certificate.pem")});
    EXPECT_REFUSED(client.get_text({.url = address + "/away"}, 100),
                   fmt::format("{}/away: redirects to \"{}/x\", which is not encrypted", address, plain.address()));
  }  // its connection ends, and with it the server
  EXPECT_EQ(plain.requests().size(), 0u);
  ::pclose(server);
}

TEST(Curl, SaysWhatToInstall) {
  EXPECT_REFUSED(open_curl({"libnone.so.4", "libnone-gnutls.so.4"}),
                 "pulling a model needs libcurl: install libcurl4 (tried libnone.so.4");
  EXPECT_REFUSED(open_curl({"libc.so.6"}), "libc.so.6: expected the function curl_global_init, found none");
}

}  // namespace
}  // namespace heddle::store
