// GET over HTTP(S) by libcurl, with what pulling needs: redirects that lose the token, ranges, bounds, and failures
// that say whether to try again.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace heddle::store {

struct HttpOptions {
  std::string ca_file;  // certificates to trust; empty: the system's
  double connect_seconds = 30;
  double stall_seconds = 60;                // without a byte: the connection is given up
  const std::atomic<bool>* stop = nullptr;  // set from outside: get() throws HttpStopped
  bool direct = false;                      // not through a proxy that the environment names
};

// Bytes of a file: [begin, end).
struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

struct HttpGet {
  std::string url;
  std::vector<std::string> headers = {};  // "Accept: text/plain"
  std::string token = {};                 // sent as a bearer token, to the host of `url` and to no other
  std::optional<ByteRange> range = {};
};

struct HttpHead {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  const std::string* find(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? nullptr : &found->second;
  }
};

// What went wrong with a request: no response (status 0), or one that is not 200 or 206.
struct HttpFailure : Error {
  HttpFailure(long code, bool worth_another, const std::string& message)
      : Error("{}", message), status(code), again(worth_another) {}
  long status;
  bool again;                               // it may work the next time
  std::optional<double> wait_seconds = {};  // that the server asks for
  std::string body = {};                    // its beginning, of an error of the server
  HttpHead head = {};
};
struct HttpStopped : Error {
  HttpStopped() : Error("interrupted") {}
};

// For one thread. Connections are kept for the next request.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Called with the head of a 200 or 206 before its body; may throw to refuse it.
  using OnHead = std::function<void(const HttpHead&)>;
  using OnBody = std::function<void(std::span<const uint8_t>)>;  // may throw
  // Follows up to 10 redirects. Throws HttpFailure.
  void get(const HttpGet& request, const OnHead& on_head, const OnBody& on_body);
  // The whole body; an Error if it has more than `max_bytes`.
  std::string get_text(const HttpGet& request, uint64_t max_bytes);

 private:
  struct Transfer;
  void perform(const HttpGet& request, const std::string& url, bool with_token, Transfer& transfer);

  HttpOptions options_;
  void* handle_;
};

// "https://host:443" of a URL: what a token belongs to. An Error for what is no http:// or https:// address.
std::string origin_of(const std::string& url);
std::string percent_encoded_path(std::string_view path);  // slashes stay

// "bytes 0-99/1234" -> the range and the size; unset for what is not of that form.
struct ContentRange {
  ByteRange range;
  uint64_t total;
};
std::optional<ContentRange> read_content_range(std::string_view text);

// Seconds of a Retry-After header; unset for a date, which servers of models do not send.
std::optional<double> read_retry_after(std::string_view text);

// Calls `attempt` until it does not throw a HttpFailure that is worth another attempt, or until `attempts` of them have
// failed since progress() changed. Waits between them as the server asks, or longer each time.
struct RetryPolicy {
  int attempts = 6;
  double first_wait = 0.5, max_wait = 60;  // seconds; a server that asks for more is not waited for
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> on_retry = {};  // one line, for the user
};
void with_retries(const RetryPolicy& policy, const std::function<uint64_t()>& progress,
                  const std::function<void()>& attempt);

}  // namespace heddle::store
