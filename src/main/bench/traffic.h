// What the benches of many requests share: synthetic traffic, all a function of a seed, and the summary of latencies.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

// "512", "16-512" (each as likely) or "512:0.8,4096:0.2" (by weight; both kinds can be mixed).
class LengthMix {
 public:
  // Throws an Error that names `option` if this is not such a text.
  LengthMix(const std::string& option, const std::string& text);

  uint32_t draw(double which, double within) const;  // two random numbers, 0 <= x < 1
  uint32_t longest() const;

 private:
  struct Range {
    uint32_t from, to;
    double weight;
  };
  std::vector<Range> ranges_;
};

// "4096@2.5": a prompt of 4096 tokens after 2.5 seconds; "4096": when all streams run.
struct LongPrompt {
  uint32_t tokens = 0;
  std::optional<double> at;
};
LongPrompt long_prompt(const std::string& text);

struct TrafficOptions {
  LengthMix prompts, answers;
  uint32_t requests = 0;
  double rate = 0;  // per second; 0: all at once
  uint32_t shared = 0;
  std::optional<LongPrompt> long_one;
  uint64_t seed = 0;
  uint32_t turns = 1;  // of each conversation
};

struct Arrival {
  std::optional<double> at;  // seconds; unset: when all streams run
  std::vector<uint32_t> prompt;
  uint32_t answer = 0;  // max_tokens
  struct Turn {
    std::vector<uint32_t> prompt;  // after all before it and its answer
    uint32_t answer = 0;
  };
  std::vector<Turn> later = {};  // when the one before has ended
};
// In the order of their arrival; the long one, if any, is the last.
std::vector<Arrival> make_traffic(const TrafficOptions& options, uint32_t vocabulary);

// --- latencies ------------------------------------------------------------------------------------------------------
// The smallest value that a share q of all values does not exceed; 0 without values. Reorders them.
double quantile(std::vector<double>& values, double q);
nlohmann::ordered_json percentiles(std::vector<double>& seconds);                 // p50, p90, p99 and max
std::string percentiles_text(const nlohmann::ordered_json& percentiles);          // "p50 1.0 ms, p90 ..."
std::string ms_text(double seconds);                                              // "1.0 ms"
void print_figure(std::ostream& out, const char* name, const std::string& text);  // a line of a table

}  // namespace heddle
