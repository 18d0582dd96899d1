// A line of JSON for each request: what was asked, what came of it and how long it took.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/replies.h"

namespace heddle::server {

struct LogEntry {
  std::chrono::system_clock::time_point time;  // of the request
  std::string id, peer, method, path;          // the last two may be empty: it was refused before they were read
  unsigned status = 0;                         // 499: the client went away before the end
  std::string model;                           // empty, as all that follows: nothing to say
  std::optional<Usage> tokens;
  std::vector<std::string> finishes;         // of its choices, in order
  std::optional<double> queue, first_token;  // seconds, from the engine and from the request on
  double total = 0;                          // seconds
  std::string user, error;
  std::string body;                // of the request, where prompts are logged
  std::vector<std::string> texts;  // its answers, where prompts are logged
};

std::string log_line(const LogEntry& entry);                       // without a line end
std::string iso_time(std::chrono::system_clock::time_point time);  // "2026-11-15T08:03:59.250Z"

}  // namespace heddle::server
