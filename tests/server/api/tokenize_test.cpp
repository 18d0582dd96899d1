// The bodies of /tokenize and /detokenize.
#include "server/api/tokenize.h"

#include <gtest/gtest.h>

#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using Ids = std::vector<text::TokenId>;

TEST(TokenizeRequests, Tokenize) {
  const auto read = [](std::string_view body) { return read_tokenize(body, small_rules()); };
  EXPECT_EQ(read(R"({"content":")" + std::string(1 << 20, 'x') + "\"}").content.size(), size_t(1) << 20);
  EXPECT_BAD(read(R"({"content":")" + std::string((1 << 20) + 1, 'x') + "\"}"), "content", "string_above_max_length");
  const TokenizeRequest request = read(R"({"content":"hello"})");
  EXPECT_EQ(request.content, "hello");
  EXPECT_FALSE(request.add_special);
  EXPECT_TRUE(request.parse_special);
  EXPECT_FALSE(request.with_pieces);
  const TokenizeRequest full = read(R"({"content":"","add_special":true,"parse_special":false,"with_pieces":true})");
  EXPECT_EQ(full.content, "");
  EXPECT_TRUE(full.add_special);
  EXPECT_FALSE(full.parse_special);
  EXPECT_TRUE(full.with_pieces);
  EXPECT_BAD(read("{}"), "content", "missing_required_parameter");
  EXPECT_BAD(read(R"({"content":[1]})"), "content", "invalid_type");
  EXPECT_BAD(read(R"({"content":"x","prompt":"x"})"), "prompt", "unknown_parameter");
}

TEST(TokenizeRequests, Detokenize) {
  const auto read = [](std::string_view body) { return read_detokenize(body, small_rules()); };
  std::string many = "7";
  for (int i = 1; i <= 1 << 18; ++i) many += ",7";
  EXPECT_BAD(read(R"({"tokens":[)" + many + "]}"), "tokens", "array_above_max_length");
  EXPECT_EQ(read(R"({"tokens":[1,267]})").tokens, (Ids{1, 267}));
  EXPECT_TRUE(read(R"({"tokens":[]})").tokens.empty());
  EXPECT_TRUE(read(R"({"tokens":[]})").special);
  EXPECT_FALSE(read(R"({"tokens":[],"special":false})").special);
  EXPECT_BAD(read("{}"), "tokens", "missing_required_parameter");
  EXPECT_BAD(read(R"({"tokens":"1"})"), "tokens", "invalid_type");
  EXPECT_BAD(read(R"({"tokens":[268]})"), "tokens[0]", "integer_above_max_value", "0 to 267");
}

}  // namespace
}  // namespace heddle::server
