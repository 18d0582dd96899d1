// What the service itself refuses, and with which words.
#pragma once
#include <string>
#include <string_view>

#include "engine/metrics.h"
#include "server/api/api_error.h"

namespace heddle::server {

// 400 context_length_exceeded. `asked`: new tokens that were asked for, 0: none in particular.
ApiError too_long(std::string field, size_t prompt, uint64_t asked, uint32_t context);
ApiError model_not_found(std::string_view asked, std::string_view served);  // 404
ApiError busy(std::string_view reason, const engine::Metrics& metrics);  // 429, with an estimate of when to try again
ApiError unavailable(std::string_view reason);                           // 503, worth another try soon
ApiError server_fault(std::string_view reason);                          // 500

// Seconds until those who wait now have begun, at the pace of those before: 1 to 600.
unsigned retry_after(const engine::Metrics& metrics);

}  // namespace heddle::server
