#include "main/bench/html_report.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "page/page.h"

namespace heddle {

void describe_html(CLI::App& command, std::string& path) {
  command.add_option("--html", path, "Also write the figures as a page of charts, one file without links")
      ->type_name("F");
}

HtmlReport::HtmlReport(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::binary);
  if (!file_) throw Error("--html: {} cannot be written: {}", path_, std::strerror(errno));
}

void HtmlReport::write(const std::string& title, const nlohmann::ordered_json& figures) {
  if (path_.empty()) return;
  file_ << page::report(title, figures.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!file_.flush()) throw Error("--html: {} cannot be written: {}", path_, std::strerror(errno));
}

}  // namespace heddle
