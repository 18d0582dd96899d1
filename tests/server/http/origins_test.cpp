#include "server/http/origins.h"

#include <gtest/gtest.h>

namespace heddle::server {
namespace {

TEST(Origins, ThatCanBeRebound) {
  for (const char* origin : {"http://a.example", "https://a.example:8443", "http://127.0.0.1.evil.example",
                             "http://localhost.evil.example", "http://1.2.3.4e"})
    EXPECT_TRUE(can_be_rebound(origin)) << origin;
  for (const char* origin :
       {"http://127.0.0.1:8080", "http://192.168.1.5", "http://[::1]:8080", "http://localhost:3000",
        "http://a.localhost", "https://gpubox", "null", "app://a.example", ""})
    EXPECT_FALSE(can_be_rebound(origin)) << origin;
}

TEST(Origins, AreRecognized) {
  for (const char* text : {"https://a.example", "http://localhost:3000", "app://obsidian.md"})
    EXPECT_TRUE(is_origin(text));
  for (const char* text :
       {"", "*", "a.example", "https://", "://a", "https://a.example/", "https://a b", "https://u@a"})
    EXPECT_FALSE(is_origin(text)) << text;
}

}  // namespace
}  // namespace heddle::server
