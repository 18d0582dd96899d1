#include "server/status/web_page.h"

#include "page/page.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

// Nothing but the page's own files, nothing inline, no HTML made of strings, and no other site may frame it.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

// Browsers ask again every time, and get the file only if it has changed.
void send_file(const Call& call, const page::File& file) {
  HttpResponse response{.type = std::string(file.type),
                        .headers = {{"ETag", file.tag},
                                    {"Cache-Control", "no-cache"},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Opener-Policy", "same-origin"},
                                    {"Content-Security-Policy", policy}}};
  const std::string* known = call.exchange->request().header("if-none-match");
  if (known && (*known == "*" || known->find(file.tag) != known->npos))
    response.status = 304;
  else
    response.body = file.text;
  call.exchange->send(std::move(response));
}

void send_named(const Call& call, std::string_view name) {
  const page::File* file = page::find_file(name);
  if (!file)
    throw ApiError(404, "unknown_url", "", "There is no {} here", in_quotes(call.exchange->request().path, 100));
  send_file(call, *file);
}

}  // namespace

void show_root(const Call& call) {
  call.exchange->add_header("Vary", "Accept");
  const std::string* accepted = call.exchange->request().header("accept");
  if (accepted && accepted->find("text/html") != accepted->npos) return send_named(call, "chat.html");
  call.exchange->send({.type = "text/plain; charset=utf-8", .body = "heddle is running"});
}

void show_status_page(const Call& call) { send_named(call, "status.html"); }

void show_page_file(const Call& call) {
  send_named(call, std::string_view(call.exchange->request().path).substr(page_path.size()));
}

}  // namespace heddle::server
