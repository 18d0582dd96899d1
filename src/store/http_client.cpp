// Redirects are followed here and not by libcurl, so that one place decides where the token goes.
#include "store/http_client.h"

#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "base/clock.h"
#include "base/utf8.h"
#include "base/version.h"
#include "store/curl.h"
#include "store/names.h"

namespace heddle::store {
namespace {

constexpr int max_redirects = 10;
constexpr size_t max_error_body = 4096, max_header_bytes = 256 << 10;

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}
bool may_pass(long status) {  // of itself
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}
bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

std::string_view blanks_removed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

// The host is shown, not the whole of a signed address.
std::string shown(const std::string& url) { return url.substr(0, url.find('?')); }

std::string reason_of(long status) {
  switch (status) {
    case 401:
      return "401 (not authorized)";
    case 403:
      return "403 (forbidden)";
    case 404:
      return "404 (not found)";
    case 416:
      return "416 (no such range)";
    case 429:
      return "429 (too many requests)";
    case 500:
      return "500 (an error of the server)";
    case 503:
      return "503 (not available)";
    default:
      return fmt::format("{}", status);
  }
}

}  // namespace

struct HttpClient::Transfer {
  const OnHead& on_head;
  const OnBody& on_body;
  const HttpOptions& options;
  HttpHead head = {};
  size_t header_bytes = 0;
  bool began = false;  // the body of a 200 or 206
  std::string error_body = {};
  std::exception_ptr thrown = {};
  Clock::time_point last_byte = Clock::now();
  bool stalled = false;

  bool is_good() const { return head.status == 200 || head.status == 206; }
  bool stops() const { return options.stop && *options.stop; }

  // Exceptions do not pass through libcurl.
  template <class F>
  size_t guarded(size_t size, F&& f) {
    try {
      f();
      return size;
    } catch (...) {
      thrown = std::current_exception();
      return size + 1;  // any other number than `size`: libcurl gives up
    }
  }
  void take_header(std::string_view line) {
    last_byte = Clock::now();
    header_bytes += line.size();
    if (header_bytes > max_header_bytes)
      throw Error("expected up to {} bytes of headers, found more", max_header_bytes);
    if (line.starts_with("HTTP/")) {  // of this response, or of the one after a proxy's or a 100
      const size_t space = line.find(' ');
      head = {};
      head.status = long(number_of(line.substr(std::min(line.size(), space + 1), 3)).value_or(0));
      return;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) return;
    head.headers[lower_case(blanks_removed(line.substr(0, colon)))] = blanks_removed(line.substr(colon + 1));
  }
  void take_body(std::span<const uint8_t> bytes) {
    if (stops()) throw HttpStopped();
    last_byte = Clock::now();
    if (!is_good()) {
      error_body.append(reinterpret_cast<const char*>(bytes.data()),
                        std::min(bytes.size(), max_error_body - error_body.size()));
      return;
    }
    begin();
    on_body(bytes);
  }
  void begin() {
    if (began) return;
    began = true;
    if (on_head) on_head(head);
  }

  static size_t on_header_line(char* data, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->guarded(size * count, [&] {
      static_cast<Transfer*>(self)->take_header({data, size * count});
    });
  }
  static size_t on_bytes(char* data, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->guarded(size * count, [&] {
      static_cast<Transfer*>(self)->take_body({reinterpret_cast<const uint8_t*>(data), size * count});
    });
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.stalled = seconds_since(transfer.last_byte) > transfer.options.stall_seconds;
    return transfer.stops() || transfer.stalled ? 1 : 0;
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)), handle_(curl().easy_init()) {
  if (!handle_) throw Error("libcurl has no memory for a connection");
}
HttpClient::~HttpClient() { curl().easy_cleanup(handle_); }

void HttpClient::perform(const HttpGet& request, const std::string& url, bool with_token, Transfer& transfer) {
  const Curl& library = curl();
  library.easy_reset(handle_);  // connections stay
  const auto set = [&](CURLoption option, auto value) { library.easy_setopt(handle_, option, value); };
  curl_slist* headers = nullptr;
  struct Freed {
    curl_slist*& list;
    ~Freed() { curl().slist_free_all(list); }
  } freed{headers};
  const auto add = [&](const std::string& line) { headers = library.slist_append(headers, line.c_str()); };
  for (const std::string& line : request.headers) add(line);
  if (with_token) add("Authorization: Bearer " + request.token);
  const std::string agent = std::string("heddle/") + version;
  const std::string range =
      request.range ? fmt::format("{}-{}", request.range->begin, request.range->end - 1) : std::string();
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_USERAGENT, agent.c_str());
  if (!range.empty()) set(CURLOPT_RANGE, range.c_str());
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  if (options_.direct) set(CURLOPT_PROXY, "");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, long(options_.connect_seconds * 1000));
  set(CURLOPT_BUFFERSIZE, long(256 << 10));
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header_line);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  char why[CURL_ERROR_SIZE] = {};
  set(CURLOPT_ERRORBUFFER, why);
  const CURLcode code = library.easy_perform(handle_);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.stops()) throw HttpStopped();
  if (code == CURLE_ABORTED_BY_CALLBACK && transfer.stalled)
    throw HttpFailure(0, true, fmt::format("{}: no byte came for {} s", shown(url), options_.stall_seconds));
  if (code != CURLE_OK)
    throw HttpFailure(
        0, is_passing(code),
        fmt::format(
            "{}: {}{}", shown(url), *why ? why : library.easy_strerror(code),
            code == CURLE_PEER_FAILED_VERIFICATION ? " (SSL_CERT_FILE names other certificates to trust)" : ""));
}

