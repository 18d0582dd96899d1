// What a client is told when its request cannot be done, in the shape of OpenAI's API.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "server/http/http.h"

namespace heddle::server {

struct ApiError : Error {
  template <class... Args>
  ApiError(unsigned its_status, std::string its_type, std::string its_code, std::string its_param,
           fmt::format_string<Args...> text, Args&&... args)
      : Error(text, std::forward<Args>(args)...),
        status(its_status),
        type(std::move(its_type)),
        code(std::move(its_code)),
        param(std::move(its_param)) {}

  unsigned status;
  std::string type;                     // "invalid_request_error"
  std::string code;                     // "context_length_exceeded"; empty: null
  std::string param;                    // the field, "messages[2].content"; empty: null
  std::optional<unsigned> retry_after;  // seconds
};

// 400 for a field: what was expected and found.
template <class... Args>
ApiError bad_field(std::string field, fmt::format_string<Args...> text, Args&&... args) {
  return {400, "invalid_request_error", "", std::move(field), text, std::forward<Args>(args)...};
}

std::string error_json(const ApiError& error);  // {"error":{"message":...,"type":...,"param":...,"code":...}}
HttpResponse error_response(const ApiError& error);

}  // namespace heddle::server
