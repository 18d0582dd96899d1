// Why a request is refused or fails, as the client learns it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "server/http/http.h"

namespace heddle::engine {
struct Metrics;
}

namespace heddle::server {

struct ApiError : Error {
  template <class... Args>
  ApiError(unsigned http_status, std::string reason, std::string field, fmt::format_string<Args...> text,
           Args&&... args)
      : Error(text, std::forward<Args>(args)...),
        status(http_status),
        code(std::move(reason)),
        param(std::move(field)) {}

  unsigned status;
  std::string code;                     // OpenAI's name of the reason, "context_length_exceeded"; may be empty
  std::string param;                    // the field it is about, "messages[2].content"; may be empty
  std::optional<unsigned> retry_after;  // seconds
  struct Excess {
    size_t prompt, context;  // tokens
  };
  std::optional<Excess> excess;  // of a prompt that is too long
  std::string request_id;        // filled in for the response, for protocols that write it
};

// 400 for a field; the text says what was expected and what was found.
template <class... Args>
ApiError bad_field(std::string field, fmt::format_string<Args...> text, Args&&... args) {
  return {400, "", std::move(field), text, std::forward<Args>(args)...};
}

ApiError context_exceeded(std::string field, size_t prompt,
                          uint32_t context);                                // 400: no room for the prompt and a token
ApiError model_not_found(std::string_view asked, std::string_view served);  // 404; `served`: Models::names()
ApiError model_not_loaded(std::string_view name, std::string_view why);     // 503
ApiError busy(std::string_view reason, const engine::Metrics& metrics);     // 429, with an estimate of when to retry
ApiError unavailable(std::string_view reason);                              // 503, to be retried in 5 seconds
ApiError server_fault(std::string_view reason);                             // 500
ApiError cancelled_by_request();                                            // 409: another request asked for it

// Seconds until the requests that wait now have begun, at the pace of those before: 1 to 600.
unsigned retry_after(const engine::Metrics& metrics);

// The body of an error in some protocol.
using ErrorBody = std::string (*)(const ApiError& error);
// OpenAI's: {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string openai_error(const ApiError& error);

HttpResponse error_response(const ApiError& error, ErrorBody body = openai_error);

}  // namespace heddle::server
