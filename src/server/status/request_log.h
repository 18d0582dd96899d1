// The log: a line of JSON for each request.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/generation.h"

namespace heddle::server {

struct LogEntry {
  std::chrono::system_clock::time_point time;  // when the request arrived
  std::string id, peer, method, path;          // method and path are empty if they could not be read
  unsigned status = 0;                         // 499: the client closed the connection before the end
  double total = 0;                            // seconds
  // What follows is left out of the line where it is empty.
  std::string model;
  std::optional<Usage> tokens;
  std::vector<std::string> finish_reasons;  // of its completions
  std::optional<double> queue;              // seconds in the engine's queue
  std::optional<double> first_token;        // seconds from the arrival to the first token
  std::string user, error;
  std::string body;                      // of the request, where prompts are logged
  std::vector<std::string> completions;  // their texts, where prompts are logged
};

std::string log_line(const LogEntry& entry);                       // without a line end
std::string iso_time(std::chrono::system_clock::time_point time);  // "2026-11-15T08:03:59.250Z"

}  // namespace heddle::server
