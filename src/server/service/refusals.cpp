#include "server/service/refusals.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace heddle::server {

ApiError too_long(std::string field, size_t prompt, uint64_t asked, uint32_t context) {
  const std::string found =
      asked
          ? fmt::format("{} tokens were requested ({} in the prompt, {} in the completion): please shorten one of them",
                        prompt + asked, prompt, asked)
          : fmt::format("the prompt has {} tokens: please shorten it", prompt);
  return {400,
          "invalid_request_error",
          "context_length_exceeded",
          std::move(field),
          "This model's maximum context length is {} tokens. However, {}.",
          context,
          found};
}

ApiError model_not_found(std::string_view asked, std::string_view served) {
  return {404,
          "invalid_request_error",
          "model_not_found",
          "model",
          "The model {} does not exist here. What is served: {}",
          in_quotes(asked, 100),
          in_quotes(served, 200)};
}

ApiError busy(std::string_view reason, const engine::Metrics& metrics) {
  ApiError error(429, "rate_limit_error", "rate_limit_exceeded", "", "{}", reason);
  error.retry_after = retry_after(metrics);
  return error;
}

ApiError unavailable(std::string_view reason) {
  ApiError error(503, "server_error", "service_unavailable", "", "{}", reason);
  error.retry_after = 5;
  return error;
}

ApiError server_fault(std::string_view reason) { return {500, "server_error", "", "", "{}", reason}; }

unsigned retry_after(const engine::Metrics& metrics) {
  uint64_t finished = 0;
  for (const uint64_t count : metrics.finished) finished += count;
  // an answer is begun, made and over; so many of them at the same time
  const double begin = std::max(0., metrics.first_token_seconds.mean() - metrics.queue_seconds.mean());
  const double tokens = finished ? double(metrics.generated) / double(finished) : 0;
  const double answer = begin + tokens * metrics.between_tokens_seconds.mean();
  const double seconds = double(metrics.waiting) * answer / double(std::max<uint64_t>(metrics.running, 1));
  return unsigned(std::clamp(std::ceil(seconds), 1., 600.));
}

}  // namespace heddle::server
