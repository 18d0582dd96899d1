#include "server/http/inflate.h"

#include <gtest/gtest.h>

#include <string>

#include "server/api/api_error.h"
#include "tests/server/http/deflated.h"

namespace heddle::server {
namespace {

using test::deflated, test::zlib_format, test::gzip_format, test::raw_format;

constexpr size_t any_size = 1u << 24;

std::string many_words(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += std::to_string(i * i) + " ";
  return text;
}

// The status, and the message in `text`.
unsigned refusal_of(const std::string& body, std::string_view encoding, size_t max_bytes, std::string* text = nullptr) {
  try {
    decode_body(body, encoding, max_bytes);
  } catch (const ApiError& error) {
    if (text) *text = error.what();
    return error.status;
  }
  return 200;
}

TEST(Inflate, EveryEncodingGivesTheBodyBack) {
  for (const std::string& text : {std::string(), std::string("{}"), many_words(30'000)}) {
    EXPECT_EQ(decode_body(text, "", any_size), text);
    EXPECT_EQ(decode_body(text, "Identity", any_size), text);
    EXPECT_EQ(decode_body(deflated(text, gzip_format), "gzip", any_size), text);
    EXPECT_EQ(decode_body(deflated(text, gzip_format), "X-GZIP", any_size), text);
    EXPECT_EQ(decode_body(deflated(text, zlib_format), "deflate", any_size), text);
    EXPECT_EQ(decode_body(deflated(text, raw_format), "deflate", any_size), text) << "some clients mean this";
  }
  EXPECT_EQ(decode_body(deflated("ab", gzip_format) + deflated("cd", gzip_format), "gzip", any_size), "abcd");
}

TEST(Inflate, ABombIsRefusedAtTheLimit) {
  const std::string bomb = deflated(std::string(50u << 20, 'a'), gzip_format);
  EXPECT_LT(bomb.size(), 100'000u);
  std::string why;
  EXPECT_EQ(refusal_of(bomb, "gzip", 1u << 20, &why), 413u);
  EXPECT_EQ(why, "the body is too long: expected at most 1048576 bytes when expanded");
  const std::string text = many_words(1000);
  EXPECT_EQ(decode_body(deflated(text, gzip_format), "gzip", text.size()), text) << "the limit itself is allowed";
  EXPECT_EQ(refusal_of(deflated(text, gzip_format), "gzip", text.size() - 1), 413u);
  std::string members;
  for (int i = 0; i < 100; ++i) members += deflated(text, gzip_format);
  EXPECT_EQ(refusal_of(members, "gzip", 2 * text.size()), 413u);
}

TEST(Inflate, WhatIsNotCompressedIsRefused) {
  const std::string body = deflated(many_words(1000), gzip_format);
  std::string why;
  EXPECT_EQ(refusal_of("{\"prompt\": 1}", "gzip", any_size, &why), 400u);
  EXPECT_EQ(why, "the body: expected gzip, found incorrect header check");
  EXPECT_EQ(refusal_of(body.substr(0, body.size() / 2), "gzip", any_size, &why), 400u);
  EXPECT_EQ(why, "the body: expected gzip, found an end in the middle");
  EXPECT_EQ(refusal_of("", "gzip", any_size), 400u);
  EXPECT_EQ(refusal_of(deflated("ab", zlib_format) + "x", "deflate", any_size, &why), 400u);
  EXPECT_EQ(why, "the body: expected deflate, found more bytes behind its end");
  std::string damaged = body;
  damaged[damaged.size() / 2] = char(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_EQ(refusal_of(damaged, "gzip", any_size), 400u);
  EXPECT_EQ(refusal_of("{}", "br", any_size, &why), 415u);
  EXPECT_EQ(why, "Content-Encoding: expected gzip, deflate or identity, found \"br\"");
  EXPECT_EQ(refusal_of("{}", "gzip, gzip", any_size), 415u);
}

}  // namespace
}  // namespace heddle::server
