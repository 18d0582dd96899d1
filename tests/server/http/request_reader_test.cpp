// Requests from bytes that are cut anywhere, and every way to frame one badly.
#include "server/http/request_reader.h"

#include <gtest/gtest.h>

#include "server/api/api_error.h"

namespace heddle::server {
namespace {

using Stage = RequestReader::Stage;

// 0: complete; 1: incomplete; otherwise the status of the error.
unsigned status_of(const std::string& bytes, size_t max_header = 1000, size_t max_body = 100) {
  RequestReader reader(max_header, max_body);
  std::string rest = bytes;
  try {
    return reader.read(rest) == Stage::complete ? 0 : 1;
  } catch (const ApiError& error) {
    return error.status;
  }
}
std::string header(const std::string& fields, const std::string& line = "POST /x HTTP/1.1") {
  return line + "\r\nHost: h\r\n" + fields + "\r\n";
}

TEST(RequestReader, ReadsAllOfARequest) {
  RequestReader reader(1000, 100);
  std::string bytes =
      "POST /v1/a%20b?x=1&y=%3f HTTP/1.1\r\nHost: h\r\nX-Some-Thing:  a b \r\ncontent-length: 3\r\nx-some-thing: "
      "c\r\n\r\n"
      "abcGET ";
  EXPECT_FALSE(reader.begun());
  EXPECT_EQ(reader.read(bytes), Stage::complete);
  EXPECT_TRUE(reader.begun());
  EXPECT_EQ(bytes, "GET ");
  EXPECT_FALSE(reader.framing().http10);
  EXPECT_TRUE(reader.framing().keep_alive);
  EXPECT_FALSE(reader.framing().head_only);
  EXPECT_FALSE(reader.framing().expects_continue);
  const HttpRequest request = reader.take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/a%20b");
  EXPECT_EQ(request.query, "x=1&y=%3f");
  EXPECT_EQ(request.body, "abc");
  ASSERT_EQ(request.headers.size(), 4u);
  EXPECT_EQ(*request.header("x-some-thing"), "a b");
  EXPECT_EQ(request.headers[2].value, "c");  // those of one name stand together
  EXPECT_EQ(request.header("x-other"), nullptr);
  EXPECT_FALSE(reader.begun());
  EXPECT_EQ(reader.read(bytes), Stage::header);
}

TEST(RequestReader, ReadsByteByByteWhatItReadsAtOnce) {
  const std::string chunked = header("Transfer-Encoding: chunked\r\n") +
                              "3\r\nabc\r\n1;x=y\r\nd\r\n0a\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
  const std::string counted = header("Content-Length: 14\r\n") + "abcd0123456789";
  for (const std::string& text : {chunked, counted}) {
    RequestReader reader(1000, 100);
    std::string rest;
    for (size_t i = 0; i < text.size(); ++i) {
      rest += text[i];
      ASSERT_EQ(reader.read(rest) == Stage::complete, i + 1 == text.size()) << i;
    }
    const HttpRequest request = reader.take();
    EXPECT_EQ(request.body, "abcd0123456789");
    EXPECT_EQ(request.header("trailer"), nullptr);
  }
}

TEST(RequestReader, ReportsItsStage) {
  RequestReader reader(1000, 100);
  std::string bytes = "\r\n\r\n";  // between two requests
  EXPECT_EQ(reader.read(bytes), Stage::header);
  EXPECT_FALSE(reader.begun());
  bytes = "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n";
  EXPECT_EQ(reader.read(bytes), Stage::header);
  bytes += "\r\n";
  EXPECT_EQ(reader.read(bytes), Stage::body);
  EXPECT_TRUE(reader.framing().expects_continue);
  EXPECT_TRUE(reader.framing().head_only);
  EXPECT_FALSE(reader.framing().keep_alive);
  bytes = "x";
  EXPECT_EQ(reader.read(bytes), Stage::complete);
  EXPECT_EQ(reader.take().method, "HEAD");

  bytes = "GET / HTTP/1.0\r\n\r\n";
  EXPECT_EQ(reader.read(bytes), Stage::complete);
  EXPECT_TRUE(reader.framing().http10);
  EXPECT_FALSE(reader.framing().keep_alive);
  EXPECT_FALSE(reader.framing().expects_continue);
  reader.take();
  bytes = "GET http://host:80/a?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_EQ(reader.read(bytes), Stage::complete);
  EXPECT_TRUE(reader.framing().keep_alive);
  const HttpRequest request = reader.take();
  EXPECT_EQ(request.path, "/a");
  EXPECT_EQ(request.query, "b");
}

TEST(RequestReader, RefusesWhatIsNotHttp) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 0u);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n"), 1u);
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("GET / FTP/1.1\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)), 400u);  // TLS
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400u);                                         // no Host
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(header("No colon\r\n")), 400u);
  EXPECT_EQ(status_of(header("Space : x\r\n")), 400u);
  EXPECT_EQ(status_of(header(std::string("X: a\0b\r\n", 8))), 400u);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505u);
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505u);
  EXPECT_EQ(status_of(header("Expect: 200-ok\r\n")), 417u);
}

