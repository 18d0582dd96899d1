#include "server/service/exchange.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "server/http/inflate.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

// The client's own name for its request, if it can stand in a header and in a log.
std::string request_id(const HttpRequest& request) {
  const std::string* given = request.header("x-request-id");
  const bool usable = given && !given->empty() && given->size() <= 128 &&
                      std::all_of(given->begin(), given->end(), [](char c) { return c >= ' ' && c <= '~'; });
  return usable ? *given : random_id("req-");
}

constexpr const char* event_stream = "text/event-stream";

}  // namespace

std::string random_id(std::string_view prefix) {
  std::array<unsigned char, 12> bytes;
  if (::getentropy(bytes.data(), bytes.size()) != 0) throw Error("the system has no random numbers");
  return fmt::format("{}{:02x}", prefix, fmt::join(bytes, ""));
}

uint64_t client_at(std::string_view peer) {
  const std::string_view host = peer.substr(0, peer.rfind(':'));
  in6_addr address{};
  if (host.starts_with('[') && host.ends_with(']') &&
      ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address) == 1 &&
      !IN6_IS_ADDR_V4MAPPED(&address))
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(address.s6_addr), 8});
  return std::hash<std::string_view>()(host);
}

std::shared_ptr<Exchange> Exchange::open(std::shared_ptr<Traffic> traffic, HttpRequest request,
                                         std::shared_ptr<Responder> responder, std::string cors_origin) {
  std::shared_ptr<Exchange> exchange(
      new Exchange(std::move(traffic), std::move(request), std::move(responder), std::move(cors_origin)));
  exchange->traffic_->begin(exchange);
  exchange->responder_->on_disconnect([weak = std::weak_ptr(exchange)] {
    if (const auto found = weak.lock()) found->cancel(Cancelled::client_gone);
  });
  return exchange;
}

Exchange::Exchange(std::shared_ptr<Traffic> traffic, HttpRequest request, std::shared_ptr<Responder> responder,
                   std::string cors_origin)
    : traffic_(std::move(traffic)),
      cors_origin_(std::move(cors_origin)),
      request_(std::move(request)),
      responder_(std::move(responder)) {
  log_.time = std::chrono::system_clock::now();
  log_.id = request_id(request_);
  log_.peer = request_.peer;
  client_ = client_at(request_.peer);
  log_.method = request_.method;
  log_.path = request_.path;
  if (logs_prompts()) log_.body = request_.body;
}

Exchange::~Exchange() {
  if (ended_) return;
  log_.error = "no response";
  end(started_ ? status_ : 500);
}

void Exchange::set_route(const Route& route) {
  path_ = route.path;
  error_body_ = route.error_body;
  if (!route.id_header.empty()) add_header(std::string(route.id_header), id());
}

void Exchange::expand_body(size_t max_bytes) {
  const std::string* encoding = request_.header("content-encoding");
  if (!encoding) return;
  request_.body = decode_body(std::move(request_.body), *encoding, max_bytes);
  if (logs_prompts()) log_.body = request_.body;
}

void Exchange::send(HttpResponse response) {
  if (ended_) return;
  add_headers(response);
  bytes_ += response.body.size();
  status_ = response.status;
  responder_->send(std::move(response));
  end(status_);
}

void Exchange::send_early(HttpResponse response) {
  if (ended_) return;
  add_headers(response);
  bytes_ += response.body.size();
  status_ = response.status;
  started_ = true;
  traffic_->stream_began();
  responder_->send(std::move(response));
  responder_.reset();
}

void Exchange::fail(const ApiError& error, std::vector<Header> headers) {
  if (started_) return fail_stream(error, "");
  if (ended_) return;
  log_.error = error.what();
  ApiError named = error;
  named.request_id = id();
  HttpResponse response = error_response(named, error_body_);
  std::move(headers.begin(), headers.end(), std::back_inserter(response.headers));
  send(std::move(response));
}

void Exchange::add_header(std::string name, std::string value) {
  headers_.push_back({std::move(name), std::move(value)});
}

void Exchange::start_events(std::string first) { start_stream(event_stream, std::move(first)); }

void Exchange::start_stream(std::string type, std::string first) {
  if (ended_) return;
  HttpResponse head{.type = std::move(type),
                    .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                    .body = std::move(first)};
  add_headers(head);
  bytes_ += head.body.size();
  status_ = head.status;
  started_ = true;
  traffic_->stream_began();
  const std::lock_guard lock(stream_mutex_);
  beats_ = head.type == event_stream;  // others have no comments
  wrote_ = Clock::now();
  responder_->start(std::move(head));
}

void Exchange::write(std::string text) {
  if (ended_ || !responder_) return;
  bytes_ += text.size();
  const std::lock_guard lock(stream_mutex_);
  wrote_ = Clock::now();
  responder_->write(std::move(text));
}

void Exchange::beat(double seconds) {
  const std::lock_guard lock(stream_mutex_);
  if (!beats_ || seconds_since(wrote_) < seconds) return;
  wrote_ = Clock::now();
  responder_->write(": heartbeat\n\n");
}

void Exchange::end_beats() {
  const std::lock_guard lock(stream_mutex_);
  beats_ = false;
}

void Exchange::finish() {
  if (ended_) return;
  end_beats();
  if (responder_) responder_->finish();
  end(status_);
}

void Exchange::fail_stream(const ApiError& error, std::string last) {
  if (ended_) return;
  log_.error = error.what();
  if (!last.empty()) write(std::move(last));
  finish();
}

void Exchange::end_cancelled() {
  if (!ended_) end(499);
}

void Exchange::end(unsigned status) {
  ended_ = true;
  end_beats();
  responder_.reset();
  log_.status = cancelled() == Cancelled::client_gone ? 499 : status;
  log_.total = seconds();
  traffic_->end(this, path_, log_, started_, bytes_);
}

void Exchange::add_headers(HttpResponse& response) const {
  response.headers.push_back({"X-Request-Id", log_.id});
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  if (cors_origin_.empty()) return;
  response.headers.push_back({"Access-Control-Allow-Origin", cors_origin_});
  response.headers.push_back(
      {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Heddle-Ignored, X-Heddle-Clamped"});
  if (cors_origin_ != "*") response.headers.push_back({"Vary", "Origin"});
}

void Exchange::on_cancel(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_ == Cancelled::no) {
      on_cancel_ = std::move(callback);
      return;
    }
  }
  callback();
}

Cancelled Exchange::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Exchange::outlive_client() {
  const std::lock_guard lock(mutex_);
  outlives_client_ = true;
}

void Exchange::cancel(Cancelled why) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_ != Cancelled::no || (why == Cancelled::client_gone && outlives_client_)) return;
    cancelled_ = why;
    callback.swap(on_cancel_);
  }
  if (callback) callback();
}

}  // namespace heddle::server
