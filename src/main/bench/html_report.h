// heddle bench ... --html F: the figures of a benchmark as a page of charts.
#pragma once
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace CLI {
class App;
}

namespace heddle {

void describe_html(CLI::App& command, std::string& path);

class HtmlReport {
 public:
  // Creates the file at once: a benchmark may take an hour, and its result must have a place. Empty: there is none.
  // Throws an Error that names it.
  explicit HtmlReport(std::string path);

  void write(const std::string& title, const nlohmann::ordered_json& figures);  // throws an Error

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace heddle
