// Boost.Beast's parser, with what it leaves to its user: limits on the whole header, and framing that it accepts.
#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "base/utf8.h"
#include "server/api/api_error.h"

namespace heddle::server {
namespace {

namespace http = boost::beast::http;

// An error about the whole request, not about a field of its body.
template <class... Args>
ApiError refused(unsigned status, std::string code, fmt::format_string<Args...> text, Args&&... args) {
  return {status, std::move(code), "", text, std::forward<Args>(args)...};
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = char(c + 'a' - 'A');
  return result;
}

// "HTTP/2.0" at the end of the first line: a version that is not supported.
bool other_version(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const auto digit = [&](size_t from_end) {
    return line[line.size() - from_end] >= '0' && line[line.size() - from_end] <= '9';
  };
  return line.size() > 9 && line.substr(line.size() - 9, 6) == " HTTP/" && digit(3) && line[line.size() - 2] == '.' &&
         digit(1);
}

// "http://host/path" -> "/path": proxies send it so.
std::string_view without_host(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (lower(target.substr(0, scheme.size())) != scheme) continue;
    const size_t at = target.find_first_of("/?", scheme.size());
    return at == target.npos ? "/" : target.substr(at);
  }
  return target;
}

// uri-host [ ":" port ] of RFC 9110: a name, an IPv4 address, or an IP literal in brackets. Empty where the target of
// the request has no host.
bool is_host(std::string_view value) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_hex = [&](char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); };
  const auto in_name = [&](char c) {
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           std::string_view("-._~!$&'()*+,;=").find(c) != std::string_view::npos;
  };
  std::string_view host = value;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == host.npos || end < 3) return false;
    const std::string_view literal = host.substr(1, end - 1);
    const bool future = (literal[0] | 0x20) == 'v';  // "v1.name"
    if (!std::all_of(literal.begin(), literal.end(),
                     [&](char c) { return c == ':' || (future ? in_name(c) : is_hex(c) || c == '.'); }))
      return false;
    host.remove_prefix(end + 1);
  } else {
    size_t at = 0;
    for (; at < host.size() && host[at] != ':'; ++at) {
      if (in_name(host[at])) continue;
      if (host[at] != '%' || at + 2 >= host.size() || !is_hex(host[at + 1]) || !is_hex(host[at + 2])) return false;
      at += 2;
    }
    if (at == 0 && !host.empty()) return false;
    host.remove_prefix(at);
  }
  if (host.empty()) return true;
  host.remove_prefix(1);
  return value[value.size() - host.size() - 1] == ':' && host.size() <= 5 &&
         std::all_of(host.begin(), host.end(), is_digit);
}

}  // namespace

struct RequestReader::State {
  using Parser = http::request_parser<http::string_body>;

  size_t max_header, max_body;
  std::optional<Parser> parser;
  size_t header_bytes = 0;  // read so far
  bool begun = false;
  Framing framing;
  HttpRequest request;

  void begin() {
    parser.emplace();
    parser->header_limit(uint32_t(std::min<size_t>(max_header, UINT32_MAX)));
    parser->body_limit(uint64_t(max_body));
    header_bytes = 0;
    begun = false;
    framing = {};
  }

  [[noreturn]] void refuse(boost::beast::error_code error, const std::string& bytes) {
    if (error == http::error::header_limit) too_long();
    if (error == http::error::body_limit) {
      take_head();  // it is complete: its Content-Length is too large
      throw refused(413, "request_too_large", "the body is too long: expected at most {} bytes", max_body);
    }
    if (error == http::error::bad_version && other_version(bytes))
      throw refused(505, "", "expected HTTP/1.1 or HTTP/1.0, found another version");
    throw refused(400, "", "this is not an HTTP request: {}", error.message());
  }
  [[noreturn]] void too_long() const {
    throw refused(431, "request_header_fields_too_large", "the header is too long: expected at most {} bytes",
                  max_header);
  }

  std::vector<std::string> values(const char* name) const {
    std::vector<std::string> found;
    for (const Header& header : request.headers)
      if (header.name == name) found.push_back(header.value);
    return found;
  }

  void take_head() {
    const auto& message = parser->get();
    request = {.method = std::string(message.method_string())};
    const std::string_view target = without_host({message.target().data(), message.target().size()});
    const size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != target.npos) request.query = target.substr(mark + 1);
    for (const auto& field : message)
      request.headers.push_back(
          {lower({field.name_string().data(), field.name_string().size()}), std::string(field.value())});
  }

  void on_header() {
    take_head();
    framing = {.http10 = parser->get().version() < 11,
               .keep_alive = parser->keep_alive(),
               .head_only = request.method == "HEAD"};
    expect_framing();
    const size_t hosts = values("host").size();
    if (hosts > 1 || (hosts == 0 && !framing.http10))
      throw refused(400, "", "Host: expected once, found {} times", hosts);
    for (const std::string& value : values("host"))
      if (!is_host(value))
        throw refused(400, "", "Host: expected a host, and perhaps a port, found {}", in_quotes(value, 100));
    for (const std::string& value : values("expect")) {
      if (lower(value) != "100-continue")
        throw refused(417, "", "Expect: expected 100-continue, found {}", in_quotes(value));
      framing.expects_continue = !framing.http10;
    }
  }

  void expect_framing() const {
    const std::vector<std::string> encodings = values("transfer-encoding");
    if (encodings.empty()) return;
    if (!values("content-length").empty())
      throw refused(400, "", "expected Content-Length or Transfer-Encoding, found both");
    if (framing.http10) throw refused(400, "", "Transfer-Encoding: not allowed in HTTP/1.0");
    if (encodings.size() > 1 || lower(encodings[0]) != "chunked")
      throw refused(501, "", "Transfer-Encoding: expected chunked, found {}", in_quotes(encodings[0]));
  }
};

RequestReader::RequestReader(size_t max_header, size_t max_body) : state_(new State{max_header, max_body}) {
  state_->begin();
}
RequestReader::~RequestReader() = default;

RequestReader::Stage RequestReader::read(std::string& bytes) {
  State& s = *state_;
  auto& parser = *s.parser;
  if (!s.begun) {
    bytes.erase(0, std::min(bytes.find_first_not_of("\r\n"),
                            bytes.size()));  // some clients send an empty line between requests
    s.begun = !bytes.empty();
  }
  while (!bytes.empty() && !parser.is_done()) {
    const bool in_header = !parser.is_header_done();
    boost::beast::error_code error;
    const size_t used = parser.put(boost::asio::buffer(bytes), error);
    const bool more = error == http::error::need_more;
    if (error && !more) s.refuse(error, bytes);
    bytes.erase(0, used);
    // an incomplete line is one of the header, the size of a chunk, or a trailer field
    if (in_header) s.header_bytes += used;
    if (s.header_bytes > s.max_header || (more && bytes.size() > s.max_header)) s.too_long();
    if (more) break;
    if (in_header && parser.is_header_done()) {
      s.on_header();
      parser.eager(true);
    }
  }
  return parser.is_done() ? Stage::complete : parser.is_header_done() ? Stage::body : Stage::header;
}

bool RequestReader::begun() const { return state_->begun; }
const RequestReader::Framing& RequestReader::framing() const { return state_->framing; }

const HttpRequest& RequestReader::head() const { return state_->request; }
size_t RequestReader::body_bytes() const { return state_->parser->get().body().size(); }

HttpRequest RequestReader::take() {
  check(state_->parser->is_done(), "the request is complete");
  state_->request.body = std::move(state_->parser->get().body());
  state_->begin();
  return std::move(state_->request);
}

}  // namespace heddle::server
