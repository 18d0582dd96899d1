// The files of the page: what they weigh, what they may not have, and reports that stand alone.
#include "page/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <regex>

namespace heddle::page {
namespace {

std::string in_tree(std::string_view name) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/src/page/web/" + std::string(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PageFiles, AreThoseOfTheTree) {
  ASSERT_GE(files().size(), 15u);
  for (const File& file : files()) {
    EXPECT_FALSE(file.text.empty()) << file.name;
    EXPECT_EQ(file.text, in_tree(file.name)) << file.name;
    EXPECT_EQ(find_file(file.name), &file);
  }
  EXPECT_EQ(find_file("chat.html")->type, "text/html; charset=utf-8");
  EXPECT_EQ(find_file("chat.js")->type, "text/javascript; charset=utf-8");
  EXPECT_EQ(find_file("chat.css")->type, "text/css; charset=utf-8");
  EXPECT_EQ(find_file("icon.svg")->type, "image/svg+xml");
  EXPECT_NE(find_file("chat.js")->tag, find_file("chat.css")->tag);
  EXPECT_EQ(find_file("package.json"), nullptr);
  EXPECT_EQ(find_file(""), nullptr);
}

TEST(PageFiles, AreLight) {
  const size_t all = std::accumulate(files().begin(), files().end(), size_t(0),
                                     [](size_t sum, const File& file) { return sum + file.text.size(); });
  EXPECT_LT(all, 300'000u) << "bytes of all files";
}

// The policy would stop these in a browser; here they are found without one.
TEST(PageFiles, MakeNoHtmlOfTextAndAskNoOtherServer) {
  const std::regex html(
      R"(innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc)");
  const std::regex inline_code(R"(<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=)");
  const std::regex address(R"((src|href)="(?!/page/|#))");
  for (const File& file : files()) {
    const std::string text(file.text);
    EXPECT_FALSE(std::regex_search(text, html)) << file.name;
    if (!file.name.ends_with(".html")) continue;
    EXPECT_FALSE(std::regex_search(text, inline_code)) << file.name;
    EXPECT_FALSE(std::regex_search(text, address)) << file.name;
  }
}

TEST(Reports, StandAlone) {
  const std::string json = R"({"kind":"bench","model":"</script><script>alert(1)</script>","a":"&amp;"})";
  const std::string page = report("a <b> & \"c\"", json);
  EXPECT_NE(page.find("<title>a &#60;b&#62; &#38; &#34;c&#34;</title>"), page.npos);
  EXPECT_EQ(page.find("alert(1)</script>"), page.npos);
  EXPECT_NE(
      page.find(R"("model":"\u003c/script\u003e\u003cscript\u003ealert(1)\u003c/script\u003e","a":"\u0026amp;"})"),
      page.npos);
  EXPECT_EQ(page.find("\nimport "), page.npos) << "modules stand one after the other";
  EXPECT_EQ(page.find("\nexport "), page.npos);
  EXPECT_EQ(page.find("src="), page.npos);
  EXPECT_EQ(page.find("href="), page.npos);
  EXPECT_LT(page.size(), 100'000u);
}

}  // namespace
}  // namespace heddle::page