TEST(RequestReader, RefusesAHostThatIsNone) {
  const auto with_host = [](const std::string& host) {
    return status_of("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"", "h", "h:", "h:80", "example.org", "example.org:65535", "127.0.0.1:8080", "[::1]",
                           "[::1]:8080", "[::ffff:127.0.0.1]", "[v1.a]", "a_b~c", "%41b"})
    EXPECT_EQ(with_host(host), 0u) << host;
  for (const char* host :
       {"a b",     "a/b",   "http://a", "a@b",  "a:b",       "a:80:80", ":80",  "a:123456", "[::1", "::1", "[]",
        "[::1]80", "[::g]", "a%4",      "a%zz", "a\xc3\xa4", "a\"b",    "a<b>", "a\\b",     "a?b",  "a#b"})
    EXPECT_EQ(with_host(host), 400u) << host;
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 0u);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), 400u);
}

TEST(RequestReader, RefusesAmbiguousFraming) {
  EXPECT_EQ(status_of(header("Content-Length: 2\r\n") + "ab"), 0u);
  EXPECT_EQ(status_of(header("Content-Length: 2\r\nContent-Length: 3\r\n") + "ab"), 400u);
  EXPECT_EQ(status_of(header("Content-Length: 2, 3\r\n") + "ab"), 400u);
  EXPECT_EQ(status_of(header("Content-Length: -1\r\n")), 400u);
  EXPECT_EQ(status_of(header("Content-Length: 1x\r\n")), 400u);
  EXPECT_EQ(status_of(header("Content-Length: 99999999999999999999999\r\n")), 400u);
  EXPECT_EQ(status_of(header("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + "0\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n") + "abcde"), 400u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0") + "0\r\n\r\n"), 400u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n"), 0u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: CHUNKED\r\n") + "0\r\n\r\n"), 0u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: gzip\r\n")), 501u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: gzip, chunked\r\n")), 501u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: chunked, gzip\r\n")), 501u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n")), 501u);
  EXPECT_EQ(status_of(header("Transfer-Encoding: xchunked\r\n")), 501u);
  for (const char* bad : {"x\r\n", "-1\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3xyz\r\n", "3 ;\r\nabc\r\n", "1\nx\n\r\n"})
    EXPECT_EQ(status_of(header("Transfer-Encoding: chunked\r\n") + bad), 400u) << bad;
}

TEST(RequestReader, EnforcesItsLimits) {
  const std::string some = header("X: " + std::string(100, 'a') + "\r\n");
  EXPECT_EQ(status_of(some, some.size()), 0u);
  EXPECT_EQ(status_of(some, some.size() - 1), 431u);
  EXPECT_EQ(status_of("GET /" + std::string(1000, 'a')), 431u);
  EXPECT_EQ(status_of(header("Content-Length: 100\r\n") + std::string(100, 'x')), 0u);
  EXPECT_EQ(status_of(header("Content-Length: 101\r\n")), 413u);
  EXPECT_EQ(status_of(header("Content-Length: 18446744073709551615\r\n")), 413u);
  const std::string chunked = header("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(status_of(chunked + "64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n"), 0u);
  EXPECT_EQ(status_of(chunked + "64\r\n" + std::string(100, 'x') + "\r\n1\r\n"), 413u);
  EXPECT_EQ(status_of(chunked + "fffffffffffffff\r\n"), 413u);
  EXPECT_EQ(status_of(chunked + "0\r\n" + std::string(2000, 'a')), 431u);            // trailer fields
  EXPECT_EQ(status_of(chunked + "1;" + std::string(2000, 'a')), 431u);               // in the line of a chunk
  const std::string two = header("Content-Length: 0\r\n") + std::string(5000, 'G');  // the next request is not read
  EXPECT_EQ(status_of(two), 0u);
}

TEST(RequestReader, LimitsAHeaderThatArrivesInPieces) {
  RequestReader reader(1000, 100);
  std::string bytes = "GET / HTTP/1.1\r\n";
  size_t all = bytes.size();
  try {
    for (int i = 0; i < 1000; ++i) {
      ASSERT_LT(all, 1100u);
      EXPECT_EQ(reader.read(bytes), Stage::header);
      bytes += "X-Short: y\r\n";
      all += 12;
    }
    FAIL() << "the header has no limit";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 431u);
    EXPECT_GT(all, 1000u);
  }
}

}  // namespace
}  // namespace heddle::server
