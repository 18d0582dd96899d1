#include "server/api/api_error.h"

#include "server/api/json_text.h"

namespace heddle::server {
namespace {

void append_or_null(std::string& out, const std::string& text) {
  if (text.empty())
    out += "null";
  else
    append_json(out, text);
}

}  // namespace

std::string error_json(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_json(out, std::string_view(error.what()));
  out += R"(,"type":)";
  append_json(out, error.type);
  out += R"(,"param":)";
  append_or_null(out, error.param);
  out += R"(,"code":)";
  append_or_null(out, error.code);
  return out += "}}";
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after) response.headers.push_back({"Retry-After", std::to_string(*error.retry_after)});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});  // HTTP wants to hear it
  return response;
}

}  // namespace heddle::server
