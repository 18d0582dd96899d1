// The web page that the server shows: its files, which are a part of the program, and pages of charts that need no
// server.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace heddle::page {

struct File {
  std::string_view name;  // "chat.js"
  std::string_view text;
  std::string_view type;  // "text/javascript; charset=utf-8"
  std::string tag;        // changes with the text
};
std::span<const File> files();
const File* find_file(std::string_view name);  // null: there is none

// A page that shows the JSON of a benchmark as charts: one document, without requests to anywhere. `title` is plain
// text.
std::string report(std::string_view title, std::string_view json);

}  // namespace heddle::page
