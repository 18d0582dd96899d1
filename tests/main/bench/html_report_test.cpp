// The file of a report: written before the benchmark, filled after it.
#include "main/bench/html_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "main/bench/bench_command.h"
#include "main/bench/serve_sim.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle {
namespace {

struct ReportFile {
  std::string text() const { return test::contents(path); }
  nlohmann::json data() const {
    const std::string all = text(), begin = "id=\"data\">";
    const size_t at = all.find(begin) + begin.size();
    return nlohmann::json::parse(all.substr(at, all.find("</script>", at) - at));
  }
  const test::Folder folder;
  const std::string path = folder.file("report.html").string();
};

TEST(HtmlReports, ThePlaceIsCheckedFirst) {
  EXPECT_REFUSED(HtmlReport("/no/such/folder/f.html"), "--html", "/no/such/folder/f.html", "No such file");
  BenchOptions options{.model = "weft", .html = "/no/such/folder/f.html"};
  std::ostringstream out, err;
  EXPECT_REFUSED(bench_model(options, out, err), "--html", "/no/such/folder/f.html");
  EXPECT_EQ(out.str(), "") << "before anything is measured";
  HtmlReport none("");
  EXPECT_NO_THROW(none.write("t", {{"a", 1}}));
}

TEST(HtmlReports, HaveTheFiguresOfTheBenchmark) {
  const ReportFile file;
  BenchOptions options{.model = "weft", .prompts = {8}, .tokens = 4, .runs = 2, .html = file.path};
  std::ostringstream out, err;
  bench_model(options, out, err);
  EXPECT_NE(out.str().find("tok/s"), std::string::npos) << "the table is printed as well";
  const auto data = file.data();
  EXPECT_NE(file.text().find("<title>heddle bench weft</title>"), std::string::npos);
  ASSERT_EQ(data["results"].size(), 2u);
  EXPECT_EQ(data["results"][0]["test"], "prompt");
  EXPECT_EQ(data["results"][1]["runs"].size(), 2u);
}

TEST(HtmlReports, HaveThoseOfSimulatedTraffic) {
  const ReportFile file;
  BenchServeOptions options{.model = "weft", .prompts = "4-8", .answers = "4", .requests = 3, .json = true};
  options.html = file.path;
  std::ostringstream out, err;
  bench_serve(options, out, err);
  EXPECT_EQ(file.data(), nlohmann::json::parse(out.str()));
}

}  // namespace
}  // namespace heddle
