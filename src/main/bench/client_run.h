// Requests sent to a server over the network by clients who each wait for their answer, and when its pieces came.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct Place {
  std::string host, port;
  std::string base;  // what paths begin with: "" or "/v1"
};
// "http://host:port/v1"; an Error that names the option for another text.
Place place_of(const std::string& url);

struct ClientTraffic {
  std::vector<double> first;  // seconds from sending to the first token, of each request that got one
  std::vector<double> gaps;   // seconds between pieces
  std::vector<double> whole;  // seconds from sending to the end
  double seconds = 0;         // of everything
  uint64_t prompt = 0, generated = 0, cached = 0;  // tokens as the server counts them
  uint64_t pieces = 0;                             // of text that came
  uint32_t answered = 0, refused = 0, failed = 0;  // requests; refused: 429 or 503
  std::string reason;                              // of the first that was not answered
};
// `bodies`: of requests to /v1/completions. No more than `clients` at once.
ClientTraffic run_clients(const Place& place, const std::string& api_key, const std::vector<std::string>& bodies,
                          uint32_t clients, double timeout);

}  // namespace heddle
