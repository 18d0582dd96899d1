// heddle bench client URL: many clients of a server that speaks OpenAI's API, heddle's or another: how fast it is to
// them, and how evenly.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace heddle {

struct BenchClientOptions {
  std::string url;                                    // "http://127.0.0.1:8080"
  std::string model, api_key;                         // empty: not said
  std::string prompts = "16-128", answers = "16-64";  // lengths, as serve-sim's: they fit weft's context of 512
  uint32_t clients = 8, requests = 64;
  uint32_t shared = 0;         // tokens that all prompts begin with
  uint32_t vocabulary = 4000;  // random tokens are below it
  bool text = false;           // prompts are words and not tokens
  double timeout = 600;        // seconds without a byte
  uint64_t seed = 1;
  bool json = false;
};
void describe_bench_client(CLI::App& bench, std::ostream& out);
// Throws an Error at the end if requests failed.
void bench_client(const BenchClientOptions& options, std::ostream& out);

}  // namespace heddle
