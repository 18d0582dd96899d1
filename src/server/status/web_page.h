// The web page: GET /, /status and their files. Needs no key; what the page shows comes from the API, with its key.
#pragma once
#include <string_view>

namespace heddle::server {

struct Call;

constexpr std::string_view page_path = "/page/";  // followed by the name of a file

void show_root(const Call& call);         // the page for browsers; for programs, a word that a server is there
void show_status_page(const Call& call);  // the view for operators
void show_page_file(const Call& call);

}  // namespace heddle::server
