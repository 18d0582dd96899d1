#include "server/api/api_error.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "engine/metrics.h"
#include "server/api/json.h"

namespace heddle::server {
namespace {

void append_or_null(std::string& out, const std::string& text) {
  if (text.empty())
    out += "null";
  else
    append_json(out, text);
}

std::string_view openai_type(unsigned status) {
  if (status == 429) return "rate_limit_error";
  return status == 500 || status == 503 ? "server_error" : "invalid_request_error";  // 501 and 505 are the client's
}

}  // namespace

ApiError context_exceeded(std::string field, size_t prompt, uint32_t context) {
  ApiError error(
      400, "context_length_exceeded", std::move(field),
      "This model's maximum context length is {} tokens. However, the prompt has {} tokens: please shorten it.",
      context, prompt);
  error.excess = {prompt, context};
  return error;
}

ApiError model_not_found(std::string_view asked, std::string_view served) {
  return {404,   "model_not_found", "model", "The model {} does not exist here. Served here: {}", in_quotes(asked, 100),
          served};
}

ApiError model_not_loaded(std::string_view name, std::string_view why) {
  return {503, "model_not_loaded", "model", "{} could not be loaded: {}", in_quotes(name, 200), why};
}

ApiError busy(std::string_view reason, const engine::Metrics& metrics) {
  ApiError error(429, "rate_limit_exceeded", "", "{}", reason);
  error.retry_after = retry_after(metrics);
  return error;
}

ApiError unavailable(std::string_view reason) {
  ApiError error(503, "service_unavailable", "", "{}", reason);
  error.retry_after = 5;
  return error;
}

ApiError cancelled_by_request() { return {409, "cancelled", "", "the response was cancelled by another request"}; }

ApiError server_fault(std::string_view reason) { return {500, "", "", "{}", reason}; }

unsigned retry_after(const engine::Metrics& metrics) {
  uint64_t finished = 0;
  for (const uint64_t count : metrics.finished) finished += count;
  const double prompt = std::max(0., metrics.first_token_seconds.mean() - metrics.queue_seconds.mean());
  const double tokens = finished ? double(metrics.generated) / double(finished) : 0;
  const double completion = prompt + tokens * metrics.between_tokens_seconds.mean();
  const double seconds = double(metrics.waiting) * completion / double(std::max<uint64_t>(metrics.running, 1));
  return unsigned(std::clamp(std::ceil(seconds), 1., 600.));
}

std::string openai_error(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_json(out, std::string_view(error.what()));
  out += R"(,"type":)";
  append_json(out, openai_type(error.status));
  out += R"(,"param":)";
  append_or_null(out, error.param);
  out += R"(,"code":)";
  append_or_null(out, error.code);
  return out += "}}";
}

HttpResponse error_response(const ApiError& error, ErrorBody body) {
  HttpResponse response{.status = error.status, .body = body(error)};
  if (error.retry_after) response.headers.push_back({"Retry-After", std::to_string(*error.retry_after)});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});  // required by HTTP
  return response;
}

}  // namespace heddle::server