void HttpClient::get(const HttpGet& request, const OnHead& on_head, const OnBody& on_body) {
  const std::string owner = origin_of(request.url);
  std::string url = request.url;
  for (int redirects = 0;; ++redirects) {
    Transfer transfer{on_head, on_body, options_};
    perform(request, url, !request.token.empty() && origin_of(url) == owner, transfer);
    if (transfer.is_good()) return transfer.begin();  // an empty body has not begun it
    const char* next = nullptr;
    if (is_redirect(transfer.head.status)) curl().easy_getinfo(handle_, CURLINFO_REDIRECT_URL, &next);
    if (!next) {
      HttpFailure failure(transfer.head.status, may_pass(transfer.head.status),
                          fmt::format("{}: the server answered {}", shown(url), reason_of(transfer.head.status)));
      if (const std::string* wait = transfer.head.find("retry-after")) failure.wait_seconds = read_retry_after(*wait);
      failure.body = std::move(transfer.error_body);
      failure.head = std::move(transfer.head);
      throw failure;
    }
    if (redirects == max_redirects)
      throw Error("{}: expected up to {} redirects, found more", shown(request.url), max_redirects);
    const std::string to = next;
    origin_of(to);  // refuses what is not HTTP
    if (url.starts_with("https://") && !to.starts_with("https://"))
      throw Error("{}: redirects to {}, which is not encrypted", shown(url), in_quotes(shown(to)));
    url = to;
  }
}

std::string HttpClient::get_text(const HttpGet& request, uint64_t max_bytes) {
  std::string text;
  get(request, {}, [&](std::span<const uint8_t> bytes) {
    if (bytes.size() > max_bytes - text.size())
      throw Error("{}: expected up to {} bytes, found more", shown(request.url), max_bytes);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return text;
}

std::string origin_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string kind = scheme == url.npos ? "" : lower_case(url.substr(0, scheme));
  const size_t begin = scheme + 3, end = kind.empty() ? 0 : std::min(url.find_first_of("/?#", begin), url.size());
  const std::string host = kind.empty() ? "" : lower_case(url.substr(begin, end - begin));
  const bool plain = !host.empty() && host.find_first_of("@\\ \t\r\n") == host.npos;
  if ((kind != "http" && kind != "https") || !plain)
    throw Error("expected an address that begins with http:// or https://, found {}", in_quotes(url));
  const bool has_port = host.find(':', host.find(']') == host.npos ? 0 : host.find(']')) != host.npos;
  return fmt::format("{}://{}{}", kind, host, has_port ? "" : kind == "http" ? ":80" : ":443");
}

std::string percent_encoded_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~' || c == '/';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", uint8_t(c));
  }
  return out;
}

std::optional<ContentRange> read_content_range(std::string_view text) {
  constexpr std::string_view unit = "bytes ";
  if (!text.starts_with(unit)) return std::nullopt;
  text.remove_prefix(unit.size());
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || slash < dash) return std::nullopt;
  const auto first = number_of(text.substr(0, dash)), last = number_of(text.substr(dash + 1, slash - dash - 1)),
             total = number_of(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return ContentRange{{*first, *last + 1}, *total};
}

std::optional<double> read_retry_after(std::string_view text) {
  const auto seconds = number_of(text);
  if (!seconds || *seconds > 1'000'000'000) return std::nullopt;
  return double(*seconds);
}

void with_retries(const RetryPolicy& policy, const std::function<uint64_t()>& progress,
                  const std::function<void()>& attempt) {
  uint64_t last = progress();
  for (int failed = 0;;) {
    try {
      return attempt();
    } catch (const HttpFailure& failure) {
      if (!failure.again) throw;
      if (const uint64_t now = progress(); now != last) {
        last = now;
        failed = 0;
      }
      double wait = policy.first_wait * double(1 << std::min(failed, 10));
      if (failure.wait_seconds && *failure.wait_seconds > policy.max_wait)
        throw HttpFailure(
            failure.status, false,
            fmt::format("{}, and asks to wait {} s; try again then", failure.what(), *failure.wait_seconds));
      if (++failed >= policy.attempts)
        throw HttpFailure(failure.status, false, fmt::format("{} ({} attempts)", failure.what(), failed));
      wait = std::min(failure.wait_seconds.value_or(wait), policy.max_wait);
      if (policy.on_retry) policy.on_retry(fmt::format("{}; trying again in {:.1f} s", failure.what(), wait));
      const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait);
      while (std::chrono::steady_clock::now() < until) {
        if (policy.stop && *policy.stop) throw HttpStopped();
        std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int>(50, int(wait * 1000) + 1)));
      }
    }
  }
}

}  // namespace heddle::store
