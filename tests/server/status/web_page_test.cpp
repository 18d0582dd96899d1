// The routes of the page, and the headers that keep what a model writes from being more than text.
#include "server/status/web_page.h"

#include <gtest/gtest.h>

#include "page/page.h"
#include "tests/server/service/service_fixture.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

const ServiceFixture::Headers browser{{"accept", "text/html,application/xhtml+xml,*/*;q=0.8"}};

constexpr const char* expected_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

TEST(WebPage, IsThereForBrowsersWithoutAKeyAndBeforeTheModel) {
  ServiceFixture fixture({.keys = {"k"}});
  const Recorded page = fixture.get("/", browser);
  EXPECT_EQ(page.status(), 200u);
  EXPECT_EQ(page.response().type, "text/html; charset=utf-8");
  EXPECT_EQ(page.response().body, page::find_file("chat.html")->text);
  EXPECT_EQ(page.header("Vary"), "Accept");
  EXPECT_EQ(fixture.get("/status").response().body, page::find_file("status.html")->text);
  EXPECT_EQ(fixture.get("/", {{"accept", "*/*"}}).response().body, "heddle is running") << "for programs";
}

TEST(WebPage, EveryFileHasItsTypeAndThePolicy) {
  ServiceFixture fixture;
  for (const page::File& file : page::files()) {
    const Recorded found = fixture.get("/page/" + std::string(file.name));
    ASSERT_EQ(found.status(), 200u) << file.name;
    EXPECT_EQ(found.response().body, file.text);
    EXPECT_EQ(found.response().type, file.type);
    EXPECT_EQ(found.header("Content-Security-Policy"), expected_policy);
    EXPECT_EQ(found.header("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(found.header("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(found.header("Cross-Origin-Opener-Policy"), "same-origin");
    EXPECT_EQ(found.header("Cache-Control"), "no-cache");
    EXPECT_EQ(found.header("ETag"), file.tag);
  }
}

TEST(WebPage, IsNotSentAgainUnlessItHasChanged) {
  ServiceFixture fixture;
  const std::string tag = fixture.get("/page/chat.js").header("ETag");
  for (const std::string& known : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const Recorded same = fixture.get("/page/chat.js", {{"if-none-match", known}});
    EXPECT_EQ(same.status(), 304u) << known;
    EXPECT_EQ(same.response().body, "");
    EXPECT_EQ(same.header("ETag"), tag);
  }
  EXPECT_EQ(fixture.get("/page/chat.js", {{"if-none-match", "\"x\""}}).status(), 200u);
}

TEST(WebPage, HasNoOtherFiles) {
  ServiceFixture fixture;
  for (const char* path : {"/page/", "/page/none.js", "/page/../page.cpp", "/page/chat.js/", "/page", "/status/"})
    EXPECT_EQ(fixture.get(path).status(), 404u) << path;
  EXPECT_EQ(fixture.post("/page/chat.js", "").status(), 405u);
  EXPECT_EQ(fixture.ask("HEAD", "/page/chat.js").status(), 200u);
}

}  // namespace
}  // namespace heddle::server
