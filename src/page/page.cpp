// The files of src/page/web are copied into the program by the assembler. CMake writes their list, page/files.inc:
// HEDDLE_PAGE_FILE(number, "name", "path") for each.
#include "page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

#define HEDDLE_PAGE_TEXT(a) #a
// clang-format off
#define HEDDLE_PAGE_FILE(number, name, path)                  \
  __asm__(".pushsection .rodata\n"                            \
          "heddle_page_" HEDDLE_PAGE_TEXT(number) "_begin:\n" \
          ".incbin \"" path "\"\n"                            \
          "heddle_page_" HEDDLE_PAGE_TEXT(number) "_end:\n"   \
          ".byte 0\n"                                         \
          ".popsection\n");                                   \
  extern "C" const char heddle_page_##number##_begin[] __attribute__((visibility("hidden"))); \
  extern "C" const char heddle_page_##number##_end[] __attribute__((visibility("hidden")));
// clang-format on
#include "page/files.inc"
#undef HEDDLE_PAGE_FILE

namespace heddle::page {
namespace {

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  throw Error("{}: a file of the page without a type", name);
}

// FNV-1a of 64 bits: tells versions of a file apart.
std::string tag_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("\"{:016x}\"", hash);
}

File file_of(std::string_view name, const char* begin, const char* end) {
  const std::string_view text(begin, size_t(end - begin));
  return {name, text, type_of(name), tag_of(text)};
}

// A module as a part of an inline script: without its imports, which stand before it, and with plain declarations.
std::string as_plain_script(std::string_view module) {
  std::string out;
  while (!module.empty()) {
    std::string_view line = module.substr(0, module.find('\n'));
    module.remove_prefix(std::min(line.size() + 1, module.size()));
    if (line.starts_with("import ")) continue;
    if (line.starts_with("export ")) line.remove_prefix(7);
    out.append(line).append("\n");
  }
  return out;
}

std::string escaped(std::string_view text, std::string_view special, auto&& write) {
  std::string out;
  for (const char c : text)
    if (special.find(c) == special.npos)
      out += c;
    else
      out += write(c);
  return out;
}

std::string_view text_of_file(std::string_view name) {
  const File* file = find_file(name);
  check(file, "the file is a part of the program");
  return file->text;
}

}  // namespace

std::span<const File> files() {
#define HEDDLE_PAGE_FILE(number, name, path) file_of(name, heddle_page_##number##_begin, heddle_page_##number##_end),
  static const std::vector<File> all{
#include "page/files.inc"
  };
#undef HEDDLE_PAGE_FILE
  return all;
}

const File* find_file(std::string_view name) {
  const auto found = std::ranges::find(files(), name, &File::name);
  return found == files().end() ? nullptr : &*found;
}

std::string report(std::string_view title, std::string_view json) {
  const auto entity = [](char c) { return fmt::format("&#{};", int(c)); };
  const std::string name = escaped(title, "&<>\"'", entity);
  // within a string of JSON, the only place for these characters
  const std::string data = escaped(json, "<>&", [](char c) { return fmt::format("\\u{:04x}", int(c)); });
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>\n{1}{2}</style>\n</head>\n<body class=\"report\">\n"
      "<main><h1>{0}</h1><div id=\"report\"></div></main>\n"
      "<script type=\"application/json\" id=\"data\">{3}</script>\n<script type=\"module\">\n",
      name, text_of_file("base.css"), text_of_file("charts.css"), data);
  for (const char* module : {"dom.js", "charts.js", "report.js"}) out += as_plain_script(text_of_file(module));
  return out += "</script>\n</body>\n</html>\n";
}

}  // namespace heddle::page
