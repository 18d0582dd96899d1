// heddle bench client URL: throughput and latency of a server with OpenAI's API, heddle's or another, as many clients
// at once measure it.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace heddle {

struct BenchClientOptions {
  std::string url;                                    // "http://127.0.0.1:8080"
  std::string model, api_key;                         // empty: not sent
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

// --- requests over the network --------------------------------------------------------------------------------------
struct ServerAddress {
  std::string host, port;
  std::string base;  // what paths begin with: "" or "/v1"
};
// "http://host:port/v1"; an Error otherwise.
ServerAddress parse_url(const std::string& url);

struct ClientTraffic {
  std::vector<double> first;  // seconds from sending to the first token, of each request that got one
  std::vector<double> gaps;   // seconds between chunks
  std::vector<double> whole;  // seconds from sending to the end
  double seconds = 0;         // of everything
  uint64_t prompt = 0, generated = 0, cached = 0;  // tokens as the server counts them
  uint64_t chunks = 0;                             // events with text
  uint32_t answered = 0, refused = 0, failed = 0;  // requests; refused: 429 or 503
  std::string reason;                              // of the first that was not answered
};
// `bodies`: of requests to /v1/completions. No more than `clients` at once.
ClientTraffic run_clients(const ServerAddress& server, const std::string& api_key,
                          const std::vector<std::string>& bodies, uint32_t clients, double timeout);

// The response to one request, parsed as its bytes arrive: head, chunks, and the events of a stream.
class ResponseStream {
 public:
  // `event` is called with what follows "data: " in each event; other bodies are kept as they are.
  explicit ResponseStream(std::function<void(std::string_view)> event) : event_(std::move(event)) {}

  // Throws an Error for what is not HTTP. True: the response is complete.
  bool take(std::string_view bytes);
  bool ends_with_connection() const { return expect_ == Expect::to_end; }  // nothing else marks its end

  unsigned status() const { return status_; }
  bool keeps_alive() const { return keep_alive_; }
  const std::string& body() const { return body_; }  // empty for a stream of events

 private:
  enum class Expect { head, chunk_size, chunk, chunk_end, last, counted, to_end, whole };
  void on_head(std::string_view head);
  void add(std::string_view text);
  std::optional<std::string> line();

  std::function<void(std::string_view)> event_;
  Expect expect_ = Expect::head;
  std::string rest_, body_;
  size_t left_ = 0;  // bytes of the chunk, or of the body
  unsigned status_ = 0;
  bool keep_alive_ = true, events_ = false;
};

}  // namespace heddle
